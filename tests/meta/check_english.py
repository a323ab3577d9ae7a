"""README.md, CONTRIBUTING.md, ARCHITECTURE.md and docs/ avoid the commonest mistakes of our English, and comments that
open without a subject do not increase. CONTRIBUTING.md has the rules, with pairs of sentences: each mistake is in one
of those before, and none is in those after.

Quotations are left out: code, output, and tables that a program writes.
"""
import re

from metalib import CPP_SUFFIXES, LAYERS, run

# A pattern that no sentence may match, and what to write instead.
MISTAKES = {
    r"^Of (?!course\b)[a-z]": "a sentence opens with \"Of\": say its subject first",
    r"^(?:Those|Whose|Whom|Who) (?!.*\?$).*[.:]$": "a sentence opens with \"Those\", \"Who\" ...: name the noun",
    r"^What (?!.*\?$).*[.:]$": "a sentence opens with \"What\": name the thing",
    r"^Where (?!.*\?$)[a-z].*[.:]$": "a condition opens with \"Where\": write \"If\"",
    r"\b(?:is|are|was|were) told\b(?! (?:to|apart|from)\b)":
        "\"is told\": write \"is reported\", \"is shown\", \"is named\"",
    r"\btells? of\b": "\"tells of\": write \"shows\" or \"names\"",
    r"\b(?:is|are) said\b": "\"is said\": write \"the report says\"",
    r"\b(?:lies|stands) (?:in|on|at|by|beside|below|above|under|behind|between|there|around)\b":
        "\"lies in\", \"stands at\": write \"is in\", \"is at\"",
    r"\b(?:finds?|found) no (?:room|place)\b": "\"finds no room\": say what the limit is",
    r"\bcomes? by (?:itself|themselves)\b": "\"comes by itself\": say what brings it",
    r"\b[Ww]hoever\b": "\"whoever\": name the person, rank or process",
    r"\ball the same\b": "\"all the same\": write \"nevertheless\" or \"still\"",
}
# Comments of programs that open without a subject: at most this many. Lower the number when there are fewer.
COMMENT = re.compile(r'^\s*(?://+|#|"""|/\*+) *(?:Of|Those|Whose|Whom|Such) [a-z]', re.M)
MOST_COMMENTS = 30
PAIR = re.compile(r"^\| (.+?) \| (.+?) \|$", re.M)


def prose(text):
    """The sentences of a page, without quotations and without bold titles; cells and headings are sentences, too."""
    text = re.sub(r"(?ms)^ *```.*?^ *```|<!-- (?:begin)?:? ?([\w ]+?)\b.*?-->.*?<!-- end\b.*?-->", "", text)
    text = re.sub(r"`[^`]*`", "`x`", re.sub(r"\]\([^)]*\)", "]", text))
    text = re.sub(r'"[^"\n]*(?:\n[^"\n]+)?"', '"x"', text)
    for block in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )|\n(?=[|#])", text):
        block = re.sub(r"^(?:(?:[#>*-]+|\d+\.) +)?(?:\*\*[^*]+\*\*)?", "", " ".join(block.split()))
        for part in block.split(" | ") if block.startswith("|") else [block]:
            for sentence in re.split(r"(?<=[.!?:]) +(?=[A-Z*`\[])", part.strip("| ")):
                yield re.sub(r"^\W*", "", sentence)


def mistakes(sentence):
    return [advice for pattern, advice in MISTAKES.items() if re.search(pattern, sentence)]


def pages(tree):
    top = [tree.root / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    return [path for path in [*top, *tree.files("docs", suffixes={".md"})]
            if path.exists() and tree.name(path) not in ("docs/reference/findings.md", "docs/evidence/casebook.md")]


def check(tree):
    problems = []
    for path in pages(tree):
        text = tree.text(path)
        if path.name == "CONTRIBUTING.md":
            problems += pair_problems(text)
            text = PAIR.sub("", text)
        problems += [f"{tree.name(path)}: {advice}: {sentence[:80]}"
                     for sentence in prose(text) for advice in mistakes(sentence)]
    sources = tree.files(*LAYERS, "python", "scripts", suffixes=CPP_SUFFIXES | {".py", ""})
    comments = sum(len(COMMENT.findall(tree.text(path))) for path in sources)
    if comments > MOST_COMMENTS:
        problems.append(f"{comments} comments open with \"Of\", \"Those\", \"Whose\", \"Whom\" or \"Such\" (limit "
                        f"{MOST_COMMENTS}): a comment says its subject")
    return problems


def pair_problems(text):
    rows = [row for row in PAIR.findall(text) if row[0] not in ("before", "---")]
    found = {advice for before, _ in rows for sentence in prose(before) for advice in mistakes(sentence)}
    problems = [f"CONTRIBUTING.md shows no pair for this: {advice}" for advice in MISTAKES.values()
                if rows and advice not in found]
    return problems + [f"CONTRIBUTING.md: {advice}: {after}" for _, after in rows
                       for sentence in prose(after) for advice in mistakes(sentence)]


PAIRS = "| before | after |\n|---|---|\n" + "".join(f"| {before} | It is so. |\n" for before in (
    "Of these one is kept.", "Those with titles.", "What is left is counted.", "Where it is off, arrows join.",
    "It is told at the end.", "It tells of a limit.", "That is said.", "It lies in a dump.", "It finds no room.",
    "It comes by itself.", "Whoever asks waits.", "It runs all the same."))
BAD = {
    **{f"page: {sentence}": (advice, {"docs/a.md": f"# Title\n\nIt is so. {sentence}\n"})
       for sentence, advice in (
           ("Of these, one is kept.", "opens with \"Of\""), ("Whose ranks are late is shown.", "name the noun"),
           ("What is left is counted.", "name the thing"), ("Where it is off, arrows join.", "write \"If\""),
           ("The names are told at\nthe end.", "is told"), ("It tells of a limit.", "tells of"),
           ("The number is said.", "is said"), ("The ring lies\nbeside it.", "lies in"),
           ("The span finds no room.", "finds no room"), ("The verdict comes by itself.", "comes by itself"),
           ("The row goes to whoever asks.", "whoever"), ("It is known all the same.", "all the same"))},
    "a cell": ("is told", {"README.md": "| a | b |\n|---|---|\n| x | it is told |\n"}),
    "an item": ("opens with \"Of\"", {"docs/a.md": "- one\n- Of these, none.\n"}),
    "a mistake without a pair": ("no pair for this: \"is told\"",
                                 {"CONTRIBUTING.md": PAIRS.replace("It is told at the end.", "It is so.")}),
    "a pair that mends nothing": ("CONTRIBUTING.md: \"is told\"",
                                  {"CONTRIBUTING.md": PAIRS + "| It is so. | It is told. |\n"}),
    "a comment": (f"{MOST_COMMENTS + 1} comments open",
                  {"analyzer/a.cpp": "// Of the run.\n" * MOST_COMMENTS + "    // Those of it.\n"}),
}
GOOD = {
    "quoted": {"docs/a.md": "It says \"Of these, none\" and `is told`.\n\n```\nOf these, it is told.\n```\n"},
    "written by a program": {"docs/a.md": "<!-- table -->\n| it is told |\n<!-- end of table -->\n"},
    "a question": {"docs/a.md": "# Where is every thread?\n\nWho waits for whom?\n"},
    "pairs": {"CONTRIBUTING.md": PAIRS},
    "comments": {"analyzer/a.cpp": "// The run of those.\n"},
}

if __name__ == "__main__":
    run(check, BAD, GOOD)

"""docs/reference/findings.md shows every kind of finding and warning that the analyzer knows, and no other, in the
analyzer's words; its commands still exist."""
import re
import subprocess

from metalib import run

KIND = re.compile(r'FINDING_KIND\(k\w+,\s*"(\w+)",\s*(?:finding|warning),(?:\s*\w+,)?\s*'
                  r'((?:"(?:[^"\\]|\\.)*"\s*)+),\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)')
WARNING = re.compile(r'WARNING_KIND\(k\w+,\s*"(\w+)",\s*"([^"]+)"\)')
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| `([^`]+)` \| (\S.*) \|$", re.M)
RANDOM = re.compile(r'X\(k\w+,\s*"(\w+)"')


def unquoted(literals):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).replace('\\"', '"')


def demo_faults(tree):
    script = tree.root / "scripts" / "demo"
    listed = subprocess.run(["bash", script, "--list"], capture_output=True, text=True, check=False,
                            stdin=subprocess.DEVNULL)
    return {line.split()[0] for line in listed.stdout.splitlines() if line.split()}


def problems_of_command(tree, kind, command):
    found = re.fullmatch(r"scripts/demo --fault (\S+)", command)
    if found:
        return [] if found.group(1) in demo_faults(tree) else [f"{kind}: scripts/demo --list has no {found.group(1)}"]
    found = re.fullmatch(r"torchrun --nproc-per-node=4 (\S+) \S+ LIBRARY", command)
    if found:
        return [] if (tree.root / found.group(1)).exists() else [f"{kind}: there is no {found.group(1)}"]
    found = re.fullmatch(r"tests/casebook/test_casebook.py --say (\w+)", command)
    if found:
        cases = "".join(tree.text(path) for path in sorted((tree.root / "tests/casebook").glob("*.py")))
        return [] if f"def {found.group(1)}(job)" in cases else [f"{kind}: the casebook has no {found.group(1)}"]
    if not re.fullmatch(r"titan-synth DIR( --\S+( [^-\s]\S*)?)+ && titan-analyze DIR", command):
        return [f"{kind}: {command}: none of the demo, titan-synth, the casebook and torchrun"]
    source = tree.text(tree.root / "tests/synth/titan_synth.cpp")
    problems = [f"{kind}: titan-synth has no {option}" for option in re.findall(r" (--\S+)", command.split(" && ")[0])
                if f'"{option}"' not in source]
    faults = RANDOM.findall(tree.text(tree.root / "tests/synth/random_job.h"))
    return problems + [f"{kind}: random_job.h has no {fault}" for fault in re.findall(r"--random (\S+)", command)
                       if fault not in faults]


def check(tree):
    known = {kind: (unquoted(meaning), unquoted(advice)) for kind, meaning, advice in
             KIND.findall(tree.text(tree.root / "analyzer/model/findings.def"))}
    kinds = set(known)
    page = tree.root / "docs" / "reference" / "findings.md"
    if not page.exists():
        return ["docs/reference/findings.md is missing: scripts/write-findings"]
    rows = ROW.findall(tree.text(page))
    shown = [kind for kind, *_ in rows]
    problems = [f"{kind} is not in docs/reference/findings.md: add a command that makes it happen to COMMANDS of "
                f"scripts/write-findings, then run scripts/write-findings --only {kind}"
                for kind in sorted(kinds - set(shown))]
    problems += [f"docs/reference/findings.md shows {kind}, which is no kind" for kind in sorted(set(shown) - kinds)]
    for kind, meaning, advice, command, _ in rows:
        problems += problems_of_command(tree, kind, command)
        if (meaning, advice) != known.get(kind, (meaning, advice)):
            problems.append(f"{kind} has other words in findings.def: scripts/write-findings --texts")
    warnings = tree.root / "analyzer/model/warnings.def"
    lines = tree.text(page).splitlines()
    problems += [f"{kind} is not among the warnings of docs/reference/findings.md: scripts/write-findings --texts"
                 for kind, meaning in WARNING.findall(tree.text(warnings) if warnings.exists() else "")
                 if f"| `{kind}` | {meaning} |" not in lines]
    return problems


FINDINGS = ('FINDING_KIND(kRankDead, "rank_dead", finding,\n    "a", "b")\n'
            'FINDING_KIND(kOther, "other", finding, "a", "b")\n')
DEMO = "#!/usr/bin/env bash\necho '  kill   one rank is killed'\n"
CASE = "| `other` | a | b | `tests/casebook/test_casebook.py --say stuck` | likely: rank 1 |\n"
OTHER = "| `other` | a | b | `titan-synth DIR --random skip && titan-analyze DIR` | certain: rank 1 |\n"
FILES = {"analyzer/model/findings.def": FINDINGS, "scripts/demo": DEMO,
         "tests/casebook/cases.py": "def stuck(job):\n",
         "tests/synth/titan_synth.cpp": '"--random"', "tests/synth/random_job.h": 'X(kSkip, "skip", "a")'}


def page(*rows):
    return {**FILES, "docs/reference/findings.md": "".join(rows)}


KILL = "| `rank_dead` | a | b | `scripts/demo --fault kill` | certain: rank 1 is dead |\n"
BAD = {
    "a kind without a row": ("other is not in docs", page(KILL)),
    "a row of no kind": ("gone, which is no kind", page(KILL, OTHER, KILL.replace("rank_dead", "gone"))),
    "a fault that the demo lost": ("has no spin", page(KILL.replace("kill`", "spin`"), OTHER)),
    "a random fault that is gone": ("random_job.h has no jump", page(KILL, OTHER.replace("skip", "jump"))),
    "an option that is gone": ("titan-synth has no --seed", page(KILL, OTHER.replace("--random skip", "--seed 3"))),
    "a case that is gone": ("the casebook has no lost", page(KILL, CASE.replace("stuck", "lost"))),
    "other words": ("rank_dead has other words", page(KILL.replace("| b |", "| c |"), OTHER)),
    "a warning that is missing": ("lost is not among the warnings", {
        **page(KILL, OTHER), "analyzer/model/warnings.def": 'WARNING_KIND(kLost, "lost", "what is lost")\n'}),
    "no page": ("docs/reference/findings.md is missing", FILES),
}
GOOD = {"all shown": page(KILL, OTHER), "a case of the casebook": page(KILL, CASE)}

if __name__ == "__main__":
    run(check, BAD, GOOD)

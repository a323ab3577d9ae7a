"""What outgrows its job: no own source file over 600 lines, no function over 120 (over 80 is reported), no README over
150."""
import re

from metalib import blank_comments_and_strings, run

FILE_LIMIT, FUNCTION_LIMIT, FUNCTION_REPORT, README_LIMIT = 600, 120, 80, 120
SOURCES = {".cpp", ".c", ".h", ".hpp", ".def", ".py"}
LONG_FILES = {}      # path: why it may be longer
LONG_FUNCTIONS = {}  # "path:function": why it may be longer


def bodies(text):
    """(name, offset of its opening brace, of its closing one) of every function body: a block opened after a parameter
    list, outside any other body."""
    code = blank_comments_and_strings(text)
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.M)
    depth_of_body, depth, start, name, statement = None, 0, 0, "", 0
    for match in re.finditer(r"[{};]", code):
        sign = match.group(0)
        if sign == "{":
            head = code[statement:match.start()].strip()
            if depth_of_body is None and is_function_head(head):
                depth_of_body, start, name = depth, match.start(), name_of(head)
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth_of_body is not None and depth == depth_of_body:
                yield name, start, match.start()
                depth_of_body = None
        statement = match.end()


def functions(text):
    """(name, first line, lines) of every function body."""
    for name, opening, closing in bodies(text):
        yield name, text.count("\n", 0, opening) + 1, text.count("\n", opening, closing) + 1


def is_function_head(head):
    if not head or "(" not in head or re.match(r"^(namespace|extern\s*\"?\w*\"?$)", head):
        return False
    tail = re.sub(r"->\s*[\w:<>,&*\s]+$", "", head)
    tail = re.sub(r"(const|noexcept(\([^()]*\))?|override|final|mutable|&+|\s)+$", "", tail)
    if re.search(r"\)\s*:\s*\w", tail):  # constructor with an initialiser list
        return True
    return tail.endswith(")")


def name_of(head):
    match = re.search(r"([\w:~]+|operator\S+)\s*\(", head)
    return match.group(1) if match else "?"


def check(tree):
    problems = []
    for path in tree.files(suffixes=SOURCES):
        name, text = tree.name(path), tree.text(path)
        lines = text.count("\n")
        if lines > FILE_LIMIT and name not in LONG_FILES:
            problems.append(f"{name}: {lines} lines: does it still have one job? (limit {FILE_LIMIT})")
        if path.suffix in (".cpp", ".c", ".h", ".hpp"):
            for function, line, length in functions(text):
                if length > FUNCTION_LIMIT and f"{name}:{function}" not in LONG_FUNCTIONS:
                    problems.append(f"{name}:{line}: {function} has {length} lines (limit {FUNCTION_LIMIT})")
                elif length > FUNCTION_REPORT:
                    print(f"note: {name}:{line}: {function} has {length} lines")
    readme = tree.root / "README.md"
    readme_lines = tree.text(readme).count("\n") if readme.exists() else 0
    if readme_lines > README_LIMIT:
        problems.append(f"README.md: {readme_lines} lines: what can move to a page of its own? (limit {README_LIMIT})")
    problems += [f"{name} is listed as long but is gone" for name in LONG_FILES
                 if (tree.root / "tests/meta").is_dir() and not (tree.root / name).exists()]
    return problems


LONG_BODY = "    int x = 0; (void)x;\n" * 130
BAD = {
    "long file": ("601 lines", {"tracer/a.cpp": "int x();\n" * 601}),
    "long function":
    ("f has 132 lines", {"tracer/a.cpp": "namespace a {\nint f(int b) noexcept {\n" + LONG_BODY + "}\n}\n"}),
    "long constructor":
    ("A has 132 lines", {"tracer/a.cpp": "struct A { int v;\n A(int q) : v(q) {\n" + LONG_BODY + "}\n};\n"}),
    "trailing return type": ("g has 132 lines", {"tracer/a.h": "inline auto g(int b) -> int {\n" + LONG_BODY + "}\n"}),
    "long README": ("121 lines", {"README.md": "a line\n" * 121}),
}
GOOD = {"a long table": {"tracer/a.cpp": "int table[] = {\n" + "    1,\n" * 200 + "};\nvoid f() {\n}\n"}}

if __name__ == "__main__":
    run(check, BAD, GOOD)

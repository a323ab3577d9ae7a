"""Text reaches a terminal or a log through the functions that clean it (base/printable.h), and through no other."""
import re

from metalib import CPP_SUFFIXES, LAYERS, run

PRINTS = re.compile(r"\b(?:v?f?printf|fputs|fputc|puts|putchar|putc|perror|psignal|fwrite|v?dprintf)\s*\(|"
                    r"\bstd::(?:cout|cerr|clog)\b|\bfmt::v?print\s*\(|"
                    r"\bwritev?\s*\(\s*(?:STD(?:OUT|ERR)_FILENO|[12])\s*,")
# file: how often it prints, and why that is well.
ALLOWED = {
    "base/host/output.cpp": 2,  # say_text and print_text: what all programs print goes through make_printable there
    "tracer/settings/log.cpp": 1,  # the recorder's only voice: through make_printable
    "tools/top/main.cpp": 1,  # titan-top's screen: through printable
    "tools/run/job.cpp": 1,  # a number, into a pipe
    "python/titantrace/said.py": 1,  # what the Python package's commands print
}
PYTHON_PRINTS = re.compile(r"(?<![\w.])print\s*\(|\bsys\.std(?:out|err)\.write\b")
COMMENT = re.compile(r"//.*")


def check(tree):
    problems = []
    paths = [*tree.files(*LAYERS, suffixes=CPP_SUFFIXES), *tree.files("python/titantrace", suffixes={".c", ".py"})]
    for path in paths:
        name = tree.name(path)
        prints = PYTHON_PRINTS if path.suffix == ".py" else PRINTS
        found = [(number, match.group()) for number, line in enumerate(tree.text(path).splitlines(), 1)
                 for match in prints.finditer(COMMENT.sub("", line))]
        if len(found) != ALLOWED.get(name, 0):
            problems += [f"{name}:{number}: {text}...: print by host/output.h, log_line or said.py"
                         for number, text in found] or [f"{name} does not print any more: take it out of the list"]
    return problems


BAD = {
    "a program that prints by itself": ("analyzer/a.cpp:1",
                                        {"analyzer/a.cpp": 'void f() { std::printf("%s", name); }\n'}),
    "a stream": ("tools/a.cpp:2", {"tools/a.cpp": "\nvoid f() { std::cerr << name; }\n"}),
    "the guest": ("tracer/a.cpp:1", {"tracer/a.cpp": "void f() { ::write(STDERR_FILENO, name, size); }\n"}),
    "the Python package": ("a.py:1", {"python/titantrace/a.py": "print(path)\n"}),
    "once more where it is allowed": ("log.cpp:2", {"tracer/settings/log.cpp": "int a = write(2, b, c);\n"
                                                    "int d = dprintf(2, e);\n"}),
}
GOOD = {"into a buffer": {"analyzer/a.cpp": "int n = snprintf(text, size, format);  // not printf(\n"},
        "into a file": {"analyzer/a.cpp": "auto n = ::write(file.get(), bytes, size);\n"}}

if __name__ == "__main__":
    run(check, BAD, GOOD)

"""Prints README's tables from the code's, or writes them into README.md: readme_tables.py --root DIR [--write].

The environment table comes from tracer/config.def, which is also what parses the variables: see check_docs.py, which fails
when README says something else.
"""
import argparse
import pathlib
import re

ENVIRONMENT_BEGIN, ENVIRONMENT_END = "<!-- environment -->", "<!-- end of environment -->"
ROW = re.compile(r'^TITAN_CONFIG_ROW\(\s*(\w+)\s*,\s*"((?:[^"\\]|\\.)*)"\s*,\s*\w+\s*,\s*\w+\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)',
                 re.M)


def unquote(text):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"')


def environment_table(config_def):
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, default, words in ROW.findall(config_def):
        shown = f"`{default}`" if default else "(empty)"
        lines.append(f"| `{name}` | {shown} | {unquote(words)} |")
    return "\n".join(lines)


def replaced(readme, begin, end, table):
    head, rest = readme.split(begin, 1)
    return f"{head}{begin}\n{table}\n{end}{rest.split(end, 1)[1]}"


def with_tables(root, readme):
    config = pathlib.Path(root) / "tracer" / "config.def"
    if config.exists() and ENVIRONMENT_BEGIN in readme:
        readme = replaced(readme, ENVIRONMENT_BEGIN, ENVIRONMENT_END, environment_table(config.read_text(encoding="utf-8")))
    return readme


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = pathlib.Path(options.root) / "README.md"
    text = with_tables(options.root, path.read_text(encoding="utf-8"))
    if options.write:
        path.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

"""Prints docs/reference/settings.md with the table of tracer/settings/config.def, or writes it:
settings_table.py --root DIR [--write].

config.def is also what parses the variables; check_docs.py fails when the page says something else.
"""
import argparse
import pathlib
import re

ENVIRONMENT_BEGIN, ENVIRONMENT_END = "<!-- environment -->", "<!-- end of environment -->"
ROW = re.compile(
    r'^TITAN_CONFIG_ROW\(\s*(\w+)\s*,\s*"((?:[^"\\]|\\.)*)"\s*,\s*\w+\s*,\s*\w+\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)',
                 re.M)


def unquote(text):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"')


def environment_table(config_def):
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, default, words in ROW.findall(config_def):
        shown = f"`{default}`" if default else "(empty)"
        lines.append(f"| `{name}` | {shown} | {unquote(words)} |")
    return "\n".join(lines)


def with_table(root, page):
    config = pathlib.Path(root) / "tracer" / "settings" / "config.def"
    if not config.exists() or ENVIRONMENT_BEGIN not in page:
        return page
    head, rest = page.split(ENVIRONMENT_BEGIN, 1)
    table = environment_table(config.read_text(encoding="utf-8"))
    return f"{head}{ENVIRONMENT_BEGIN}\n{table}\n{ENVIRONMENT_END}{rest.split(ENVIRONMENT_END, 1)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = pathlib.Path(options.root) / "docs" / "reference" / "settings.md"
    text = with_table(options.root, path.read_text(encoding="utf-8"))
    if options.write:
        path.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

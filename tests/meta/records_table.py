"""Prints docs/reference/records.md with the tables of analyzer/records/records.def and analyzer/model/phases.def, or
writes it: records_table.py --root DIR [--write].

records.def is also what makes the keys of `titan-analyze show --json`; check_docs.py fails when the page says something
else.
"""
import argparse
import pathlib
import re

BEGIN, END = "<!-- records -->", "<!-- end of records -->"
BEGIN_PHASES, END_PHASES = "<!-- phases -->", "<!-- end of phases -->"
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
ROW = re.compile(rf'^(?:RECORD\(\w+\s*,\s*{TEXT},\s*{TEXT}\)|'
                 rf'FIELD(?:_WHERE)?\(\w+\s*,\s*(\w+)\s*,\s*{TEXT},\s*{TEXT},\s*{TEXT},)', re.M)

PHASE = re.compile(r'^(?:PHASE\((\w+), "([^"]*)"\)|ALIASES\("([^"]*)", "([^"]*)"\))', re.M)


def unquote(text):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"')


def tables(records_def):
    lines = []
    for option, words, key, kind, unit, meaning in ROW.findall(records_def):
        if key:
            lines.append(f"| `{key}` | {unquote(kind)} | {unquote(unit)} | {unquote(meaning)} |")
        else:
            shown = f"`show {unquote(option)}`" if unquote(option) else "`show`"
            lines += ["", f"## {shown}", "", f"{unquote(words)}.", "", "| key | type | unit | meaning |",
                      "|---|---|---|---|"]
    return "\n".join(lines[1:])


def table_of_phases(phases_def):
    lines = ["| phase | what it is | names of spans |", "|---|---|---|"]
    for phase, meaning, framework, names in PHASE.findall(phases_def):
        if phase:
            lines.append(f"| `{phase}` | {meaning} |  |")
        else:
            told = ", ".join(f"`{name.replace('~', ' ')}`" for name in names.split())
            before = lines[-1][:-len(" |")].rstrip()
            lines[-1] = f"{before}{';' if before[-1] != '|' else ''} {framework}: {told} |"
    return "\n".join(lines)


def put(page, begin, end, text):
    head, rest = page.split(begin, 1)
    return f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}"


def with_tables(root, page):
    analyzer = pathlib.Path(root) / "analyzer"
    for source, make, begin, end in ((analyzer / "records" / "records.def", tables, BEGIN, END),
                                     (analyzer / "model" / "phases.def", table_of_phases, BEGIN_PHASES, END_PHASES)):
        if source.exists() and begin in page:
            page = put(page, begin, end, make(source.read_text(encoding="utf-8")))
    return page


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = pathlib.Path(options.root) / "docs" / "reference" / "records.md"
    text = with_tables(options.root, path.read_text(encoding="utf-8"))
    if options.write:
        path.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

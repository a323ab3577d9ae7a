"""Prints docs/records.md with the tables of analyzer/records/records.def, or writes it: records_table.py --root DIR
[--write].

records.def is also what makes the keys of `titan-analyze show --json`; check_docs.py fails when the page says something
else.
"""
import argparse
import pathlib
import re

BEGIN, END = "<!-- records -->", "<!-- end of records -->"
TEXT = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
ROW = re.compile(rf'^(?:RECORD\(\w+\s*,\s*{TEXT},\s*{TEXT}\)|'
                 rf'FIELD(?:_WHERE)?\(\w+\s*,\s*(\w+)\s*,\s*{TEXT},\s*{TEXT},\s*{TEXT},)', re.M)


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


def with_tables(root, page):
    records = pathlib.Path(root) / "analyzer" / "records" / "records.def"
    if not records.exists() or BEGIN not in page:
        return page
    head, rest = page.split(BEGIN, 1)
    text = tables(records.read_text(encoding="utf-8"))
    return f"{head}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = pathlib.Path(options.root) / "docs" / "records.md"
    text = with_tables(options.root, path.read_text(encoding="utf-8"))
    if options.write:
        path.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Files of every released version of our formats are read for ever, and say what they always said (see README.md).

test_golden.py ANALYZE                  checks every directory beside this file, with both readers
test_golden.py ANALYZE --write DIR...   writes DIR/expected.json: what ANALYZE reads in DIR
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "synth")]
import titan_decode  # noqa: E402

# What is kept of each line of `titan-analyze show`, by its option.
FIELDS = {
    "": "rank ticket communicator communicator_name seq op count datatype reduction peer comm_rank state result step "
    "span stream "
        "group group_index thread device send_buffer receive_buffer flags entered_ticks returned_ticks "
    "gpu_started_ticks "
        "gpu_finished_ticks launch replay graph channels channels_started channels_finished algorithm protocol stack "
    "native_frames python_frames",
    "--cuda-calls": "rank ticket call object thread result step span entered_ticks returned_ticks",
    "--work": "rank ticket work stream object amount name call thread flags entered_ticks",
    "--markers": "rank ticket marker name value text span parent task reduction weight relative_step begun_ticks depth "
    "step thread ticks",
    "--health": "rank ticket name value first_value since_step since_ticks ticks",
    "--step-sums": "rank step calls bytes host_ns gpu_ns calls_timed_on_gpu first_entered_realtime_ns "
    "last_ended_realtime_ns",
    "--step-calls": "rank step communicator communicator_name communicator_size op calls bytes host_ns gpu_ns "
    "calls_timed_on_gpu longest_ns mean_entered_realtime_ns",
    "--health-extremes": "rank name readings least least_step greatest greatest_step first_step last_step "
    "first_realtime_ns last_realtime_ns",
    "--channels": "rank ticket collective channel role channel_state peer steps steps_done started_ticks updated_ticks",
}


class Refused(Exception):
    """The program did not read what it was given, or does not know the command."""


def run(command, statuses=(0,)):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode not in statuses:
        raise Refused(f"{' '.join(map(str, command))}: status {done.returncode}: {done.stderr.strip()}")
    return done


def table(text, fields):
    """Those of the fields that are there, line by line. Frames by their addresses: names come from this machine's
    files."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        line["native_frames"] = [frame["address"] if isinstance(frame, dict) else frame
                                 for frame in line.get("native_frames", [])]
    there = [field for field in fields if any(field in line for line in lines)]
    return {"fields": there, "rows": [[line.get(field) for field in there] for line in lines]}


def python_stacks(stacks):
    """Of (frames, outermost first; count): those in Python, whose words the file has, and how often each was seen."""
    counts = collections.Counter()
    for frames, count in stacks:
        counts[tuple(frame for frame in frames if re.search(r" at \S+\.py:\d+$", frame))] += count
    return [[list(frames), count] for frames, count in sorted(counts.items())]


def folded(text):
    return python_stacks((stack.split(";"), int(count)) for stack, count in
                         (line.rsplit(" ", 1) for line in text.splitlines()))


def sampled(lines):
    """The same of the lines of the second reader."""
    return python_stacks(([f"{frame['function']} at {pathlib.PurePath(frame['file']).name}:{frame['line']}"
                           for frame in reversed(json.loads(line)["python_frames"])], 1)
                         for line in lines)


def read(analyze, place):
    """Everything that is asserted of one directory of files."""
    found, refused = {}, []
    shows = {f"show {option}".strip(): ["show", place, "--json", "--no-rings", *option.split()] for option in FIELDS}
    others = {"stacks": ["stacks", place, "--json", "--no-rings"], "verdict": [place, "--json", "--no-rings"]}
    samples = {"samples": ["stacks", place, "--folded", "-", "--no-rings"]}
    journaled = {name: shows[name] for name in shows if re.search("markers|step|extremes", name)}
    # One ring or rank is no job, digests do not hold all calls in full, and journals hold markers alone.
    recorded = {name: command for name, command in shows.items() if not re.search("step|extremes", name)}
    for name, command in {"dumps": {**recorded, **others, **samples}, "digests": others, "ring": recorded,
                          "markers": recorded, "journal": {"show --markers": shows["show --markers"]},
                          "steps": journaled}[place.name].items():
        try:
            text = run([analyze, *command], (0, 1)).stdout
        except Refused as why:
            refused.append(str(why))
            continue
        if name in shows:
            found[name] = table(text, FIELDS[name[5:]].split())
        elif name == "samples":
            found[name] = folded(text)
        elif name == "stacks":
            found[name] = [[process["rank"], thread["name"], thread["outcome"],
                            [frame["address"] for frame in thread["frames"]]]
                           for process in json.loads(text)["processes"] for thread in process["threads"]]
        else:
            said = json.loads(text)["verdict"]
            found[name] = [said["kind"], said["ranks"]]
    return {name: value for name, value in found.items() if value and value != table("", [])}, refused


def text_of(expected):
    """JSON with a line for each row of a table and for each thread of the stacks."""
    def compact(value):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    def listed(rows):
        return "[\n" + ",\n".join(map(compact, rows)) + "]"

    def said(value):
        if isinstance(value, dict):
            return f'{{"fields":{compact(value["fields"])},"rows":{listed(value["rows"])}}}'
        return listed(value) if isinstance(value[0], list) else compact(value)

    places = (compact(place) + ":{\n" + ",\n".join(f"{compact(name)}:{said(value)}" for name, value in found.items())
              + "}" for place, found in expected.items())
    return "{" + ",\n".join(places) + "}\n"


def write(analyze, directory):
    expected = {}
    for place in sorted(path for path in directory.iterdir() if path.is_dir()):
        expected[place.name], refused = read(analyze, place)
        print(*refused, sep="\n")
    (directory / "expected.json").write_text(text_of(expected))


def same(what, expected, found):
    """Problems, each with the first place where both differ."""
    if not isinstance(expected, dict):
        return [] if found == expected else [f"{what}: {found} and not {expected}"]
    found = found or table("", [])
    missing = [field for field in expected["fields"] if field not in found["fields"]]
    if missing or len(found["rows"]) != len(expected["rows"]):
        return [f"{what}: {len(found['rows'])} of {len(expected['rows'])} lines, fields missing: {missing}"]
    columns = [found["fields"].index(field) for field in expected["fields"]]
    for number, (row, wanted) in enumerate(zip(found["rows"], expected["rows"])):
        got = [row[column] for column in columns]
        for field, mine, other in zip(expected["fields"], got, wanted):
            if mine != other:
                return [f"{what}, line {number}: {field} is {mine} and not {other}"]
    return []


def check_first_reader(analyze, place, expected):
    found, refused = read(analyze, place)
    assert expected, f"nothing is expected of {place}"
    return refused + [problem for name, value in expected.items()
                      for problem in same(f"{place}: {name}", value, found.get(name))]


def check_second_reader(place, expected):
    """What it knows of the same lines."""
    problems = []
    if place.name in ("journal", "steps"):  # tests/e2e/test_journal.py compares both readers
        return problems
    for option in FIELDS:
        wanted = expected.get(f"show {option}".strip())
        if wanted is None:
            continue
        files = sorted(path for path in place.rglob("*") if path.is_file())
        found = table("\n".join(titan_decode.lines(option, files)), FIELDS[option].split())
        both = [field for field in wanted["fields"] if field in found["fields"]]
        columns = [wanted["fields"].index(field) for field in both]
        assert len(both) > 5, (place, both)
        problems += same(f"{place}: second reader, {option or 'calls'}",
                         {"fields": both, "rows": [[row[column] for column in columns] for row in wanted["rows"]]},
                         found)
    if "samples" in expected:
        lines = titan_decode.lines("--stack-samples", sorted(place.iterdir()))
        problems += same(f"{place}: second reader, samples", expected["samples"], sampled(lines))
    return problems


def main():
    analyze = sys.argv[1]
    if sys.argv[2:3] == ["--write"]:
        for directory in sys.argv[3:]:
            write(analyze, pathlib.Path(directory))
        return 0
    problems = []
    directories = sorted(path.parent for path in HERE.glob("*/expected.json"))
    assert directories
    for directory in directories:
        expected = json.loads((directory / "expected.json").read_text())
        for place in sorted(path for path in directory.iterdir() if path.is_dir()):
            problems += check_first_reader(analyze, place, expected[place.name])
            problems += check_second_reader(place, expected[place.name])
    print(*problems, f"{len(directories)} versions, {len(problems)} problems", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

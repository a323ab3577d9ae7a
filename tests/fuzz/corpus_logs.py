"""What torchtitan's structured logger writes, sound and hostile: (file name, bytes, part of what the reader must
say)."""
import json


def line(name, at_us, kind="event", **fields):
    return json.dumps({"tid": 7, "rank": 3, "global_rank": 3, "local_rank": 1, "source": "trainer", "host_name": "n1",
                       "pid": 7, "step": 5, "relative_step": 2, "step_tags": ["gc"], "time_us": at_us,
                       "log_type": kind, "log_type_name": name, "event_name": None, "caller": "a/train.py:4:step",
                       "message": "", **fields})


def log(*lines):
    return "\n".join([*lines, ""]).encode()


def log_samples():
    begin, end = line("step_start", 10**15), line("step_end", 10**15 + 9000, value=9.0)
    loss = line("metric_value", 10**15 + 5000, "instant", event_name="loss", value=2.5)
    return [
        ("span.jsonl", log(begin, end), "read: 4 markers with names"),
        ("metric.jsonl", log(loss, loss.replace("2.5", "NaN"), loss.replace("2.5", "-Infinity")),
         "read: 5 markers with names"),
        ("words-in-texts.jsonl",
         log(loss.replace('"message": ""', r'"message": "NaN \" Infinity"').replace("2.5", "NaN")), "read: 3 markers"),
        ("error.jsonl",
         log(begin, line("step_error", 10**15 + 8000, message="[step 5] step_error: ValueError: x"), end),
         "read: 5 markers"),
        ("tasks.jsonl", log(begin, *(line("rollout_start", 10**15, task_name=f"Task-{i}") for i in range(9))),
         "read: 12 markers"),
        ("cut.jsonl", log(begin, end)[:-40], "read: 3 markers with names; its last line is cut off"),
        ("mixed.jsonl", log("INFO starting", begin, "", '{"x": 1}', "[]", end, "null"),
         "4 lines are not of the structured logger (line 1 is the first)"),
        ("ends-alone.jsonl", log(line("a_end", 10**15), line("b_end", 10**15, value=1e11), end),
         "1 span end without a begin and a duration left out"),
        ("other-types.jsonl", log(line("step_start", "x"), line(7, 10**15), line("a_start", 1.5),
                                  line("step_start", 10**15, tid="x", rank=[], step={}, step_tags=3, caller=[3],
                                       task_name=1)), "read: 1 markers"),
        ("wild-numbers.jsonl",
         log(line("step_start", 2**63), line("step_start", -5), line("a_end", 10**15, value=1e308),
             line("b_start", 10**15, tid=2**70, rank=-9, pid=2**40, step=2**62)), ""),
        ("numbers-of-ranks.jsonl", log(line("a_start", 10**15, rank=2**31 - 1, global_rank=2**31 - 1)),
         "read: 3 markers"),
        ("backwards.jsonl", log(line("step_start", 10**15, step=9), line("step_end", 10**14, step=1)),
         "read: 4 markers"),
        ("no-newline.jsonl", begin.encode(), "read: 3 markers"),
        ("deep.jsonl", log('{"time_us":' + "[" * 5000, begin), "1 line is not"),
        ("controls.jsonl", log(line("\x00\x1b[31m\u202e_start", 10**15, task_name="\x07", host_name="\n")),
         "read: 4 markers with names"),
        ("not-utf8.jsonl", log(begin).replace(b"train.py", b"\xff\xfe\x80"),
         "no line of torchtitan's structured logger"),
        ("none.jsonl", log('{"log_type_name": "time_us"}', "x"), "no line of torchtitan's structured logger"),
        ("empty.jsonl", b"", "no line of torchtitan's structured logger"),
    ]

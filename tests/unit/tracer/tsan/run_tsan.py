#!/usr/bin/env python3
"""Runs a doctest program that was built with ThreadSanitizer:
run_tsan.py [--expect-report] PROGRAM [--OPTION]... [case=NAME:REASON | subcase=NAME:REASON]...

What is named is left out, and why is said; options are the program's. A report of any of its processes is a failure,
whatever became of its status; with --expect-report no report is one. Exit status 77, with the reason, where
ThreadSanitizer itself cannot run (it needs an address space layout that some kernels do not give)."""
import os
import pathlib
import subprocess
import sys
import tempfile

REPORTED = 66
# Forked children start threads. Who crashes on purpose looks at who handles it. sigaltstack is our wrapper, compiled
# for ThreadSanitizer, which calls it before it is ready for such code.
OPTIONS = {"exitcode": REPORTED, "halt_on_error": 0, "history_size": 4, "atexit_sleep_ms": 0, "die_after_fork": 0,
           "use_sigaltstack": 0, "handle_segv": 0, "handle_abort": 0, "handle_sigbus": 0, "handle_sigfpe": 0,
           "handle_sigill": 0}


def run(command, reports):
    options = " ".join(f"{name}={value}" for name, value in {**OPTIONS, "log_path": f"{reports}/of"}.items())
    ran = subprocess.run(command, env=dict(os.environ, TSAN_OPTIONS=f"{options} {os.environ.get('TSAN_OPTIONS', '')}"),
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    said = [path.read_text(errors="replace") for path in sorted(pathlib.Path(reports).iterdir())]
    return ran.returncode, said, ran.stdout + "".join(said)


def leave_out(words):
    """Arguments for doctest, one of each kind: of several it takes the last. NAME is a pattern: a name's commas would
    end it."""
    names = {"case": [], "subcase": []}
    for word in words:
        kind, _, rest = word.partition("=")
        name, _, reason = rest.partition(":")
        print(f"left out: {kind} '{name}': {reason}")
        names[kind].append(name)
    options = {"case": "--test-case-exclude=", "subcase": "--subcase-exclude="}
    return [options[kind] + ",".join(given) for kind, given in names.items() if given]


def main():
    arguments = sys.argv[1:]
    expects_report = arguments[0] == "--expect-report"
    program, *words = arguments[expects_report:]
    filters = [word for word in words if word.startswith("--")]
    filters += leave_out(word for word in words if not word.startswith("--"))
    for around in ([], ["setarch", "-R"]):
        with tempfile.TemporaryDirectory() as reports:
            status, said, output = run([*around, program, *filters], reports)
        if "unexpected memory mapping" not in output:
            break
    print(output[-20000:])
    if "unexpected memory mapping" in output or "setarch: failed" in output:
        print("skipped: ThreadSanitizer cannot run with this kernel's address space layout")
        return 77
    print(f"status {status}, {len(said)} processes with reports")
    if expects_report:
        return 0 if said and status == REPORTED else 1
    return status or (REPORTED if said else 0)


if __name__ == "__main__":
    sys.exit(main())

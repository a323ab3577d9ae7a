#!/usr/bin/env python3
"""Runs a program that was built with ThreadSanitizer: run_tsan.py PROGRAM [ARGUMENT...]. Exit status 77, with the reason,
where ThreadSanitizer itself cannot run (it needs an address space layout that some kernels do not give)."""
import os
import subprocess
import sys

REPORTED = 66


def run(command):
    options = f"exitcode={REPORTED} halt_on_error=0 history_size=4 " + os.environ.get("TSAN_OPTIONS", "")
    return subprocess.run(command, env=dict(os.environ, TSAN_OPTIONS=options), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)


def main():
    ran = run(sys.argv[1:])
    if "unexpected memory mapping" in ran.stdout:
        ran = run(["setarch", "-R", *sys.argv[1:]])
    print(ran.stdout[-20000:])
    if "unexpected memory mapping" in ran.stdout or "setarch: failed" in ran.stdout:
        print("skipped: ThreadSanitizer cannot run with this kernel's address space layout")
        return 77
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())

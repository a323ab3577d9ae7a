#!/usr/bin/env bash
# Usage: tests/timed.sh COMMAND [ARGUMENT...]
#
# Runs a test for scripts/test. Its last line on standard error says how much time of a processor the test and the
# processes that it waited for took, for scripts/test-tally.
TIMEFORMAT='processor: %U %S'
time "$@"

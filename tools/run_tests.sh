#!/bin/sh
# All tests: first those that measure time or memory, alone; then the others, in several worker processes, as most of
# them wait for something most of the time. Both runs write straight to the output; the second one runs even if the first
# one fails.
# run_tests.sh PYTHON [pytest's arguments]; LEVERET_TEST_WORKERS: number of workers
set -u
python=$1
shift

trap 'exit 130' INT
trap 'exit 143' TERM
# Only their files: collecting all others takes as long as some of these tests.
# shellcheck disable=SC2046 # no name of a test file has spaces
"$python" -m pytest $(grep -rl --include='test_*.py' 'mark\.quiet' tests | sort) -m quiet "$@"
alone=$?
"$python" -m pytest tests -m "not quiet" -n "${LEVERET_TEST_WORKERS:-4}" --max-worker-restart=0 "$@"
together=$?
[ "$alone" -eq 0 ] && [ "$together" -eq 0 ]

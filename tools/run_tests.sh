#!/bin/sh
# All tests: first those that measure time, alone; then the others, in two runs beside each other, as most of them wait
# for something most of the time.
# run_tests.sh PYTHON [pytest's arguments]
set -u
python=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

"$python" -m pytest tests -m quiet "$@"
alone=$?
"$python" -m pytest tests/unit tests/compat tests/web tests/spark -m "not quiet" "$@" >"$log" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null; rm -f "$log"' EXIT INT TERM
"$python" -m pytest tests --ignore=tests/unit --ignore=tests/compat --ignore=tests/web --ignore=tests/spark -m "not quiet" "$@"
first=$?
wait "$beside"
second=$?
echo
echo "And beside it:"
cat "$log"
[ "$alone" -eq 0 ] && [ "$first" -eq 0 ] && [ "$second" -eq 0 ]

#!/bin/sh
# All tests: first those that measure time or memory, alone; then the others, in two parallel runs, because most of
# them mostly wait. The log of the second run is always printed.
# run_tests.sh PYTHON [pytest's arguments]
set -u
python=$1
shift
log=$(mktemp)
beside=

finish() {
    [ -z "$beside" ] || kill "$beside" 2>/dev/null
    if [ -s "$log" ]; then
        echo
        echo "And beside it:"
        cat "$log"
    fi
    rm -f "$log"
}
trap finish EXIT
trap 'exit 1' INT TERM

"$python" -m pytest tests -m quiet "$@"
alone=$?
"$python" -m pytest tests/unit tests/compat tests/web tests/spark -m "not quiet" "$@" >"$log" 2>&1 &
beside=$!
"$python" -m pytest tests --ignore=tests/unit --ignore=tests/compat --ignore=tests/web --ignore=tests/spark -m "not quiet" "$@"
first=$?
wait "$beside"
second=$?
beside=
[ "$alone" -eq 0 ] && [ "$first" -eq 0 ] && [ "$second" -eq 0 ]

#!/bin/sh
# check.sh PYTHON [pytest's arguments]: the unit tests in two processes, and `make lint` beside them. The output of lint
# follows that of the tests, whatever happens.
set -u
python=$1
shift
log=$(mktemp)
lint=

finish() {
    [ -z "$lint" ] || kill "$lint" 2>/dev/null
    echo
    echo "make lint:"
    cat "$log"
    rm -f "$log"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"${MAKE:-make}" --no-print-directory lint >"$log" 2>&1 &
lint=$!
"$python" -m pytest -q -n 2 --max-worker-restart=0 \
    tests/test_architecture.py tests/test_language.py tests/test_compat_page.py tests/test_migrate_page.py tests/unit "$@"
tests=$?
wait "$lint"
linted=$?
lint=
[ "$tests" -eq 0 ] || echo "the tests failed, see above" >>"$log"
[ "$linted" -eq 0 ] || echo "lint failed" >>"$log"
[ "$tests" -eq 0 ] && [ "$linted" -eq 0 ]

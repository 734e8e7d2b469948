#!/bin/sh
# bench_compare.sh PYTHON REF ...: the benchmark with this tree and with REF side by side; further arguments go to it.
set -eu
python=$1
ref=$2
shift 2
commit=$(git rev-parse --short --verify "$ref^{commit}")
tree=.bench/$commit
if [ ! -d "$tree" ]; then
    git worktree prune
    git worktree add --quiet --detach "$tree" "$commit"
fi
if [ ! -f "$tree/.venv/.installed" ]; then
    sh tools/make_venv.sh "$python" "$tree/.venv"
    "$tree/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$tree[server]"
    touch "$tree/.venv/.installed"
fi
exec .venv/bin/python -m benchmarks.run --base-python "$tree/.venv/bin/python" --base-name "$ref" "$@"

#!/bin/sh
# make_venv.sh PYTHON DIRECTORY: a virtual environment with pip, or an error that names what is missing.
set -eu
python=${1:-}
directory=$2
if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Leveret needs Python 3.11 or newer; found '${python:-none}'. Install it, or name one: make PYTHON=/path/to/python3" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then    # Debian packs these apart
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    LEVERET_REQUIRE_ALL=1 sh "$(dirname "$0")/install_debian.sh" "ensurepip of $python=python$version-venv"
fi
echo "making $directory with $("$python" --version)"
"$python" -m venv "$directory"

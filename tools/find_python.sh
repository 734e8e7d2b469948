#!/bin/sh
# Prints the first Python on the PATH that is new enough for Leveret; prints nothing when there is none.
for name in python3.11 python3 python3.13 python3.12 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v "$name"
        exit 0
    fi
done

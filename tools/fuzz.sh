#!/bin/sh
# fuzz.sh PYTHON SECONDS: repeats the property tests with a fresh seed each time until the time is over or one fails.
set -eu
python=$1
end=$(($(date +%s) + $2))
runs=0
while [ "$(date +%s)" -lt "$end" ]; do
    seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    LEVERET_HYPOTHESIS_PROFILE=fuzz "$python" -m pytest -q -x -p no:cacheprovider -o timeout=600 \
        --hypothesis-seed="$seed" tests/property || { echo "failed with --hypothesis-seed=$seed" >&2; exit 1; }
    runs=$((runs + 1))
done
echo "fuzz: $runs runs without a failure"

#!/bin/sh
# attack.sh PYTHON SECONDS: the attack tests with sizes that change with each round, until the time is over or one fails.
set -eu
python=$1
end=$(($(date +%s) + $2))
rounds=0
while [ "$(date +%s)" -lt "$end" ]; do
    seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    echo "round $((rounds + 1)), LEVERET_ATTACK_SEED=$seed"
    LEVERET_ATTACK_SEED=$seed "$python" -m pytest -q -x -p no:cacheprovider -o timeout=300 tests/attacks ||
        { echo "failed with LEVERET_ATTACK_SEED=$seed" >&2; exit 1; }
    rounds=$((rounds + 1))
done
echo "attack: $rounds rounds without a failure"

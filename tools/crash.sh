#!/bin/sh
# crash.sh PYTHON SECONDS: kill -9 cycles, power cuts and damage with a fresh seed each round, until the time is over or
# one fails. More of everything than `make test` takes, and each broker is started from scratch.
set -eu
python=$1
end=$(($(date +%s) + $2))
rounds=0
while [ "$(date +%s)" -lt "$end" ]; do
    seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    echo "round $((rounds + 1)), LEVERET_CRASH_SEED=$seed"
    LEVERET_CRASH_SEED=$seed LEVERET_CRASH_MORE=1 LEVERET_COLD_STARTS=1 \
        LEVERET_CRASH_CYCLES=${LEVERET_CRASH_CYCLES:-30} LEVERET_POWER_CUTS=${LEVERET_POWER_CUTS:-15} \
        "$python" -m pytest -q -s -x -p no:cacheprovider \
        tests/crash/test_kill.py tests/crash/test_power_cut.py tests/crash/test_every_write.py tests/crash/test_damage.py ||
        { echo "failed with LEVERET_CRASH_SEED=$seed LEVERET_CRASH_MORE=1" >&2; exit 1; }
    rounds=$((rounds + 1))
done
echo "crash: $rounds rounds without a failure"

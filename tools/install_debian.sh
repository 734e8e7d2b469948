#!/bin/sh
# install_debian.sh PROGRAM=PACKAGE ...: installs the packages whose program is missing; A::B is a module of Perl.
# Root on Debian: by apt-get. Otherwise it prints what is missing, and fails only if LEVERET_REQUIRE_ALL=1.
set -eu
programs=
packages=
for pair in "$@"; do
    program=${pair%=*}
    case "$program" in
        *::*) perl "-M$program" -e 1 >/dev/null 2>&1 && continue ;;
        *) command -v "$program" >/dev/null 2>&1 && continue ;;
    esac
    programs="$programs $program"
    packages="$packages ${pair##*=}"
done
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing$packages"
    export DEBIAN_FRONTEND=noninteractive
    # Debian starts the servers that it installs, unless this file refuses; tests and benchmarks start their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    apt-get update -qq </dev/null
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $packages </dev/null
    exit 0
fi
echo "missing:$programs" >&2
echo "  install with: sudo apt-get install$packages" >&2
[ "${LEVERET_REQUIRE_ALL:-}" != 1 ] || exit 1
echo "  the tests that need them are skipped" >&2

#!/bin/sh
# check_web.sh [--fix]: format, lint and type-check the management UI with the tools that tools/web/package-lock.json pins.
set -eu
cd "$(dirname "$0")/.."
sh tools/install_debian.sh node=nodejs npm=npm
command -v npm >/dev/null 2>&1 || exit 0    # install_debian.sh has reported it, and failed where it must not be missing
if ! sh tools/install_node_modules.sh tools/web; then
    [ "${LEVERET_REQUIRE_ALL:-}" != 1 ] || exit 1
    echo "the tools in tools/web cannot be installed, so the web code is not checked" >&2
    exit 0
fi
bin=tools/web/node_modules/.bin
[ "${1:-}" != --fix ] || "$bin/biome" check --config-path=tools/web --write src/leveret/webui
"$bin/biome" check --config-path=tools/web --error-on-warnings src/leveret/webui
if LC_ALL=C.UTF-8 grep -rnE '^.{121,}' src/leveret/webui --include='*.js' --include='*.css' --include='*.html'; then
    echo "lines of more than 120 characters" >&2
    exit 1
fi
"$bin/tsc" --project tools/web
"$bin/tsc" --project tools/web/tsconfig.shared.json

#!/bin/sh
# fetch_rabbitmqadmin.sh FILE: RabbitMQ's command line tool, taken out of Debian's package without installing that.
# The package would bring Erlang and start a broker; the tool is one file of Python.
set -eu
file=$1
if [ -f "$file" ] || command -v rabbitmqadmin >/dev/null 2>&1; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-deb >/dev/null 2>&1; then
    echo "missing: rabbitmqadmin, which is fetched from Debian's package rabbitmq-server; its tests are skipped" >&2
    [ "${LEVERET_REQUIRE_ALL:-}" != 1 ] || exit 1
    exit 0
fi
mkdir -p "$(dirname "$file")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fetch() { (cd "$folder" && apt-get download -qq -o APT::Sandbox::User=root rabbitmq-server </dev/null); }
fetch 2>/dev/null || {
    [ "$(id -u)" != 0 ] || apt-get update -qq </dev/null
    fetch
}
dpkg-deb --fsys-tarfile "$folder"/rabbitmq-server_*.deb | tar -xO ./usr/bin/rabbitmqadmin >"$folder/rabbitmqadmin"
mv "$folder/rabbitmqadmin" "$file"

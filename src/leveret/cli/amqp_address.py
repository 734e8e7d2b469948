"""The AMQP address of the broker, for commands that consume or publish: given by --amqp, or discovered over HTTP."""

from __future__ import annotations

from urllib.parse import urlsplit

import typer

from leveret.cli.api_client import Address, Api, Misuse, Refusal

PORTS = {"amqp": 5672, "amqps": 5671}
PROTOCOLS = {"amqp": "amqp", "amqp/ssl": "amqps"}  # as the API names them
AMQP = typer.Option(
    None,
    "--amqp",
    metavar="URL",
    help="AMQP address, as amqp://HOST:PORT or amqps://HOST:PORT.  [default: discovered from the broker]",
)


def amqp_address(api: Api, given: str | None) -> Address:
    """Use the host of the HTTP port unless ``given`` names another; prefer TLS if HTTP uses it."""
    if given is not None:
        return _parsed(given)
    rows = api.get("overview", query={"columns": "listeners"}).value.get("listeners")
    if rows is None:
        raise Refusal(
            f"the AMQP port cannot be discovered: user '{api.username}' needs the tag 'monitoring' to see listeners; "
            f"pass --amqp amqp://{api.address.host}:5672"
        )
    ports = {PROTOCOLS[row["protocol"]]: int(row["port"]) for row in rows if row["protocol"] in PROTOCOLS}
    wanted = ("amqps", "amqp") if api.address.scheme == "https" else ("amqp", "amqps")
    for scheme in wanted:
        if scheme in ports:
            return Address(scheme, api.address.host, ports[scheme])
    raise Refusal(f"the broker at {api.address.url} has no AMQP listener: start it with --amqp-port 5672")


def _parsed(given: str) -> Address:
    if "@" in given:
        raise Misuse(
            "--amqp contains a user name or password, which other users of this machine can read: use --username"
        )
    problem = f"invalid --amqp {given!r}: write it as amqp://HOST:PORT or amqps://HOST:PORT"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        raise Misuse(problem) from None
    if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise Misuse(problem)
    return Address(parts.scheme, parts.hostname, port or PORTS[parts.scheme])

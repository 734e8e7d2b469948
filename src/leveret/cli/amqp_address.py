"""Where the broker speaks AMQP, for commands that need more than its HTTP port: as it says itself, or as is given."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

import typer

from leveret.cli.api_client import Api, Misuse, Refusal

PORTS = {"amqp": 5672, "amqps": 5671}
PROTOCOLS = {"amqp": "amqp", "amqp/ssl": "amqps"}  # as the API names them
AMQP = typer.Option(
    None, "--amqp", metavar="URL", help="the broker's AMQP port, as amqp://HOST:PORT or amqps://  [default: it says so]"
)


class AmqpAddress(NamedTuple):
    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def amqp_address(api: Api, given: str | None) -> AmqpAddress:
    """At the host of the HTTP port, unless another is given; with TLS if HTTP has it, or if there is nothing else."""
    if given is not None:
        return _parsed(given)
    rows = api.get("overview", query={"columns": "listeners"}).value.get("listeners")
    if rows is None:
        raise Refusal(
            f"user '{api.username}' is not told where the broker listens, for which it needs the tag monitoring: say "
            f"it by --amqp amqp://{api.address.host}:5672"
        )
    ports = {PROTOCOLS[row["protocol"]]: int(row["port"]) for row in rows if row["protocol"] in PROTOCOLS}
    wanted = ("amqps", "amqp") if api.address.scheme == "https" else ("amqp", "amqps")
    for scheme in wanted:
        if scheme in ports:
            return AmqpAddress(scheme, api.address.host, ports[scheme])
    raise Refusal(f"the broker at {api.address.url} does not listen for AMQP: start it with --amqp-port 5672")


def _parsed(given: str) -> AmqpAddress:
    if "@" in given:
        raise Misuse("--amqp has a user name or a password in it, where others can read them: use --username")
    problem = f"--amqp {given!r} cannot be used: write it as amqp://HOST:PORT or amqps://HOST:PORT"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        raise Misuse(problem) from None
    if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        raise Misuse(problem)
    return AmqpAddress(parts.scheme, parts.hostname, port or PORTS[parts.scheme])

"""The nodes of a cell, as its leader announces them when a client connects: addresses for the next attempts."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote, urlsplit

from leveret.client.address import Address

CLUSTER_NODES = "cluster_nodes"  # a server property: a list of URLs
MOST_NODES = 32


def node_addresses(current: Address, announced: object) -> tuple[Address, ...]:
    """With the login and the options of ``current``, and with TLS if it has TLS. Empty if nothing usable is announced:
    nodes announce their AMQP ports only."""
    if current.transport != "tcp" or not isinstance(announced, list):
        return ()
    scheme = "amqps" if current.is_tls else "amqp"
    found = [_place(url) for url in announced if isinstance(url, str) and url.startswith(f"{scheme}://")]
    return tuple(replace(current, host=each[0], port=each[1]) for each in found if each is not None)[:MOST_NODES]


def _place(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        return (unquote(parts.hostname), parts.port) if parts.hostname and parts.port else None
    except ValueError:
        return None

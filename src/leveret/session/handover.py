"""A client that has logged in at one cell and is served by another, where its virtual host is (docs/decisions/0062).

It has no password: the login was verified by the cell that accepted the connection.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Handover(NamedTuple):
    protocol: str  # "amqp" or "stomp"
    vhost: str
    user: str
    mechanism: str
    client_properties: bytes  # a field table
    agreed: dict[str, Any]  # what client and broker have negotiated, in terms of the protocol

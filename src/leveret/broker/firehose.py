"""RabbitMQ's firehose: a copy of every message that comes in or goes out of a traced virtual host, for whoever binds a
queue to the exchange ``amq.rabbitmq.trace``.

The copy has the body of the message; its headers tell the rest, by the names that RabbitMQ gives them. Its key is
``publish.`` and the exchange, or ``deliver.`` and the queue. As long as nobody has bound a queue, no copy is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from leveret.broker.predeclared import TRACE_EXCHANGE
from leveret.broker.publish_rules import carbon_copies
from leveret.broker.publishes import Origin, deliver
from leveret.broker.routes import Route
from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError
from leveret.logs import get_log
from leveret.message import TRANSIENT, Address, Message
from leveret.wire.constants import DEFAULT_FRAME_MAX
from leveret.wire.content import body_of, make_content
from leveret.wire.properties import Properties

LONGEST_KEY = 255  # bytes


class Peer(NamedTuple):
    """Who published, or was given something; nobody, for what happens in the broker's own process."""

    connection: str = ""
    channel: int = 0
    user: str = ""


class Firehose:
    def __init__(self, vhost: Vhost, node: str) -> None:
        self._vhost = vhost
        self._node = node
        self._log = get_log("broker")

    @property
    def is_wanted(self) -> bool:
        return bool(self._vhost.bindings.of_source(TRACE_EXCHANGE))

    def published(self, peer: Peer, message: Message, properties: Properties, queues: Sequence[str]) -> None:
        key = f"publish.{message[1].exchange}"
        self._send(key, peer, message, properties, {"routed_queues": list(queues)})

    def delivered(self, peer: Peer, message: Message, properties: Properties, queue: str, redelivered: bool) -> None:
        self._send(f"deliver.{queue}", peer, message, properties, {"redelivered": int(redelivered)})

    def _send(self, key: str, peer: Peer, message: Message, properties: Properties, more: dict[str, Any]) -> None:
        content, address, _ = message
        headers: dict[str, Any] = {
            "exchange_name": address.exchange,
            "routing_keys": [address.key, *carbon_copies(properties.headers or {})],
            "properties": property_table(properties),
            "node": self._node,
            "vhost": self._vhost.name,
            "connection": peer.connection,
            "channel": peer.channel,
            "user": peer.user,
            **more,
        }
        try:
            self._publish(cut(key), make_content(Properties(headers=headers), body_of(content)))
        except LeveretError as problem:  # its headers are as large as they may be, and ours come on top
            self._log.warning(
                "message cannot be published to the firehose", vhost=self._vhost.name, reason=str(problem)
            )

    def _publish(self, key: str, content: bytes) -> None:
        vhost = self._vhost
        routed = vhost.route_unattended(vhost.exchanges[TRACE_EXCHANGE], (key,), {})
        queues = vhost.live_queues(routed.queues)
        if queues:
            copy: Message = (content, Address(TRACE_EXCHANGE, key, 1, DEFAULT_FRAME_MAX), TRANSIENT)
            deliver(Route(queues), vhost.queue_context.log, [copy], len(content), False, origin=Origin.BROKER)


def property_table(properties: Properties) -> dict[str, Any]:
    """Those that are set."""
    given = {each.name: getattr(properties, each.name) for each in fields(properties)}
    return {name: value for name, value in given.items() if value is not None}


def cut(key: str) -> str:
    """A long name of an exchange or a queue, with what stands before it, may be longer than a key can be."""
    return key.encode()[:LONGEST_KEY].decode(errors="ignore")

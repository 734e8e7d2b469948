"""RabbitMQ's firehose: a copy of every message published to or delivered from a traced virtual host, sent to the
exchange ``amq.rabbitmq.trace``.

The copy has the body of the message, and RabbitMQ's headers. Its routing key is ``publish.`` and the exchange, or
``deliver.`` and the queue. No copy is made while no queue is bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from leveret.broker.publish_rules import carbon_copies
from leveret.broker.publishes import Origin, deliver
from leveret.broker.routes import Route
from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError
from leveret.logs import get_log
from leveret.message import TRANSIENT, Address, Message
from leveret.routing.types import TRACE_EXCHANGE
from leveret.wire.constants import DEFAULT_FRAME_MAX
from leveret.wire.content import body_of, make_content
from leveret.wire.properties import Properties

LONGEST_KEY = 255  # bytes


class Peer(NamedTuple):
    """The client that published or received a message; empty for callers in the process."""

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
        except LeveretError as problem:  # the headers of the message and of the copy are too large together
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
    """The properties that are set."""
    given = {each.name: getattr(properties, each.name) for each in fields(properties)}
    return {name: value for name, value in given.items() if value is not None}


def cut(key: str) -> str:
    """Shorten the key: the prefix and the name of an exchange or queue may be longer than a routing key together."""
    return key.encode()[:LONGEST_KEY].decode(errors="ignore")

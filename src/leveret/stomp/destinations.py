"""Destinations as RabbitMQ's plugin reads them.

    /queue/name            a durable queue, declared when it is first used
    /topic/key             the exchange amq.topic
    /exchange/name[/key]   any exchange
    /amq/queue/name        an existing queue
    /temp-queue/name       in reply-to only: a queue of this connection
    /reply-queue/name      the queue for replies to such a message

A slash within a name is written %2F.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from leveret.stomp.errors import LONGEST_NAME, StompError, is_too_long

QUEUE, AMQ_QUEUE, TOPIC = "queue", "amqqueue", "topic"
EXCHANGE, TEMP_QUEUE, REPLY_QUEUE = "exchange", "temp_queue", "reply_queue"
LONGEST = 2048  # characters: two names with each byte escaped, and the prefix
TOPIC_EXCHANGE = "amq.topic"
REPLY_PREFIX = "/reply-queue/"
TEMP_PREFIX = "/temp-queue/"
KINDS = (TEMP_PREFIX, "/exchange", "/topic", "/queue", "/amq/queue", REPLY_PREFIX)  # as they are listed in errors
SHAPES: dict[str, tuple[str, int]] = {  # first word: kind, and the maximum number of names after it
    "queue": (QUEUE, 1),
    "topic": (TOPIC, 1),
    "exchange": (EXCHANGE, 2),
    "temp-queue": (TEMP_QUEUE, 1),
}


class Destination(NamedTuple):
    """``name`` is a queue, or the name of a temporary queue in its connection; ``exchange`` and ``key`` are where a
    SEND publishes and, with an exchange, what a SUBSCRIBE binds to."""

    kind: str
    name: str
    exchange: str
    key: str

    @property
    def is_queue(self) -> bool:
        return not self.exchange


def parse(text: str) -> Destination:
    """Refuse a text that is too long before it is cached."""
    if len(text) > LONGEST:
        raise _too_long(text)
    return _parsed(text)


@lru_cache(1024)
def _parsed(text: str) -> Destination:
    found = _read(text)
    if any(is_too_long(name) for name in found):
        raise _too_long(text)
    return found


def _read(text: str) -> Destination:
    if not text:
        raise StompError("Invalid destination", "Destination cannot be blank")
    first, *parts = text.split("/")
    if not parts:
        return _queue(QUEUE, unquote(first), text)
    if first:
        raise _unknown(text)
    if text.startswith(REPLY_PREFIX):
        return _queue(REPLY_QUEUE, text.removeprefix(REPLY_PREFIX), text)
    if parts[:2] == ["amq", "queue"]:
        return _queue(AMQ_QUEUE, unquote("/".join(parts[2:])) if len(parts) == 3 else "", text)
    if parts[0] not in SHAPES:
        raise _unknown(text)
    kind, most = SHAPES[parts[0]]
    names = [unquote(part) for part in parts[1:]]
    if not 1 <= len(names) <= most or not names[0]:
        raise _invalid(kind, text)
    if kind == TOPIC:
        return Destination(TOPIC, "", TOPIC_EXCHANGE, names[0])
    if kind == EXCHANGE:
        return Destination(EXCHANGE, "", names[0], names[1] if len(names) > 1 else "")
    return Destination(kind, names[0], "", names[0])


def _queue(kind: str, name: str, text: str) -> Destination:
    if not name:
        raise _invalid(kind, text)
    return Destination(kind, name, "", name)


def _invalid(kind: str, text: str) -> StompError:
    return StompError("Invalid destination", f"{text[:256]!r} is not a valid {kind} destination")


def _too_long(text: str) -> StompError:
    return StompError("Invalid destination", f"{text[:64]!r}... has a name of more than {LONGEST_NAME} bytes")


def _unknown(text: str) -> StompError:
    kinds = ", ".join(kind.rstrip("/") for kind in KINDS)
    return StompError(
        "Unknown destination", f"{text[:256]!r} is not a valid destination.\nValid destination types are: {kinds}"
    )


def shown(exchange: str, key: str) -> str:
    """The destination of a message."""
    if not exchange:
        return f"/queue/{_written(key)}"
    if exchange == TOPIC_EXCHANGE:
        return f"/topic/{_written(key)}"
    return f"/exchange/{_written(exchange)}/{_written(key)}" if key else f"/exchange/{_written(exchange)}"


def _written(name: str) -> str:
    return name if "/" not in name and "%" not in name else quote(name, safe="!$&'()*+,;=:@~ #<>[]{}|^")

"""Decoded properties of a published message: checks, traits and further routing keys."""

from __future__ import annotations

from collections.abc import Mapping

from leveret.errors import FrameError, PreconditionFailed
from leveret.message import NEVER, Message, Traits
from leveret.wire.content import properties_of
from leveret.wire.properties import Properties

MAX_EXPIRATION = (1 << 53) - 1
PUBLISH = (60, 40)


def readable_properties(message: Message) -> Properties:
    """The properties without malformed headers: headers are not checked when a message is published."""
    try:
        return properties_of(message[0])
    except FrameError:
        return Properties(delivery_mode=2 if message[2].persistent else 1, priority=message[2].priority or None)


def traits_of(properties: Properties, now: float) -> Traits:
    return Traits(
        persistent=properties.delivery_mode == 2,
        deadline=now + expiration_ms(properties) / 1000,
        priority=properties.priority or 0,
    )


def expiration_ms(properties: Properties) -> float:
    text = properties.expiration
    if text is None:
        return NEVER
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= MAX_EXPIRATION):
        raise PreconditionFailed(
            f"invalid expiration '{text}': must be a whole number of milliseconds, 0 or more", method=PUBLISH
        )
    return int(text)


def too_large(size: int, most: int) -> str:
    """RabbitMQ's error text, with a remedy."""
    return f"message size {size} is larger than configured max size {most}: raise max_message_size to accept it"


def carbon_copies(headers: Mapping[str, object]) -> list[str]:
    """The routing keys in CC of a message that was published before, and so has no BCC any more."""
    copies = headers.get("CC")
    return [key for key in copies if isinstance(key, str)] if isinstance(copies, list) else []


def further_keys(headers: Mapping[str, object]) -> list[str]:
    """The routing keys in CC and BCC, which must be arrays of long strings."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        value = headers.get(name)
        if value is None:
            continue
        if not isinstance(value, list):
            raise PreconditionFailed(f"header '{name}' must be an array of routing keys", method=PUBLISH)
        keys += [key for key in value if isinstance(key, str)]
    return keys

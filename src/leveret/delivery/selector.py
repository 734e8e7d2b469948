"""Selectors: a condition in the SQL of JMS over the headers and properties of a message, compiled once.

    colour = 'red' AND weight > 2500 OR JMSPriority >= 7

The length of the text is limited (``LONGEST`` characters, and see selector_parser.py), which limits the cost per
message; matching never raises. ``selectable`` returns the fields of a message. Exchanges get the same mapping as
headers: its keys are header names, and ``fields[name]`` also finds JMS names, whose values are computed on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

from leveret.delivery.selector_parser import X_SELECTOR as X_SELECTOR
from leveret.delivery.selector_parser import Parsed, parse
from leveret.delivery.selector_terms import seconds_of as seconds_of
from leveret.errors import PreconditionFailed
from leveret.wire.properties import Properties

LONGEST = 4_096  # characters
TERM_STEPS = 4  # of a name or literal
PERSISTENT_MODE = 2
USUAL_PRIORITY = 4  # JMS's default priority


class Selector:
    """A compiled condition. ``text`` is the original text."""

    __slots__ = ("_meter", "_steps", "_term", "text")

    def __init__(self, text: str, parsed: Parsed) -> None:
        self.text = text
        self._term, self._meter, terms = parsed
        self._steps = TERM_STEPS * terms

    def matches(self, fields: Mapping[str, object]) -> bool:
        """Whether the condition is true; unknown is not true. Never raises."""
        return self._term(fields) is True

    def asked(self, fields: Mapping[str, object]) -> tuple[bool, int]:
        """As ``matches``, with the maximum number of steps (about 40 ns each) that it took."""
        self._meter.steps = self._steps
        matches = self._term(fields) is True
        return matches, self._meter.steps


def compile_selector(text: str) -> Selector:
    """PreconditionFailed if the text is too long or invalid; the error names the position and the expected token."""
    if len(text) > LONGEST:
        raise PreconditionFailed(
            f"invalid arg '{X_SELECTOR}': {len(text)} characters, expected at most {LONGEST}; shorten the selector"
        )
    return _compiled(text)


@lru_cache(maxsize=16)
def _compiled(text: str) -> Selector:
    """Cached, because a binding is first checked and then created, and both compile its selector."""
    return Selector(text, parse(text))


def selector_of(arguments: Mapping[str, object]) -> Selector | None:
    """The selector in the arguments of a binding or consumer; as in JMS, a blank selector selects everything."""
    if X_SELECTOR not in arguments:
        return None
    text = arguments[X_SELECTOR]
    if not isinstance(text, str):
        raise PreconditionFailed(f"invalid arg '{X_SELECTOR}': expected a string, found {type(text).__name__}")
    return compile_selector(text) if text.strip() else None


class MessageFields(dict[str, object]):
    """The headers of a message; ``fields[name]`` also finds its properties by their JMS names.

    As with a defaultdict, ``in``, ``get`` and iteration find only headers, so that a headers exchange does not match
    properties. A header of the same name takes precedence: JMS clients over AMQP set such headers. Unknown names are
    None.
    """

    __slots__ = ("properties",)

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties.headers or ())
        self.properties = properties

    def __missing__(self, name: str) -> object:
        read = JMS_NAMES.get(name)
        return read(self.properties) if read is not None else None


def selectable(properties: Properties) -> MessageFields:
    """The fields of a message for selectors, and for exchanges that route by more than the key."""
    return MessageFields(properties)


def _priority(properties: Properties) -> int:
    return USUAL_PRIORITY if properties.priority is None else properties.priority


def _delivery_mode(properties: Properties) -> str:
    return "PERSISTENT" if properties.delivery_mode == PERSISTENT_MODE else "NON_PERSISTENT"


def _timestamp(properties: Properties) -> int | None:
    """The timestamp in milliseconds, as in JMS; AMQP has whole seconds."""
    time = properties.timestamp
    if time is None:
        return None
    return (seconds_of(time) if isinstance(time, datetime) else int(time)) * 1000


def _expiration(properties: Properties) -> int | None:
    """The time of expiry in milliseconds, 0 for never; it needs a timestamp, since AMQP has only a duration."""
    expiration, sent = properties.expiration, _timestamp(properties)
    if expiration is None:
        return 0
    return sent + int(expiration) if sent is not None and expiration.isascii() and expiration.isdigit() else None


JMS_NAMES: Mapping[str, Callable[[Properties], object]] = {
    "JMSMessageID": lambda properties: properties.message_id,
    "JMSCorrelationID": lambda properties: properties.correlation_id,
    "JMSReplyTo": lambda properties: properties.reply_to,
    "JMSType": lambda properties: properties.type,
    "JMSXGroupID": lambda properties: (properties.headers or {}).get("x-group-id"),
    "JMSPriority": _priority,
    "JMSDeliveryMode": _delivery_mode,
    "JMSTimestamp": _timestamp,
    "JMSExpiration": _expiration,
}

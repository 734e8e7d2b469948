"""Messages of the JMS-style API, and their representation in AMQP.

| JMS                  | attribute              | AMQP                                                          |
|----------------------|------------------------|---------------------------------------------------------------|
| JMSMessageID         | ``message_id``         | message_id                                                    |
| JMSCorrelationID     | ``correlation_id``     | correlation_id                                                |
| JMSReplyTo           | ``reply_to``           | reply_to: the name of a queue, or ``topic://`` and a name     |
| JMSDestination       | ``destination``        | exchange and routing key                                      |
| JMSDeliveryMode      | ``delivery_mode``      | delivery_mode                                                 |
| JMSPriority          | ``priority``           | priority                                                      |
| JMSTimestamp         | ``timestamp``          | timestamp, and the header timestamp_in_ms                     |
| JMSExpiration        | ``expiration``         | expiration: the time to live when the message is sent         |
| JMSDeliveryTime      | ``delivery_time``      | the header x-deliver-at                                       |
| JMSType              | ``type``               | type                                                          |
| JMSRedelivered       | ``redelivered``        | the redelivered flag                                          |
| JMSXDeliveryCount    | ``delivery_count``     | the header x-delivery-count, and redeliveries by the client   |
| JMSXGroupID          | ``group_id``           | the header x-group-id                                         |
| properties           | ``properties``         | headers                                                       |

The content type determines the kind: ``text/plain`` is a text message, ``application/json`` with an object a map
message, ``application/octet-stream`` a bytes message. Maps are JSON because every client in every language can read it.
A body that does not match its content type becomes a bytes message: a consumer must not fail because of a message of
another program.

Times are seconds since 1970, 0: none. A received message is read-only until it is cleared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol

from leveret.client.jms.destinations import Destination, named_in_reply_to
from leveret.client.jms.errors import MessageFormatError, MessageNotWriteable
from leveret.client.jms.message_properties import MessageProperties
from leveret.client.messages import Delivery
from leveret.wire.fields import FarTime, FieldValue, Table
from leveret.wire.properties import Properties

NON_PERSISTENT = 1
PERSISTENT = 2
DEFAULT_PRIORITY = 4

TEXT_TYPE = "text/plain"
BYTES_TYPE = "application/octet-stream"
BYTES_LIKE = (bytes, bytearray, memoryview)
MAP_TYPE = "application/json"

GROUP_HEADER = "x-group-id"
MOMENT_HEADER = "timestamp_in_ms"
DELIVER_AT_HEADER = "x-deliver-at"
COUNT_HEADERS = ("x-delivery-count", "x-acquired-count")
ORIGIN_HEADER = "x-jms-origin"  # the connection that sent a message to a topic, for noLocal
OURS = frozenset({GROUP_HEADER, MOMENT_HEADER, DELIVER_AT_HEADER, ORIGIN_HEADER, *COUNT_HEADERS})
"""Headers that are fields of a message, not properties."""


class Acknowledger(Protocol):
    """Acknowledges a received message: its session."""

    def acknowledge(self, message: Message) -> None: ...


@dataclass(slots=True, eq=False, repr=False)
class Message:
    """A message without a body, and the fields that all messages have."""

    CONTENT_TYPE: ClassVar[str | None] = None

    message_id: str = ""
    correlation_id: str = ""
    reply_to: Destination | None = None
    destination: Destination | None = None
    delivery_mode: int = PERSISTENT
    priority: int = DEFAULT_PRIORITY
    timestamp: float = 0.0
    expiration: float = 0.0
    delivery_time: float = 0.0
    type: str = ""
    group_id: FieldValue = None
    delivery: Delivery | None = None  # if it was received
    redeliveries: int = 0  # counted by the consumer that has it
    is_body_read_only: bool = False
    _properties: MessageProperties | None = None  # created on first access
    _acknowledger: Acknowledger | None = None

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self.message_id or 'unsent'}: {self.body!r:.80}>"

    @property
    def body(self) -> object:
        return None

    @property
    def properties(self) -> MessageProperties:
        if self._properties is None:
            headers = {} if self.delivery is None else self.delivery.headers
            values = {name: value for name, value in headers.items() if name not in OURS}
            self._properties = MessageProperties(values, is_read_only=self.delivery is not None)
        return self._properties

    def clear_body(self) -> None:
        """Make the body empty and writable."""
        self.is_body_read_only = False

    def clear_properties(self) -> None:
        self._properties = MessageProperties()

    # ---- received messages

    @property
    def broker_redeliveries(self) -> int:
        """How often the broker redelivered it, if the broker counts."""
        if self.delivery is None:
            return 0
        counts = (self.delivery.headers.get(name) for name in COUNT_HEADERS)
        known = [count for count in counts if isinstance(count, int)]
        return max([*known, 1 if self.delivery.redelivered else 0])

    @property
    def delivery_count(self) -> int:
        """1 for the first delivery, 0 for a message that was not received."""
        return 0 if self.delivery is None else 1 + self.broker_redeliveries + self.redeliveries

    @property
    def redelivered(self) -> bool:
        return self.delivery_count > 1

    def acknowledge(self) -> None:
        """Its effect depends on the acknowledgement mode of the session. No effect if the message needs no ack."""
        if self._acknowledger is not None:
            self._acknowledger.acknowledge(self)

    def acknowledged_by(self, acknowledger: Acknowledger | None) -> None:
        self._acknowledger = acknowledger

    # ---- on the wire

    def encoded_body(self) -> bytes:
        return b""

    def amqp_properties(self, time_to_live: float = 0) -> Properties:
        """``time_to_live``: seconds until the message expires in its queue; 0: no expiration."""
        headers: Table = {}
        if self._properties is not None or self.delivery is not None:
            headers = {name: value for name, value in self.properties.items() if name not in OURS}
        if self.group_id is not None:
            headers[GROUP_HEADER] = self.group_id
        if self.timestamp:
            headers[MOMENT_HEADER] = milliseconds(self.timestamp)
        if self.delivery_time:
            headers[DELIVER_AT_HEADER] = milliseconds(self.delivery_time)
        return Properties(
            content_type=self.CONTENT_TYPE,
            headers=headers or None,
            delivery_mode=self.delivery_mode,
            priority=self.priority,
            correlation_id=self.correlation_id or None,
            reply_to=self.reply_to.reply_name if self.reply_to is not None else None,
            expiration=str(milliseconds(time_to_live)) if time_to_live else None,
            message_id=self.message_id or None,
            timestamp=FarTime(self.timestamp) if self.timestamp else None,  # encoded at half the cost of a datetime
            type=self.type or None,
        )

    def _read_fields(self, delivery: Delivery) -> None:
        found = delivery.properties
        self.delivery = delivery
        self.message_id = found.message_id or ""
        self.correlation_id = found.correlation_id or ""
        self.reply_to = named_in_reply_to(found.reply_to or "")
        self.delivery_mode = PERSISTENT if found.delivery_mode == PERSISTENT else NON_PERSISTENT
        self.priority = DEFAULT_PRIORITY if found.priority is None else found.priority
        self.type = found.type or ""
        self.timestamp, exactness = _moment(found)
        self.delivery_time = _deliver_at(found)
        begin = self.delivery_time or self.timestamp + exactness
        if found.expiration is not None and found.expiration.isdecimal() and self.timestamp:
            self.expiration = begin + int(found.expiration) / 1000
        self.group_id = delivery.headers.get(GROUP_HEADER)

    def _refuse_read_only(self) -> None:
        if self.is_body_read_only:
            raise MessageNotWriteable("the body of a received message can be read only: call clear_body() first")


class TextMessage(Message):
    CONTENT_TYPE = TEXT_TYPE

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = ""
        self.text = text

    @property
    def text(self) -> str:
        return self._text

    @text.setter
    def text(self, text: str) -> None:
        self._refuse_read_only()
        if not isinstance(text, str):
            raise MessageFormatError(f"the body of a text message must be a string, not {type(text).__name__}")
        self._text = text

    @property
    def body(self) -> str:
        return self._text

    def clear_body(self) -> None:
        super().clear_body()
        self._text = ""

    def encoded_body(self) -> bytes:
        try:
            return self._text.encode()
        except UnicodeEncodeError as problem:
            raise MessageFormatError(f"the text of a message cannot be sent as UTF-8: {problem}") from None


class BytesMessage(Message):
    CONTENT_TYPE = BYTES_TYPE

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"") -> None:
        super().__init__()
        self._data = b""
        self.data = data

    @property
    def data(self) -> bytes:
        return self._data

    @data.setter
    def data(self, data: bytes) -> None:
        self._refuse_read_only()
        if not isinstance(data, BYTES_LIKE):
            raise MessageFormatError(f"the body of a bytes message must be bytes, not {type(data).__name__}")
        self._data = bytes(data)

    @property
    def body(self) -> bytes:
        return self._data

    def clear_body(self) -> None:
        super().clear_body()
        self._data = b""

    def encoded_body(self) -> bytes:
        return self._data


class MapMessage(Message):
    """Named values: ``message["amount"] = 12``."""

    CONTENT_TYPE = MAP_TYPE

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._fields: dict[str, object] = {}
        for name, value in (fields or {}).items():
            self[name] = value

    def __getitem__(self, name: str) -> object:
        return self._fields[name]

    def __setitem__(self, name: str, value: object) -> None:
        self._refuse_read_only()
        if not isinstance(name, str):
            raise MessageFormatError(f"the name of a field of a map message must be a string, not {name!r}")
        _refuse_unlike_json(name, value)
        self._fields[name] = value

    def __delitem__(self, name: str) -> None:
        self._refuse_read_only()
        del self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def body(self) -> dict[str, object]:
        """A copy: fields are changed by ``message[name] = value``."""
        return dict(self._fields)

    def clear_body(self) -> None:
        super().clear_body()
        self._fields = {}

    def encoded_body(self) -> bytes:
        return json.dumps(self._fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def received(
    delivery: Delivery,
    acknowledger: Acknowledger | None = None,
    redeliveries: int = 0,
    destination: Destination | None = None,
) -> Message:
    """The delivered message, of the kind of its content type. ``destination``: of the consumer."""
    message = _with_body(delivery.properties.content_type or "", delivery.body)
    message._read_fields(delivery)
    message.redeliveries = redeliveries
    message.is_body_read_only = True
    message.destination = destination.of_delivery(delivery) if destination is not None else None
    message.acknowledged_by(acknowledger)
    return message


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _with_body(content_type: str, body: bytes) -> Message:
    kind = content_type.partition(";")[0].strip().lower()
    if not kind and not body:
        return Message()
    try:
        if kind == MAP_TYPE:
            return _with_json(body)
        if kind.startswith("text/"):
            return TextMessage(body.decode())
    except (ValueError, RecursionError):  # it does not match its content type; UnicodeDecodeError is a ValueError
        return BytesMessage(body)
    return BytesMessage(body)


def _with_json(body: bytes) -> Message:
    text = body.decode()
    fields = json.loads(text, parse_constant=_no_number)
    if not isinstance(fields, dict):
        return TextMessage(text)
    message = MapMessage()
    message._fields = fields
    return message


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not valid JSON")


def _moment(found: Properties) -> tuple[float, float]:
    """When the message was sent, and the precision in seconds."""
    exact = (found.headers or {}).get(MOMENT_HEADER)
    if isinstance(exact, int) and not isinstance(exact, bool):
        return exact / 1000, 0.0
    time = found.timestamp
    if time is None:
        return 0.0, 0.0
    return (time.timestamp() if isinstance(time, datetime) else float(time)), 1.0


def _deliver_at(found: Properties) -> float:
    due = (found.headers or {}).get(DELIVER_AT_HEADER)
    if isinstance(due, datetime):
        return due.timestamp()
    return due / 1000 if isinstance(due, int) and not isinstance(due, bool) else 0.0


def _refuse_unlike_json(name: str, value: object) -> None:
    """Raise now: an error of the send would not name the field."""
    if isinstance(value, bytes | bytearray):
        raise MessageFormatError(
            f"field '{name}' of a map message is bytes: send them as a bytes message, or as text (base64)"
        )
    try:
        json.dumps({name: value}, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise MessageFormatError(f"field '{name}' of a map message cannot be sent as JSON: {problem}") from None

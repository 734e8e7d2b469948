# Generated from tools/spec.toml by `python tools/generate_methods.py`. Do not edit.
"""Every method of AMQP 0-9-1 as RabbitMQ speaks it: one class each, with its arguments as attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from leveret.wire.fields import (
    Table,
    decode_long,
    decode_octet,
    decode_short,
    decode_table,
    decode_uint16,
    decode_uint32,
    decode_uint64,
    encode_bits,
    encode_long,
    encode_octet,
    encode_short,
    encode_table,
    encode_uint16,
    encode_uint32,
    encode_uint64,
    expect_end,
)


class Method:
    """What all methods have in common. Mutable, since interceptors rewrite them."""

    __slots__ = ()

    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    id: ClassVar[tuple[int, int]]
    NAME: ClassVar[str]
    SYNC: ClassVar[bool]
    HAS_CONTENT: ClassVar[bool]

    def encode(self) -> bytes:
        """The payload of the method frame: class id, method id, arguments."""
        raise NotImplementedError

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        """The method whose arguments fill (offset, end) exactly; ``offset`` is after the two ids."""
        raise NotImplementedError


@dataclass(slots=True)
class ConnectionStart(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (10, 10)
    NAME: ClassVar[str] = "connection.start"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    version_major: int = 0
    version_minor: int = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x0a",
            encode_octet(self.version_major),
            encode_octet(self.version_minor),
            encode_table(self.server_properties),
            encode_long(self.mechanisms),
            encode_long(self.locales),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        version_major, offset = decode_octet(data, offset, end)
        version_minor, offset = decode_octet(data, offset, end)
        server_properties, offset = decode_table(data, offset, end)
        mechanisms, offset = decode_long(data, offset, end)
        locales, offset = decode_long(data, offset, end)
        expect_end(offset, end)
        return cls(version_major, version_minor, server_properties, mechanisms, locales)


@dataclass(slots=True)
class ConnectionStartOk(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (10, 11)
    NAME: ClassVar[str] = "connection.start-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    client_properties: Table = field(default_factory=dict)
    mechanism: str = "PLAIN"
    response: bytes = b""
    locale: str = "en_US"

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x0b",
            encode_table(self.client_properties),
            encode_short(self.mechanism),
            encode_long(self.response),
            encode_short(self.locale),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        client_properties, offset = decode_table(data, offset, end)
        mechanism, offset = decode_short(data, offset, end)
        response, offset = decode_long(data, offset, end)
        locale, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls(client_properties, mechanism, response, locale)


@dataclass(slots=True)
class ConnectionSecure(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (10, 20)
    NAME: ClassVar[str] = "connection.secure"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    challenge: bytes = b""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x14",
            encode_long(self.challenge),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        challenge, offset = decode_long(data, offset, end)
        expect_end(offset, end)
        return cls(challenge)


@dataclass(slots=True)
class ConnectionSecureOk(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (10, 21)
    NAME: ClassVar[str] = "connection.secure-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    response: bytes = b""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x15",
            encode_long(self.response),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        response, offset = decode_long(data, offset, end)
        expect_end(offset, end)
        return cls(response)


@dataclass(slots=True)
class ConnectionTune(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (10, 30)
    NAME: ClassVar[str] = "connection.tune"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x1e",
            encode_uint16(self.channel_max),
            encode_uint32(self.frame_max),
            encode_uint16(self.heartbeat),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        channel_max, offset = decode_uint16(data, offset, end)
        frame_max, offset = decode_uint32(data, offset, end)
        heartbeat, offset = decode_uint16(data, offset, end)
        expect_end(offset, end)
        return cls(channel_max, frame_max, heartbeat)


@dataclass(slots=True)
class ConnectionTuneOk(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (10, 31)
    NAME: ClassVar[str] = "connection.tune-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x1f",
            encode_uint16(self.channel_max),
            encode_uint32(self.frame_max),
            encode_uint16(self.heartbeat),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        channel_max, offset = decode_uint16(data, offset, end)
        frame_max, offset = decode_uint32(data, offset, end)
        heartbeat, offset = decode_uint16(data, offset, end)
        expect_end(offset, end)
        return cls(channel_max, frame_max, heartbeat)


@dataclass(slots=True)
class ConnectionOpen(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (10, 40)
    NAME: ClassVar[str] = "connection.open"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    virtual_host: str = "/"

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x28",
            encode_short(self.virtual_host),
            b"\x00",
            b"\x00",
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        virtual_host, offset = decode_short(data, offset, end)
        _, offset = decode_short(data, offset, end)
        _, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(virtual_host)


@dataclass(slots=True)
class ConnectionOpenOk(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 41
    id: ClassVar[tuple[int, int]] = (10, 41)
    NAME: ClassVar[str] = "connection.open-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x29\x00"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ConnectionClose(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 50
    id: ClassVar[tuple[int, int]] = (10, 50)
    NAME: ClassVar[str] = "connection.close"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x32",
            encode_uint16(self.reply_code),
            encode_short(self.reply_text),
            encode_uint16(self.class_id),
            encode_uint16(self.method_id),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        reply_code, offset = decode_uint16(data, offset, end)
        reply_text, offset = decode_short(data, offset, end)
        class_id, offset = decode_uint16(data, offset, end)
        method_id, offset = decode_uint16(data, offset, end)
        expect_end(offset, end)
        return cls(reply_code, reply_text, class_id, method_id)


@dataclass(slots=True)
class ConnectionCloseOk(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 51
    id: ClassVar[tuple[int, int]] = (10, 51)
    NAME: ClassVar[str] = "connection.close-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x33"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ConnectionBlocked(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 60
    id: ClassVar[tuple[int, int]] = (10, 60)
    NAME: ClassVar[str] = "connection.blocked"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    reason: str = ""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x3c",
            encode_short(self.reason),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        reason, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls(reason)


@dataclass(slots=True)
class ConnectionUnblocked(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 61
    id: ClassVar[tuple[int, int]] = (10, 61)
    NAME: ClassVar[str] = "connection.unblocked"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x3d"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ConnectionUpdateSecret(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 70
    id: ClassVar[tuple[int, int]] = (10, 70)
    NAME: ClassVar[str] = "connection.update-secret"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    new_secret: bytes = b""
    reason: str = ""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x0a\x00\x46",
            encode_long(self.new_secret),
            encode_short(self.reason),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        new_secret, offset = decode_long(data, offset, end)
        reason, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls(new_secret, reason)


@dataclass(slots=True)
class ConnectionUpdateSecretOk(Method):
    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 71
    id: ClassVar[tuple[int, int]] = (10, 71)
    NAME: ClassVar[str] = "connection.update-secret-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x0a\x00\x47"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ChannelOpen(Method):
    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (20, 10)
    NAME: ClassVar[str] = "channel.open"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x14\x00\x0a\x00"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ChannelOpenOk(Method):
    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (20, 11)
    NAME: ClassVar[str] = "channel.open-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x14\x00\x0b\x00\x00\x00\x00"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_long(data, offset, end)
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ChannelFlow(Method):
    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (20, 20)
    NAME: ClassVar[str] = "channel.flow"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    active: bool = True

    def encode(self) -> bytes:
        parts = [
            b"\x00\x14\x00\x14",
            encode_bits(self.active),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(bits & 1 != 0)


@dataclass(slots=True)
class ChannelFlowOk(Method):
    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (20, 21)
    NAME: ClassVar[str] = "channel.flow-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    active: bool = True

    def encode(self) -> bytes:
        parts = [
            b"\x00\x14\x00\x15",
            encode_bits(self.active),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(bits & 1 != 0)


@dataclass(slots=True)
class ChannelClose(Method):
    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (20, 40)
    NAME: ClassVar[str] = "channel.close"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x14\x00\x28",
            encode_uint16(self.reply_code),
            encode_short(self.reply_text),
            encode_uint16(self.class_id),
            encode_uint16(self.method_id),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        reply_code, offset = decode_uint16(data, offset, end)
        reply_text, offset = decode_short(data, offset, end)
        class_id, offset = decode_uint16(data, offset, end)
        method_id, offset = decode_uint16(data, offset, end)
        expect_end(offset, end)
        return cls(reply_code, reply_text, class_id, method_id)


@dataclass(slots=True)
class ChannelCloseOk(Method):
    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 41
    id: ClassVar[tuple[int, int]] = (20, 41)
    NAME: ClassVar[str] = "channel.close-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x14\x00\x29"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ExchangeDeclare(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (40, 10)
    NAME: ClassVar[str] = "exchange.declare"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    exchange: str = ""
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    nowait: bool = False
    arguments: Table = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [
            b"\x00\x28\x00\x0a\x00\x00",
            encode_short(self.exchange),
            encode_short(self.type),
            encode_bits(self.passive, self.durable, self.auto_delete, self.internal, self.nowait),
            encode_table(self.arguments),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        type, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        arguments, offset = decode_table(data, offset, end)
        expect_end(offset, end)
        return cls(
            exchange,
            type,
            bits & 1 != 0,
            bits & 2 != 0,
            bits & 4 != 0,
            bits & 8 != 0,
            bits & 16 != 0,
            arguments,
        )


@dataclass(slots=True)
class ExchangeDeclareOk(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (40, 11)
    NAME: ClassVar[str] = "exchange.declare-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x0b"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ExchangeDelete(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (40, 20)
    NAME: ClassVar[str] = "exchange.delete"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    exchange: str = ""
    if_unused: bool = False
    nowait: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x28\x00\x14\x00\x00",
            encode_short(self.exchange),
            encode_bits(self.if_unused, self.nowait),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(exchange, bits & 1 != 0, bits & 2 != 0)


@dataclass(slots=True)
class ExchangeDeleteOk(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (40, 21)
    NAME: ClassVar[str] = "exchange.delete-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x15"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ExchangeBind(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (40, 30)
    NAME: ClassVar[str] = "exchange.bind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Table = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [
            b"\x00\x28\x00\x1e\x00\x00",
            encode_short(self.destination),
            encode_short(self.source),
            encode_short(self.routing_key),
            encode_bits(self.nowait),
            encode_table(self.arguments),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        destination, offset = decode_short(data, offset, end)
        source, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        arguments, offset = decode_table(data, offset, end)
        expect_end(offset, end)
        return cls(destination, source, routing_key, bits & 1 != 0, arguments)


@dataclass(slots=True)
class ExchangeBindOk(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (40, 31)
    NAME: ClassVar[str] = "exchange.bind-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x1f"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class ExchangeUnbind(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (40, 40)
    NAME: ClassVar[str] = "exchange.unbind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    destination: str = ""
    source: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Table = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [
            b"\x00\x28\x00\x28\x00\x00",
            encode_short(self.destination),
            encode_short(self.source),
            encode_short(self.routing_key),
            encode_bits(self.nowait),
            encode_table(self.arguments),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        destination, offset = decode_short(data, offset, end)
        source, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        arguments, offset = decode_table(data, offset, end)
        expect_end(offset, end)
        return cls(destination, source, routing_key, bits & 1 != 0, arguments)


@dataclass(slots=True)
class ExchangeUnbindOk(Method):
    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 51
    id: ClassVar[tuple[int, int]] = (40, 51)
    NAME: ClassVar[str] = "exchange.unbind-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x28\x00\x33"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class QueueDeclare(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (50, 10)
    NAME: ClassVar[str] = "queue.declare"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    nowait: bool = False
    arguments: Table = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x0a\x00\x00",
            encode_short(self.queue),
            encode_bits(self.passive, self.durable, self.exclusive, self.auto_delete, self.nowait),
            encode_table(self.arguments),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        queue, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        arguments, offset = decode_table(data, offset, end)
        expect_end(offset, end)
        return cls(queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, bits & 16 != 0, arguments)


@dataclass(slots=True)
class QueueDeclareOk(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (50, 11)
    NAME: ClassVar[str] = "queue.declare-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x0b",
            encode_short(self.queue),
            encode_uint32(self.message_count),
            encode_uint32(self.consumer_count),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        queue, offset = decode_short(data, offset, end)
        message_count, offset = decode_uint32(data, offset, end)
        consumer_count, offset = decode_uint32(data, offset, end)
        expect_end(offset, end)
        return cls(queue, message_count, consumer_count)


@dataclass(slots=True)
class QueueBind(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (50, 20)
    NAME: ClassVar[str] = "queue.bind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    nowait: bool = False
    arguments: Table = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x14\x00\x00",
            encode_short(self.queue),
            encode_short(self.exchange),
            encode_short(self.routing_key),
            encode_bits(self.nowait),
            encode_table(self.arguments),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        queue, offset = decode_short(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        arguments, offset = decode_table(data, offset, end)
        expect_end(offset, end)
        return cls(queue, exchange, routing_key, bits & 1 != 0, arguments)


@dataclass(slots=True)
class QueueBindOk(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (50, 21)
    NAME: ClassVar[str] = "queue.bind-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x32\x00\x15"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class QueuePurge(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (50, 30)
    NAME: ClassVar[str] = "queue.purge"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    nowait: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x1e\x00\x00",
            encode_short(self.queue),
            encode_bits(self.nowait),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        queue, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(queue, bits & 1 != 0)


@dataclass(slots=True)
class QueuePurgeOk(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (50, 31)
    NAME: ClassVar[str] = "queue.purge-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    message_count: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x1f",
            encode_uint32(self.message_count),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        message_count, offset = decode_uint32(data, offset, end)
        expect_end(offset, end)
        return cls(message_count)


@dataclass(slots=True)
class QueueDelete(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (50, 40)
    NAME: ClassVar[str] = "queue.delete"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    nowait: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x28\x00\x00",
            encode_short(self.queue),
            encode_bits(self.if_unused, self.if_empty, self.nowait),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        queue, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(queue, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)


@dataclass(slots=True)
class QueueDeleteOk(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 41
    id: ClassVar[tuple[int, int]] = (50, 41)
    NAME: ClassVar[str] = "queue.delete-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    message_count: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x29",
            encode_uint32(self.message_count),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        message_count, offset = decode_uint32(data, offset, end)
        expect_end(offset, end)
        return cls(message_count)


@dataclass(slots=True)
class QueueUnbind(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 50
    id: ClassVar[tuple[int, int]] = (50, 50)
    NAME: ClassVar[str] = "queue.unbind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Table = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [
            b"\x00\x32\x00\x32\x00\x00",
            encode_short(self.queue),
            encode_short(self.exchange),
            encode_short(self.routing_key),
            encode_table(self.arguments),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        queue, offset = decode_short(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        arguments, offset = decode_table(data, offset, end)
        expect_end(offset, end)
        return cls(queue, exchange, routing_key, arguments)


@dataclass(slots=True)
class QueueUnbindOk(Method):
    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 51
    id: ClassVar[tuple[int, int]] = (50, 51)
    NAME: ClassVar[str] = "queue.unbind-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x32\x00\x33"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class BasicQos(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (60, 10)
    NAME: ClassVar[str] = "basic.qos"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x0a",
            encode_uint32(self.prefetch_size),
            encode_uint16(self.prefetch_count),
            encode_bits(self.global_),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        prefetch_size, offset = decode_uint32(data, offset, end)
        prefetch_count, offset = decode_uint16(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(prefetch_size, prefetch_count, bits & 1 != 0)


@dataclass(slots=True)
class BasicQosOk(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (60, 11)
    NAME: ClassVar[str] = "basic.qos-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x3c\x00\x0b"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class BasicConsume(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (60, 20)
    NAME: ClassVar[str] = "basic.consume"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    nowait: bool = False
    arguments: Table = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x14\x00\x00",
            encode_short(self.queue),
            encode_short(self.consumer_tag),
            encode_bits(self.no_local, self.no_ack, self.exclusive, self.nowait),
            encode_table(self.arguments),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        queue, offset = decode_short(data, offset, end)
        consumer_tag, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        arguments, offset = decode_table(data, offset, end)
        expect_end(offset, end)
        return cls(queue, consumer_tag, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, bits & 8 != 0, arguments)


@dataclass(slots=True)
class BasicConsumeOk(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (60, 21)
    NAME: ClassVar[str] = "basic.consume-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    consumer_tag: str = ""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x15",
            encode_short(self.consumer_tag),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        consumer_tag, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls(consumer_tag)


@dataclass(slots=True)
class BasicCancel(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (60, 30)
    NAME: ClassVar[str] = "basic.cancel"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    consumer_tag: str = ""
    nowait: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x1e",
            encode_short(self.consumer_tag),
            encode_bits(self.nowait),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        consumer_tag, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(consumer_tag, bits & 1 != 0)


@dataclass(slots=True)
class BasicCancelOk(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (60, 31)
    NAME: ClassVar[str] = "basic.cancel-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    consumer_tag: str = ""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x1f",
            encode_short(self.consumer_tag),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        consumer_tag, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls(consumer_tag)


@dataclass(slots=True)
class BasicPublish(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (60, 40)
    NAME: ClassVar[str] = "basic.publish"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x28\x00\x00",
            encode_short(self.exchange),
            encode_short(self.routing_key),
            encode_bits(self.mandatory, self.immediate),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(exchange, routing_key, bits & 1 != 0, bits & 2 != 0)


@dataclass(slots=True)
class BasicReturn(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 50
    id: ClassVar[tuple[int, int]] = (60, 50)
    NAME: ClassVar[str] = "basic.return"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x32",
            encode_uint16(self.reply_code),
            encode_short(self.reply_text),
            encode_short(self.exchange),
            encode_short(self.routing_key),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        reply_code, offset = decode_uint16(data, offset, end)
        reply_text, offset = decode_short(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls(reply_code, reply_text, exchange, routing_key)


@dataclass(slots=True)
class BasicDeliver(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 60
    id: ClassVar[tuple[int, int]] = (60, 60)
    NAME: ClassVar[str] = "basic.deliver"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x3c",
            encode_short(self.consumer_tag),
            encode_uint64(self.delivery_tag),
            encode_bits(self.redelivered),
            encode_short(self.exchange),
            encode_short(self.routing_key),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        consumer_tag, offset = decode_short(data, offset, end)
        delivery_tag, offset = decode_uint64(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls(consumer_tag, delivery_tag, bits & 1 != 0, exchange, routing_key)


@dataclass(slots=True)
class BasicGet(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 70
    id: ClassVar[tuple[int, int]] = (60, 70)
    NAME: ClassVar[str] = "basic.get"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    queue: str = ""
    no_ack: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x46\x00\x00",
            encode_short(self.queue),
            encode_bits(self.no_ack),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_uint16(data, offset, end)
        queue, offset = decode_short(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(queue, bits & 1 != 0)


@dataclass(slots=True)
class BasicGetOk(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 71
    id: ClassVar[tuple[int, int]] = (60, 71)
    NAME: ClassVar[str] = "basic.get-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x47",
            encode_uint64(self.delivery_tag),
            encode_bits(self.redelivered),
            encode_short(self.exchange),
            encode_short(self.routing_key),
            encode_uint32(self.message_count),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        delivery_tag, offset = decode_uint64(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        exchange, offset = decode_short(data, offset, end)
        routing_key, offset = decode_short(data, offset, end)
        message_count, offset = decode_uint32(data, offset, end)
        expect_end(offset, end)
        return cls(delivery_tag, bits & 1 != 0, exchange, routing_key, message_count)


@dataclass(slots=True)
class BasicGetEmpty(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 72
    id: ClassVar[tuple[int, int]] = (60, 72)
    NAME: ClassVar[str] = "basic.get-empty"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x3c\x00\x48\x00"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        _, offset = decode_short(data, offset, end)
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class BasicAck(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 80
    id: ClassVar[tuple[int, int]] = (60, 80)
    NAME: ClassVar[str] = "basic.ack"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    delivery_tag: int = 0
    multiple: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x50",
            encode_uint64(self.delivery_tag),
            encode_bits(self.multiple),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        delivery_tag, offset = decode_uint64(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(delivery_tag, bits & 1 != 0)


@dataclass(slots=True)
class BasicReject(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 90
    id: ClassVar[tuple[int, int]] = (60, 90)
    NAME: ClassVar[str] = "basic.reject"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    delivery_tag: int = 0
    requeue: bool = True

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x5a",
            encode_uint64(self.delivery_tag),
            encode_bits(self.requeue),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        delivery_tag, offset = decode_uint64(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(delivery_tag, bits & 1 != 0)


@dataclass(slots=True)
class BasicRecoverAsync(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 100
    id: ClassVar[tuple[int, int]] = (60, 100)
    NAME: ClassVar[str] = "basic.recover-async"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    requeue: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x64",
            encode_bits(self.requeue),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(bits & 1 != 0)


@dataclass(slots=True)
class BasicRecover(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 110
    id: ClassVar[tuple[int, int]] = (60, 110)
    NAME: ClassVar[str] = "basic.recover"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    requeue: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x6e",
            encode_bits(self.requeue),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(bits & 1 != 0)


@dataclass(slots=True)
class BasicRecoverOk(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 111
    id: ClassVar[tuple[int, int]] = (60, 111)
    NAME: ClassVar[str] = "basic.recover-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x3c\x00\x6f"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class BasicNack(Method):
    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 120
    id: ClassVar[tuple[int, int]] = (60, 120)
    NAME: ClassVar[str] = "basic.nack"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True

    def encode(self) -> bytes:
        parts = [
            b"\x00\x3c\x00\x78",
            encode_uint64(self.delivery_tag),
            encode_bits(self.multiple, self.requeue),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        delivery_tag, offset = decode_uint64(data, offset, end)
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(delivery_tag, bits & 1 != 0, bits & 2 != 0)


@dataclass(slots=True)
class ConfirmSelect(Method):
    CLASS_ID: ClassVar[int] = 85
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (85, 10)
    NAME: ClassVar[str] = "confirm.select"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    nowait: bool = False

    def encode(self) -> bytes:
        parts = [
            b"\x00\x55\x00\x0a",
            encode_bits(self.nowait),
        ]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        bits, offset = decode_octet(data, offset, end)
        expect_end(offset, end)
        return cls(bits & 1 != 0)


@dataclass(slots=True)
class ConfirmSelectOk(Method):
    CLASS_ID: ClassVar[int] = 85
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (85, 11)
    NAME: ClassVar[str] = "confirm.select-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x55\x00\x0b"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class TxSelect(Method):
    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (90, 10)
    NAME: ClassVar[str] = "tx.select"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x0a"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class TxSelectOk(Method):
    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (90, 11)
    NAME: ClassVar[str] = "tx.select-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x0b"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class TxCommit(Method):
    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (90, 20)
    NAME: ClassVar[str] = "tx.commit"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x14"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class TxCommitOk(Method):
    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (90, 21)
    NAME: ClassVar[str] = "tx.commit-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x15"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class TxRollback(Method):
    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (90, 30)
    NAME: ClassVar[str] = "tx.rollback"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x1e"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


@dataclass(slots=True)
class TxRollbackOk(Method):
    CLASS_ID: ClassVar[int] = 90
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (90, 31)
    NAME: ClassVar[str] = "tx.rollback-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def encode(self) -> bytes:
        return b"\x00\x5a\x00\x1f"

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        expect_end(offset, end)
        return cls()


METHODS: dict[tuple[int, int], type[Method]] = {
    (10, 10): ConnectionStart,
    (10, 11): ConnectionStartOk,
    (10, 20): ConnectionSecure,
    (10, 21): ConnectionSecureOk,
    (10, 30): ConnectionTune,
    (10, 31): ConnectionTuneOk,
    (10, 40): ConnectionOpen,
    (10, 41): ConnectionOpenOk,
    (10, 50): ConnectionClose,
    (10, 51): ConnectionCloseOk,
    (10, 60): ConnectionBlocked,
    (10, 61): ConnectionUnblocked,
    (10, 70): ConnectionUpdateSecret,
    (10, 71): ConnectionUpdateSecretOk,
    (20, 10): ChannelOpen,
    (20, 11): ChannelOpenOk,
    (20, 20): ChannelFlow,
    (20, 21): ChannelFlowOk,
    (20, 40): ChannelClose,
    (20, 41): ChannelCloseOk,
    (40, 10): ExchangeDeclare,
    (40, 11): ExchangeDeclareOk,
    (40, 20): ExchangeDelete,
    (40, 21): ExchangeDeleteOk,
    (40, 30): ExchangeBind,
    (40, 31): ExchangeBindOk,
    (40, 40): ExchangeUnbind,
    (40, 51): ExchangeUnbindOk,
    (50, 10): QueueDeclare,
    (50, 11): QueueDeclareOk,
    (50, 20): QueueBind,
    (50, 21): QueueBindOk,
    (50, 30): QueuePurge,
    (50, 31): QueuePurgeOk,
    (50, 40): QueueDelete,
    (50, 41): QueueDeleteOk,
    (50, 50): QueueUnbind,
    (50, 51): QueueUnbindOk,
    (60, 10): BasicQos,
    (60, 11): BasicQosOk,
    (60, 20): BasicConsume,
    (60, 21): BasicConsumeOk,
    (60, 30): BasicCancel,
    (60, 31): BasicCancelOk,
    (60, 40): BasicPublish,
    (60, 50): BasicReturn,
    (60, 60): BasicDeliver,
    (60, 70): BasicGet,
    (60, 71): BasicGetOk,
    (60, 72): BasicGetEmpty,
    (60, 80): BasicAck,
    (60, 90): BasicReject,
    (60, 100): BasicRecoverAsync,
    (60, 110): BasicRecover,
    (60, 111): BasicRecoverOk,
    (60, 120): BasicNack,
    (85, 10): ConfirmSelect,
    (85, 11): ConfirmSelectOk,
    (90, 10): TxSelect,
    (90, 11): TxSelectOk,
    (90, 20): TxCommit,
    (90, 21): TxCommitOk,
    (90, 30): TxRollback,
    (90, 31): TxRollbackOk,
}

# Generated from tools/spec.toml by `python tools/generate_methods.py`. Do not edit.
"""Every method of AMQP 0-9-1 as RabbitMQ speaks it: one class each, with its arguments as attributes."""

from __future__ import annotations

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
    """What all methods have in common. Mutable, since interceptors rewrite them. Written out, not made by dataclasses:
    that would be a tenth of the work of a start."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

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

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class ConnectionStart(Method):
    __slots__ = ("version_major", "version_minor", "server_properties", "mechanisms", "locales")

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (10, 10)
    NAME: ClassVar[str] = "connection.start"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        version_major: int = 0,
        version_minor: int = 9,
        server_properties: Table | None = None,
        mechanisms: bytes = b"PLAIN",
        locales: bytes = b"en_US",
    ) -> None:
        self.version_major = version_major
        self.version_minor = version_minor
        self.server_properties = {} if server_properties is None else server_properties
        self.mechanisms = mechanisms
        self.locales = locales

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


class ConnectionStartOk(Method):
    __slots__ = ("client_properties", "mechanism", "response", "locale")

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (10, 11)
    NAME: ClassVar[str] = "connection.start-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        client_properties: Table | None = None,
        mechanism: str = "PLAIN",
        response: bytes = b"",
        locale: str = "en_US",
    ) -> None:
        self.client_properties = {} if client_properties is None else client_properties
        self.mechanism = mechanism
        self.response = response
        self.locale = locale

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


class ConnectionSecure(Method):
    __slots__ = ("challenge",)

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (10, 20)
    NAME: ClassVar[str] = "connection.secure"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        challenge: bytes = b"",
    ) -> None:
        self.challenge = challenge

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


class ConnectionSecureOk(Method):
    __slots__ = ("response",)

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (10, 21)
    NAME: ClassVar[str] = "connection.secure-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        response: bytes = b"",
    ) -> None:
        self.response = response

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


class ConnectionTune(Method):
    __slots__ = ("channel_max", "frame_max", "heartbeat")

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (10, 30)
    NAME: ClassVar[str] = "connection.tune"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        channel_max: int = 0,
        frame_max: int = 0,
        heartbeat: int = 0,
    ) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

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


class ConnectionTuneOk(Method):
    __slots__ = ("channel_max", "frame_max", "heartbeat")

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (10, 31)
    NAME: ClassVar[str] = "connection.tune-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        channel_max: int = 0,
        frame_max: int = 0,
        heartbeat: int = 0,
    ) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

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


class ConnectionOpen(Method):
    __slots__ = ("virtual_host",)

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (10, 40)
    NAME: ClassVar[str] = "connection.open"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        virtual_host: str = "/",
    ) -> None:
        self.virtual_host = virtual_host

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


class ConnectionOpenOk(Method):
    __slots__ = ()

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


class ConnectionClose(Method):
    __slots__ = ("reply_code", "reply_text", "class_id", "method_id")

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 50
    id: ClassVar[tuple[int, int]] = (10, 50)
    NAME: ClassVar[str] = "connection.close"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        reply_code: int = 0,
        reply_text: str = "",
        class_id: int = 0,
        method_id: int = 0,
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id

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


class ConnectionCloseOk(Method):
    __slots__ = ()

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


class ConnectionBlocked(Method):
    __slots__ = ("reason",)

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 60
    id: ClassVar[tuple[int, int]] = (10, 60)
    NAME: ClassVar[str] = "connection.blocked"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        reason: str = "",
    ) -> None:
        self.reason = reason

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


class ConnectionUnblocked(Method):
    __slots__ = ()

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


class ConnectionUpdateSecret(Method):
    __slots__ = ("new_secret", "reason")

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 70
    id: ClassVar[tuple[int, int]] = (10, 70)
    NAME: ClassVar[str] = "connection.update-secret"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        new_secret: bytes = b"",
        reason: str = "",
    ) -> None:
        self.new_secret = new_secret
        self.reason = reason

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


class ConnectionUpdateSecretOk(Method):
    __slots__ = ()

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


class ChannelOpen(Method):
    __slots__ = ()

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


class ChannelOpenOk(Method):
    __slots__ = ()

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


class ChannelFlow(Method):
    __slots__ = ("active",)

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (20, 20)
    NAME: ClassVar[str] = "channel.flow"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        active: bool = True,
    ) -> None:
        self.active = active

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


class ChannelFlowOk(Method):
    __slots__ = ("active",)

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (20, 21)
    NAME: ClassVar[str] = "channel.flow-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        active: bool = True,
    ) -> None:
        self.active = active

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


class ChannelClose(Method):
    __slots__ = ("reply_code", "reply_text", "class_id", "method_id")

    CLASS_ID: ClassVar[int] = 20
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (20, 40)
    NAME: ClassVar[str] = "channel.close"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        reply_code: int = 0,
        reply_text: str = "",
        class_id: int = 0,
        method_id: int = 0,
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.class_id = class_id
        self.method_id = method_id

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


class ChannelCloseOk(Method):
    __slots__ = ()

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


class ExchangeDeclare(Method):
    __slots__ = ("exchange", "type", "passive", "durable", "auto_delete", "internal", "nowait", "arguments")

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (40, 10)
    NAME: ClassVar[str] = "exchange.declare"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        exchange: str = "",
        type: str = "direct",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.exchange = exchange
        self.type = type
        self.passive = passive
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.nowait = nowait
        self.arguments = {} if arguments is None else arguments

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


class ExchangeDeclareOk(Method):
    __slots__ = ()

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


class ExchangeDelete(Method):
    __slots__ = ("exchange", "if_unused", "nowait")

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (40, 20)
    NAME: ClassVar[str] = "exchange.delete"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        exchange: str = "",
        if_unused: bool = False,
        nowait: bool = False,
    ) -> None:
        self.exchange = exchange
        self.if_unused = if_unused
        self.nowait = nowait

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


class ExchangeDeleteOk(Method):
    __slots__ = ()

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


class ExchangeBind(Method):
    __slots__ = ("destination", "source", "routing_key", "nowait", "arguments")

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (40, 30)
    NAME: ClassVar[str] = "exchange.bind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.nowait = nowait
        self.arguments = {} if arguments is None else arguments

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


class ExchangeBindOk(Method):
    __slots__ = ()

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


class ExchangeUnbind(Method):
    __slots__ = ("destination", "source", "routing_key", "nowait", "arguments")

    CLASS_ID: ClassVar[int] = 40
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (40, 40)
    NAME: ClassVar[str] = "exchange.unbind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        destination: str = "",
        source: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.destination = destination
        self.source = source
        self.routing_key = routing_key
        self.nowait = nowait
        self.arguments = {} if arguments is None else arguments

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


class ExchangeUnbindOk(Method):
    __slots__ = ()

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


class QueueDeclare(Method):
    __slots__ = ("queue", "passive", "durable", "exclusive", "auto_delete", "nowait", "arguments")

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (50, 10)
    NAME: ClassVar[str] = "queue.declare"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.passive = passive
        self.durable = durable
        self.exclusive = exclusive
        self.auto_delete = auto_delete
        self.nowait = nowait
        self.arguments = {} if arguments is None else arguments

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


class QueueDeclareOk(Method):
    __slots__ = ("queue", "message_count", "consumer_count")

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 11
    id: ClassVar[tuple[int, int]] = (50, 11)
    NAME: ClassVar[str] = "queue.declare-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        message_count: int = 0,
        consumer_count: int = 0,
    ) -> None:
        self.queue = queue
        self.message_count = message_count
        self.consumer_count = consumer_count

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


class QueueBind(Method):
    __slots__ = ("queue", "exchange", "routing_key", "nowait", "arguments")

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (50, 20)
    NAME: ClassVar[str] = "queue.bind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        exchange: str = "",
        routing_key: str = "",
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.nowait = nowait
        self.arguments = {} if arguments is None else arguments

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


class QueueBindOk(Method):
    __slots__ = ()

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


class QueuePurge(Method):
    __slots__ = ("queue", "nowait")

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (50, 30)
    NAME: ClassVar[str] = "queue.purge"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        nowait: bool = False,
    ) -> None:
        self.queue = queue
        self.nowait = nowait

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


class QueuePurgeOk(Method):
    __slots__ = ("message_count",)

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (50, 31)
    NAME: ClassVar[str] = "queue.purge-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        message_count: int = 0,
    ) -> None:
        self.message_count = message_count

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


class QueueDelete(Method):
    __slots__ = ("queue", "if_unused", "if_empty", "nowait")

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (50, 40)
    NAME: ClassVar[str] = "queue.delete"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        if_unused: bool = False,
        if_empty: bool = False,
        nowait: bool = False,
    ) -> None:
        self.queue = queue
        self.if_unused = if_unused
        self.if_empty = if_empty
        self.nowait = nowait

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


class QueueDeleteOk(Method):
    __slots__ = ("message_count",)

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 41
    id: ClassVar[tuple[int, int]] = (50, 41)
    NAME: ClassVar[str] = "queue.delete-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        message_count: int = 0,
    ) -> None:
        self.message_count = message_count

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


class QueueUnbind(Method):
    __slots__ = ("queue", "exchange", "routing_key", "arguments")

    CLASS_ID: ClassVar[int] = 50
    METHOD_ID: ClassVar[int] = 50
    id: ClassVar[tuple[int, int]] = (50, 50)
    NAME: ClassVar[str] = "queue.unbind"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        exchange: str = "",
        routing_key: str = "",
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        self.routing_key = routing_key
        self.arguments = {} if arguments is None else arguments

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


class QueueUnbindOk(Method):
    __slots__ = ()

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


class BasicQos(Method):
    __slots__ = ("prefetch_size", "prefetch_count", "global_")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (60, 10)
    NAME: ClassVar[str] = "basic.qos"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        prefetch_size: int = 0,
        prefetch_count: int = 0,
        global_: bool = False,
    ) -> None:
        self.prefetch_size = prefetch_size
        self.prefetch_count = prefetch_count
        self.global_ = global_

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


class BasicQosOk(Method):
    __slots__ = ()

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


class BasicConsume(Method):
    __slots__ = ("queue", "consumer_tag", "no_local", "no_ack", "exclusive", "nowait", "arguments")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 20
    id: ClassVar[tuple[int, int]] = (60, 20)
    NAME: ClassVar[str] = "basic.consume"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        consumer_tag: str = "",
        no_local: bool = False,
        no_ack: bool = False,
        exclusive: bool = False,
        nowait: bool = False,
        arguments: Table | None = None,
    ) -> None:
        self.queue = queue
        self.consumer_tag = consumer_tag
        self.no_local = no_local
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.nowait = nowait
        self.arguments = {} if arguments is None else arguments

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


class BasicConsumeOk(Method):
    __slots__ = ("consumer_tag",)

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 21
    id: ClassVar[tuple[int, int]] = (60, 21)
    NAME: ClassVar[str] = "basic.consume-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        consumer_tag: str = "",
    ) -> None:
        self.consumer_tag = consumer_tag

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


class BasicCancel(Method):
    __slots__ = ("consumer_tag", "nowait")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 30
    id: ClassVar[tuple[int, int]] = (60, 30)
    NAME: ClassVar[str] = "basic.cancel"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        consumer_tag: str = "",
        nowait: bool = False,
    ) -> None:
        self.consumer_tag = consumer_tag
        self.nowait = nowait

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


class BasicCancelOk(Method):
    __slots__ = ("consumer_tag",)

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 31
    id: ClassVar[tuple[int, int]] = (60, 31)
    NAME: ClassVar[str] = "basic.cancel-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        consumer_tag: str = "",
    ) -> None:
        self.consumer_tag = consumer_tag

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


class BasicPublish(Method):
    __slots__ = ("exchange", "routing_key", "mandatory", "immediate")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 40
    id: ClassVar[tuple[int, int]] = (60, 40)
    NAME: ClassVar[str] = "basic.publish"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    def __init__(
        self,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.immediate = immediate

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


class BasicReturn(Method):
    __slots__ = ("reply_code", "reply_text", "exchange", "routing_key")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 50
    id: ClassVar[tuple[int, int]] = (60, 50)
    NAME: ClassVar[str] = "basic.return"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    def __init__(
        self,
        reply_code: int = 0,
        reply_text: str = "",
        exchange: str = "",
        routing_key: str = "",
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.exchange = exchange
        self.routing_key = routing_key

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


class BasicDeliver(Method):
    __slots__ = ("consumer_tag", "delivery_tag", "redelivered", "exchange", "routing_key")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 60
    id: ClassVar[tuple[int, int]] = (60, 60)
    NAME: ClassVar[str] = "basic.deliver"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    def __init__(
        self,
        consumer_tag: str = "",
        delivery_tag: int = 0,
        redelivered: bool = False,
        exchange: str = "",
        routing_key: str = "",
    ) -> None:
        self.consumer_tag = consumer_tag
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key

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


class BasicGet(Method):
    __slots__ = ("queue", "no_ack")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 70
    id: ClassVar[tuple[int, int]] = (60, 70)
    NAME: ClassVar[str] = "basic.get"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        queue: str = "",
        no_ack: bool = False,
    ) -> None:
        self.queue = queue
        self.no_ack = no_ack

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


class BasicGetOk(Method):
    __slots__ = ("delivery_tag", "redelivered", "exchange", "routing_key", "message_count")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 71
    id: ClassVar[tuple[int, int]] = (60, 71)
    NAME: ClassVar[str] = "basic.get-ok"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = True

    def __init__(
        self,
        delivery_tag: int = 0,
        redelivered: bool = False,
        exchange: str = "",
        routing_key: str = "",
        message_count: int = 0,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.routing_key = routing_key
        self.message_count = message_count

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


class BasicGetEmpty(Method):
    __slots__ = ()

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


class BasicAck(Method):
    __slots__ = ("delivery_tag", "multiple")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 80
    id: ClassVar[tuple[int, int]] = (60, 80)
    NAME: ClassVar[str] = "basic.ack"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        delivery_tag: int = 0,
        multiple: bool = False,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple

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


class BasicReject(Method):
    __slots__ = ("delivery_tag", "requeue")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 90
    id: ClassVar[tuple[int, int]] = (60, 90)
    NAME: ClassVar[str] = "basic.reject"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        delivery_tag: int = 0,
        requeue: bool = True,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.requeue = requeue

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


class BasicRecoverAsync(Method):
    __slots__ = ("requeue",)

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 100
    id: ClassVar[tuple[int, int]] = (60, 100)
    NAME: ClassVar[str] = "basic.recover-async"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        requeue: bool = False,
    ) -> None:
        self.requeue = requeue

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


class BasicRecover(Method):
    __slots__ = ("requeue",)

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 110
    id: ClassVar[tuple[int, int]] = (60, 110)
    NAME: ClassVar[str] = "basic.recover"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        requeue: bool = False,
    ) -> None:
        self.requeue = requeue

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


class BasicRecoverOk(Method):
    __slots__ = ()

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


class BasicNack(Method):
    __slots__ = ("delivery_tag", "multiple", "requeue")

    CLASS_ID: ClassVar[int] = 60
    METHOD_ID: ClassVar[int] = 120
    id: ClassVar[tuple[int, int]] = (60, 120)
    NAME: ClassVar[str] = "basic.nack"
    SYNC: ClassVar[bool] = False
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        delivery_tag: int = 0,
        multiple: bool = False,
        requeue: bool = True,
    ) -> None:
        self.delivery_tag = delivery_tag
        self.multiple = multiple
        self.requeue = requeue

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


class ConfirmSelect(Method):
    __slots__ = ("nowait",)

    CLASS_ID: ClassVar[int] = 85
    METHOD_ID: ClassVar[int] = 10
    id: ClassVar[tuple[int, int]] = (85, 10)
    NAME: ClassVar[str] = "confirm.select"
    SYNC: ClassVar[bool] = True
    HAS_CONTENT: ClassVar[bool] = False

    def __init__(
        self,
        nowait: bool = False,
    ) -> None:
        self.nowait = nowait

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


class ConfirmSelectOk(Method):
    __slots__ = ()

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


class TxSelect(Method):
    __slots__ = ()

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


class TxSelectOk(Method):
    __slots__ = ()

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


class TxCommit(Method):
    __slots__ = ()

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


class TxCommitOk(Method):
    __slots__ = ()

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


class TxRollback(Method):
    __slots__ = ()

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


class TxRollbackOk(Method):
    __slots__ = ()

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

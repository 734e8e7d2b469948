"""The URI of a broker, with credentials and options.

    amqp://user:password@host:5672/vhost?heartbeat=60&connection_timeout=10
    amqps://host/vhost?cacertfile=ca.pem&certfile=me.pem&keyfile=me.key&verify=verify_peer
    tcp://, nio:// (as amqp), tls:// (as amqps), ws://, wss://, http://, https:// (AMQP in a tunnel)

The names of the options, and the defaults of all parts, are those of RabbitMQ's clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from leveret.client.errors import AddressError
from leveret.client.option_reader import OptionReader
from leveret.wire.constants import DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX, DEFAULT_HEARTBEAT, MIN_FRAME_MAX

SCHEMES = {
    "amqp": ("tcp", False, 5672),
    "tcp": ("tcp", False, 5672),
    "nio": ("tcp", False, 5672),
    "amqps": ("tcp", True, 5671),
    "tls": ("tcp", True, 5671),
    "ssl": ("tcp", True, 5671),
    "ws": ("ws", False, 15672),
    "wss": ("ws", True, 15671),
    "http": ("http", False, 15672),
    "https": ("http", True, 15671),
}
"""For each scheme: the transport, whether it uses TLS, and the default port."""

LARGEST_SHORT = 0xFFFF
ESCAPES = "percent-encode special characters: %2F for /, %3F for ?, %23 for #, %40 for @, %5B for ["


@dataclass(slots=True, frozen=True)
class Address:
    host: str = "localhost"
    port: int = 5672
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    transport: str = "tcp"
    is_tls: bool = False
    heartbeat: int = DEFAULT_HEARTBEAT
    connection_timeout: float = 10.0
    channel_max: int = DEFAULT_CHANNEL_MAX
    frame_max: int = DEFAULT_FRAME_MAX
    name: str = ""  # of the connection, as shown in the management UI
    cacertfile: str = ""
    certfile: str = ""
    keyfile: str = ""
    verify: bool = True
    server_name: str = ""  # that the certificate must have, if it is not the host

    @property
    def shown(self) -> str:
        """Without the password."""
        host = f"[{quote(self.host, safe=':')}]" if ":" in self.host else self.host
        scheme = ("amqps" if self.is_tls else "amqp") if self.transport == "tcp" else self.transport
        return f"{scheme}://{quote(self.user)}@{host}:{self.port}/{quote(self.vhost, safe='')}"


def parsed(uri: str, **others: object) -> Address:
    """The address of a URI; ``others`` are fields of Address that override it."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:  # its text may contain a part of the password
        raise AddressError(
            f"'{_hidden(uri)}' is not a valid address: its port must be a number from 0 to 65535; {ESCAPES}"
        ) from None
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise AddressError(f"'{_hidden(uri)}' is not a valid address: it must start with one of {known}")
    if "@" in parts.path + parts.query + parts.fragment:  # most likely a part of a password
        raise AddressError(f"'{_hidden(uri)}' is not a valid address: it has an @ after the host; {ESCAPES}")
    transport, is_tls, default_port = SCHEMES[parts.scheme]
    address = Address(
        host=unquote(parts.hostname or "localhost"),
        port=port or default_port,
        vhost=_vhost(parts, uri),
        user=unquote(parts.username) if parts.username is not None else _unnamed_user(parts),
        password=unquote(parts.password) if parts.password is not None else "guest",
        transport=transport,
        is_tls=is_tls,
    )
    return replace(_with_options(address, parts.query, uri), **others)  # type: ignore[arg-type]


def _vhost(parts: SplitResult, uri: str) -> str:
    path = parts.path.removeprefix("/")
    if "/" in path:
        raise AddressError(f"'{_hidden(uri)}' has more than one part in its path: write the / of a vhost as %2F")
    return unquote(path) if parts.path not in ("", "/") else "/"


def _unnamed_user(parts: SplitResult) -> str:
    """With a client certificate, the user name is that of the certificate."""
    return "" if "certfile" in dict(parse_qsl(parts.query)) else "guest"


def _with_options(address: Address, query: str, uri: str) -> Address:
    options = OptionReader(dict(parse_qsl(query, keep_blank_values=True)), AddressError, f"'{_hidden(uri)}'")
    found: dict[str, object] = {
        "heartbeat": options.whole("heartbeat", 0, LARGEST_SHORT),
        "channel_max": options.whole("channel_max", 1, LARGEST_SHORT),
        "frame_max": options.whole("frame_max", MIN_FRAME_MAX, 1 << 31),
        "connection_timeout": options.whole("connection_timeout", 1, 3600),
        "server_name": options.text("server_name_indication"),
    }
    found |= {name: options.text(name) for name in ("cacertfile", "certfile", "keyfile", "name")}
    verify = options.choice("verify", "verify_peer", "verify_none")
    found["verify"] = None if verify is None else verify == "verify_peer"
    options.refuse_left()
    return replace(address, **{name: value for name, value in found.items() if value is not None})  # type: ignore[arg-type]


def _hidden(uri: str) -> str:
    """For an error: without what may be a password, or a part of one that was not escaped."""
    before, at, behind = uri.rpartition("@")
    text = before if at else uri
    scheme, separator, rest = text.partition("://")
    if ":" in scheme or (at and scheme not in SCHEMES):  # it may be a part of the password
        separator, rest = "", text
    begin = scheme + separator if separator else ""
    if at:
        return f"{begin}...@{behind.partition('?')[0]}"
    place = (rest if separator else text).partition("?")[0]
    host, colon, port = place.partition(":")
    is_port = port.partition("/")[0].isdecimal() or place.startswith("[")
    return begin + (place if is_port or not colon else f"{host}:...")

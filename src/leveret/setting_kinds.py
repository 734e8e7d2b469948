"""The kinds of settings, and the values that each accepts in TOML or as the text of a flag or variable.

A parser raises ValueError; ``config`` adds the name of the setting, the source of the value and the accepted values.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

SIZE_UNITS = {
    "": 1, "b": 1,
    "k": 1 << 10, "kb": 1000, "kib": 1 << 10,
    "m": 1 << 20, "mb": 1000**2, "mib": 1 << 20,
    "g": 1 << 30, "gb": 1000**3, "gib": 1 << 30,
}  # fmt: skip
TIME_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
ON = frozenset({"on", "true", "yes"})
OFF = frozenset({"off", "none", "false", "no"})
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # if configured: an IPv6 wildcard alone would not accept IPv4 peers
LISTENERS = ("amqp", "amqps", "http", "https", "stomp", "stomps")
PATH_PREFIX_FORM = re.compile(r"(/[A-Za-z0-9._~-]{1,64}){1,4}")
UNLIMITED = frozenset({"unlimited", "none", "off"})


@dataclass(slots=True, frozen=True)
class Kind:
    metavar: str
    accepts: str
    parse: Callable[[object], Any]
    nothing: str = "none"
    """How None is written, for kinds that allow it."""

    def show(self, value: object) -> str:
        if value is None:
            return self.nothing
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, tuple | frozenset):
            return ",".join(sorted(value) if isinstance(value, frozenset) else value) or "none"
        return f"{value:g}" if isinstance(value, float) else str(value) or "none"


@dataclass(slots=True, frozen=True)
class MemoryWatermark:
    """Memory above which publishers are blocked: a share of the usable memory, or a number of bytes."""

    percent: float | None = None
    size: int | None = None

    def of(self, usable: int) -> int:
        return self.size if self.size is not None else int(usable * (self.percent or 0.0) / 100)

    def __str__(self) -> str:
        return f"{self.percent:g}%" if self.size is None else str(self.size)


@dataclass(slots=True, frozen=True)
class DiskFreeLimit:
    """Free space below which publishers are blocked: the smaller of a share of the disk and a number of bytes."""

    percent: float = 5.0
    size: int = 1_000_000_000

    def of(self, total: int) -> int:
        return min(self.size, int(total * self.percent / 100))

    def __str__(self) -> str:
        if self == DiskFreeLimit():
            return "5%, at most 1GB"
        return str(self.size) if self.percent == 100.0 else f"{self.percent:g}%"


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        value.encode()  # lone surrogates come from a variable that is not UTF-8: UnicodeEncodeError is a ValueError
        return value.strip()
    raise ValueError


def _path_prefix(value: object) -> str:
    """Without a trailing slash; the empty text for none."""
    if value == "" or value in OFF:
        return ""
    path = _text(value).rstrip("/")
    if not PATH_PREFIX_FORM.fullmatch(path):
        raise ValueError
    return path


def _verbatim(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _between(value: int, low: int, high: int | None) -> int:
    if value < low or (high is not None and value > high):
        raise ValueError
    return value


def _with_unit(value: object, units: dict[str, Any]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    if not isinstance(value, str):
        return value
    digits = value.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = value.strip()[len(digits) :].lower()
    if unit not in units:
        raise ValueError
    return float(digits) * float(units[unit])


def _is_word(value: object, words: frozenset[str]) -> bool:
    return value is False or (isinstance(value, str) and value.strip().lower() in words)


def _switch(value: object) -> bool:
    if value is True or (isinstance(value, str) and value.strip().lower() in ON):
        return True
    if _is_word(value, OFF):
        return False
    raise ValueError


def _port(value: object) -> int | None:
    return None if _is_word(value, OFF) else _between(_whole(value), 0, 65535)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [] if _is_word(value, OFF) else value.split(",")
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_text(item) for item in value)


def _hosts(value: object) -> tuple[str, ...]:
    hosts = tuple(host for name in _names(value) for host in (EVERYWHERE if name == "*" else (_host(name),)))
    if not hosts:
        raise ValueError
    return hosts


def _host(name: str) -> str:
    if name.startswith("[") or ":" in name:  # only an IPv6 literal has a colon: "localhost:5672" is a mistake
        name = name.removeprefix("[").removesuffix("]")
        ip_address(name.partition("%")[0])
    return name


def _listeners(value: object) -> frozenset[str]:
    if value is True or (isinstance(value, str) and value.strip().lower() in ON):
        return frozenset(LISTENERS)
    names = frozenset() if value is False else frozenset(name.lower() for name in _names(value))
    if not names <= frozenset(LISTENERS):
        raise ValueError
    return names


def _networks(value: object) -> tuple[str, ...]:
    names = _names(value)
    for name in names:
        ip_network(name)
    return names


def _engine_urls(value: object) -> tuple[str, ...]:
    urls = _names(value)
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("nats", "tls") or not parts.hostname or parts.username is not None or parts.path:
            raise ValueError
    return urls


def _http_urls(value: object) -> tuple[str, ...]:
    urls = _names(value)
    if not all(urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname for url in urls):
        raise ValueError
    return urls


def _issuer(value: object) -> str:
    """The URL of an identity provider, unchanged: it is compared with the one in tokens."""
    url = _text(value)
    if not is_provider_url(url) or "?" in url or "#" in url:
        raise ValueError
    return url


def is_provider_url(url: str) -> bool:
    """Whether an identity provider may have this URL: https, or http on this machine only (for development)."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError
    except ValueError:
        return False
    host = parts.hostname
    if (
        not host
        or parts.username is not None
        or parts.password is not None
        or not url.isascii()
        or not url.isprintable()
    ):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback_name(host))


def _is_loopback_name(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _memory_watermark(value: object) -> MemoryWatermark:
    if isinstance(value, str) and value.strip().endswith("%"):
        percent = float(value.strip()[:-1])
        if not 0 < percent <= 100:
            raise ValueError
        return MemoryWatermark(percent=percent)
    return MemoryWatermark(size=_between(int(_with_unit(value, SIZE_UNITS)), 1 << 20, None))


def _disk_free_limit(value: object) -> DiskFreeLimit:
    if isinstance(value, str) and value.strip().endswith("%"):
        percent = float(value.strip()[:-1])
        if not 0 <= percent < 100:
            raise ValueError
        return DiskFreeLimit(percent=percent, size=1 << 62)
    return DiskFreeLimit(percent=100.0, size=_between(int(_with_unit(value, SIZE_UNITS)), 0, None))


TEXT = Kind("TEXT", "non-empty text", _text)
PATH_PREFIX = Kind("PATH", "a path such as /leveret, of letters, digits and -._~, or none", _path_prefix)
SECRET_TEXT = Kind("TEXT", "non-empty text", _verbatim)
FILE = Kind("FILE", "the path of a file", lambda value: Path(_text(value)))
FOLDER = Kind("DIR", "the path of a directory", lambda value: Path(_text(value)))
PORT = Kind("PORT", "a port from 1 to 65535, 0 for a free one, or off", _port, nothing="off")
NAMES = Kind("NAMES", "names separated by commas, or none", lambda value: frozenset(_names(value)))
HOSTS = Kind("HOSTS", "host names or addresses separated by commas, without ports", _hosts)
SWITCH = Kind("on|off", "on or off", _switch)
SOME_LISTENERS = Kind("LISTENERS", f"on, off, or some of {', '.join(LISTENERS)}, separated by commas", _listeners)
NETWORKS = Kind("NETWORKS", "IP addresses or CIDR networks such as 10.0.0.0/8, separated by commas, or none", _networks)
ENGINE_URLS = Kind(
    "URLS",
    "URLs such as nats://a:4222,nats://b:4222,nats://c:4222, or tls://..., without user and password; or none",
    _engine_urls,
)
ISSUER = Kind("URL", "a URL with https, or with http on this machine, without user, query and fragment", _issuer)
HTTP_URLS = Kind("URLS", "URLs such as http://a:8222, separated by commas, or none", _http_urls)
MEMORY_WATERMARK = Kind(
    "LIMIT", "a percentage of the memory such as 40%, or a size of at least 1MiB such as 512MiB", _memory_watermark
)
DISK_FREE_LIMIT = Kind(
    "LIMIT", "a percentage of the disk such as 5%, or a size such as 2GiB, 0 for none", _disk_free_limit
)


def choice(*words: str) -> Kind:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value.strip().lower() not in words:
            raise ValueError
        return value.strip().lower()

    return Kind("|".join(words), "one of " + ", ".join(words), parse)


def whole(low: int, high: int) -> Kind:
    return Kind("N", f"a whole number from {low} to {high}", lambda value: _between(_whole(value), low, high))


def limit() -> Kind:
    def parse(value: object) -> int | None:
        return None if _is_word(value, UNLIMITED) else _between(_whole(value), 0, None)

    return Kind("N", "a whole number, or unlimited", parse, nothing="unlimited")


def size(low: int, high: int) -> Kind:
    accepts = f"a size from {low} to {high} bytes, such as 64KiB or 16MiB"
    return Kind("SIZE", accepts, lambda value: _between(int(_with_unit(value, SIZE_UNITS)), low, high))


def seconds(low: float, high: float) -> Kind:
    def parse(value: object) -> float:
        given = _with_unit(value, TIME_UNITS)
        if not low <= given <= high:  # also refuses nan
            raise ValueError
        return float(given)

    return Kind("SECONDS", f"a time from {low:g} to {high:g} seconds, such as 10, 500ms or 1m", parse)


if not TYPE_CHECKING:  # type checkers should report the old names

    def __getattr__(name: str) -> Any:
        """The old names of two classes."""
        renamed = {"MemoryMark": MemoryWatermark, "DiskMark": DiskFreeLimit}
        if name not in renamed:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"{name} is now {renamed[name].__name__}", DeprecationWarning, stacklevel=2)
        return renamed[name]

"""A STOMP frame, and the escapes of its headers, which depend on the version.

1.0 escapes nothing, 1.1 escapes line feeds, colons and backslashes, 1.2 also carriage returns. CONNECT and CONNECTED
are never escaped, since they are sent before the version is negotiated. The escape of 1.2 is accepted in 1.1 as well:
many clients write both versions the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from leveret.stomp.errors import StompError

VERSIONS = ("1.2", "1.1", "1.0")  # preferred first
SUPPORTED = ",".join(reversed(VERSIONS))
UNESCAPED = frozenset({"CONNECT", "STOMP", "CONNECTED"})
HEARTBEAT = b"\n"
FLAGS = {"true": True, "false": False, "True": True, "False": False}  # stomp.py sends Python's str(True)

_UNESCAPED = {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"}
_ESCAPES: dict[str, dict[int, str]] = {
    "1.0": str.maketrans({"\n": " ", "\r": " "}),  # cannot be escaped: replaced, or they would end the line
    "1.1": str.maketrans({"\n": "\\n", ":": "\\c", "\\": "\\\\"}),
    "1.2": str.maketrans({"\n": "\\n", ":": "\\c", "\\": "\\\\", "\r": "\\r"}),
}
_ESCAPE = re.compile(r"\\.?", re.DOTALL)
_SPECIAL = re.compile(r"[\r\n:\\\0]")


class Frame:
    """``headers`` hold the first value of each name; repeated headers are ignored, as STOMP requires."""

    __slots__ = ("body", "command", "headers")

    def __init__(self, command: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.command = command
        self.headers: dict[str, str] = dict(headers or {})
        self.body = body

    def __repr__(self) -> str:
        return f"<{self.command} {list(self.headers)} {len(self.body)} bytes>"  # the values may be secret

    def get(self, *names: str) -> str | None:
        """The value of the first of these headers that the frame has."""
        for name in names:
            value = self.headers.get(name)
            if value is not None:
                return value
        return None

    def need(self, name: str) -> str:
        value = self.headers.get(name)
        if value is None:
            raise StompError(f"Missing {name}", f'"{self.command}" must include a {name!r} header')
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.headers.get(name)
        if value is None:
            return default
        if value not in FLAGS:
            raise StompError("Invalid header", f"{self.command} has {name}:{value}, expected true or false")
        return FLAGS[value]

    def number(self, *names: str) -> int | None:
        value = self.get(*names)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 18):
            raise StompError("Invalid header", f"{self.command} has {names[0]}:{value[:64]}, expected a whole number")
        return int(value)


def encode(version: str, command: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """The bytes of a frame in this version of STOMP."""
    return encode_head(version, command, headers) + body + b"\0"


def encode_head(version: str, command: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The same up to the body, which a NUL follows."""
    lines = [command]
    plain = command in UNESCAPED
    for name, value in headers:
        if _SPECIAL.search(name) or _SPECIAL.search(value):
            name, value = (_flat(name), _flat(value)) if plain else (escaped(version, name), escaped(version, value))
        lines.append(f"{name}:{value}")
    return f"{chr(10).join(lines)}\n\n".encode("utf-8", "replace")


def escaped(version: str, text: str) -> str:
    text = text.replace("\0", " ")  # many clients treat it as the end of the frame
    return text.translate(_ESCAPES[version])


def _flat(text: str) -> str:
    return text.translate({0: " ", 10: " ", 13: " "})


def unescaped(version: str, text: str) -> str:
    """The unescaped name or value; an unknown escape is an error."""
    if version == "1.0" or "\\" not in text:
        return text

    def one(found: re.Match[str]) -> str:
        escape = found[0]
        if escape not in _UNESCAPED:
            raise StompError("Malformed frame", f"{escape!r} is not an escape sequence of STOMP {version}")
        return _UNESCAPED[escape]

    return _ESCAPE.sub(one, text)

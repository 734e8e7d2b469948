"""A STOMP frame, and how its headers are escaped: by every version in its own way.

1.0 escapes nothing, 1.1 escapes line feeds, colons and backslashes, 1.2 also carriage returns. CONNECT and CONNECTED
are never escaped, since they are spoken before the version is known. What comes in 1.1 may have the escape of 1.2:
many a client has one way to write both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from leveret.stomp.refusals import StompRefusal

VERSIONS = ("1.2", "1.1", "1.0")  # the best first
SUPPORTED = ",".join(reversed(VERSIONS))
UNESCAPED = frozenset({"CONNECT", "STOMP", "CONNECTED"})
HEARTBEAT = b"\n"
FLAGS = {"true": True, "false": False, "True": True, "False": False}  # stomp.py writes Python's words, as str() does

_MEANT = {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"}
_WRITTEN: dict[str, dict[int, str]] = {
    "1.0": str.maketrans({"\n": " ", "\r": " "}),  # there is no way to write them: better lost than taken for a line
    "1.1": str.maketrans({"\n": "\\n", ":": "\\c", "\\": "\\\\"}),
    "1.2": str.maketrans({"\n": "\\n", ":": "\\c", "\\": "\\\\", "\r": "\\r"}),
}
_ESCAPE = re.compile(r"\\.?", re.DOTALL)
_SPECIAL = re.compile(r"[\r\n:\\\0]")


class Frame:
    """``headers`` hold the first value of each name: of repeated ones the others have no meaning."""

    __slots__ = ("body", "command", "headers")

    def __init__(self, command: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.command = command
        self.headers: dict[str, str] = dict(headers or {})
        self.body = body

    def __repr__(self) -> str:
        return f"<{self.command} {list(self.headers)} {len(self.body)} bytes>"  # the values may be secret

    def get(self, *names: str) -> str | None:
        """The first of these headers that is there."""
        for name in names:
            value = self.headers.get(name)
            if value is not None:
                return value
        return None

    def need(self, name: str) -> str:
        value = self.headers.get(name)
        if value is None:
            raise StompRefusal(f"Missing {name}", f'"{self.command}" must include a {name!r} header')
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.headers.get(name)
        if value is None:
            return default
        if value not in FLAGS:
            raise StompRefusal("Invalid header", f"{self.command} has {name}:{value}, expected true or false")
        return FLAGS[value]

    def number(self, *names: str) -> int | None:
        value = self.get(*names)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 18):
            raise StompRefusal("Invalid header", f"{self.command} has {names[0]}:{value[:64]}, expected a whole number")
        return int(value)


def encode(version: str, command: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """The bytes of a frame for a peer that speaks ``version``."""
    lines = [command]
    plain = command in UNESCAPED
    for name, value in headers:
        if _SPECIAL.search(name) or _SPECIAL.search(value):
            name, value = (_flat(name), _flat(value)) if plain else (written(version, name), written(version, value))
        lines.append(f"{name}:{value}")
    return f"{chr(10).join(lines)}\n\n".encode("utf-8", "replace") + body + b"\0"


def written(version: str, text: str) -> str:
    text = text.replace("\0", " ")  # it would end the frame for many a reader
    return text.translate(_WRITTEN[version])


def _flat(text: str) -> str:
    return text.translate({0: " ", 10: " ", 13: " "})


def meant(version: str, text: str) -> str:
    """What an escaped name or value stands for; an escape that the version does not know is an error."""
    if version == "1.0" or "\\" not in text:
        return text

    def one(found: re.Match[str]) -> str:
        escape = found[0]
        if escape not in _MEANT:
            raise StompRefusal("Malformed frame", f"{escape!r} is no escape sequence of STOMP {version}")
        return _MEANT[escape]

    return _ESCAPE.sub(one, text)

"""Definitions that a node creates at every start: the ``[[bootstrap.*]]`` tables of the config file.

[[bootstrap.vhosts]]              name, max_queues, max_connections
[[bootstrap.users]]               name, password or password_hash, tags, max_connections, max_channels
[[bootstrap.permissions]]         user, vhost, configure, write, read
[[bootstrap.topic_permissions]]   user, vhost, exchange, write, read
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from leveret.errors import ConfigError

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class BootstrapVhost:
    name: str
    max_queues: int | None = None
    max_connections: int | None = None


@dataclass(slots=True, frozen=True)
class BootstrapUser:
    name: str
    password: str | None = field(default=None, repr=False)
    password_hash: str | None = field(default=None, repr=False)
    tags: Collection[str] = ()
    max_connections: int | None = None
    max_channels: int | None = None


@dataclass(slots=True, frozen=True)
class BootstrapPermission:
    user: str
    vhost: str = "/"
    configure: str = ""
    write: str = ""
    read: str = ""


@dataclass(slots=True, frozen=True)
class BootstrapTopicPermission:
    user: str
    vhost: str = "/"
    exchange: str = "amq.topic"
    write: str = ""
    read: str = ""


@dataclass(slots=True, frozen=True)
class Bootstrap:
    vhosts: tuple[BootstrapVhost, ...] = ()
    users: tuple[BootstrapUser, ...] = ()
    permissions: tuple[BootstrapPermission, ...] = ()
    topic_permissions: tuple[BootstrapTopicPermission, ...] = ()


LISTS: Mapping[str, type] = {
    "vhosts": BootstrapVhost,
    "users": BootstrapUser,
    "permissions": BootstrapPermission,
    "topic_permissions": BootstrapTopicPermission,
}
PATTERNS = frozenset({"configure", "write", "read"})


def parse_bootstrap(document: object, source: str) -> Bootstrap:
    """The checked section; ConfigError names the table, the key, the file and the accepted values."""
    if not isinstance(document, dict):
        raise ConfigError(f"bootstrap in {source} cannot be used; accepted: tables such as [[bootstrap.users]]")
    for name in document:
        if name not in LISTS:
            raise ConfigError(_unknown(f"bootstrap.{name}", name, list(LISTS), source))
    bootstrap = Bootstrap(**{name: _rows(name, document.get(name, []), LISTS[name], source) for name in LISTS})
    for user in bootstrap.users:
        if user.password is not None and user.password_hash is not None:
            raise ConfigError(f"bootstrap user {user.name!r} in {source} has both password and password_hash: give one")
    return bootstrap


def _rows(name: str, given: object, row_type: Callable[..., T], source: str) -> tuple[T, ...]:
    if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
        raise ConfigError(f"bootstrap.{name} in {source} cannot be used; accepted: [[bootstrap.{name}]] tables")
    return tuple(_row(f"bootstrap.{name}[{place}]", row, row_type, source) for place, row in enumerate(given))


def _row(where: str, given: Mapping[str, object], row_type: Callable[..., T], source: str) -> T:
    known = {item.name: item for item in fields(row_type)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            raise ConfigError(_unknown(f"{where}.{key}", key, list(known), source))
        values[key] = _value(f"{where}.{key}", key, value, source)
    for key, item in known.items():
        if item.default is MISSING and not values.get(key):
            raise ConfigError(f"{where} in {source} has no {key}: it needs one")
    return row_type(**values)


def _value(where: str, key: str, value: object, source: str) -> Any:
    if key.startswith("max_"):
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        accepted = "a whole number"
    elif key == "tags":
        tags = value.replace(",", " ").split() if isinstance(value, str) else value
        if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
            return tuple(tags)
        accepted = "a list of names"
    elif isinstance(value, str):
        if key in PATTERNS:
            _refuse_bad_pattern(where, value, source)
        if key != "password_hash" or value.startswith("$argon2"):
            return value
        accepted = "an argon2 string ($argon2id$...)"
    else:
        accepted = "a text"
    shown = "***" if "password" in key else repr(value)
    raise ConfigError(f"{where} = {shown} (from {source}) cannot be used; accepted: {accepted}")


def _refuse_bad_pattern(where: str, pattern: str, source: str) -> None:
    import regex  # 20 ms, and most nodes have no bootstrap section

    try:
        regex.compile(pattern, cache_pattern=False)
    except (regex.error, ValueError, RecursionError, OverflowError) as problem:
        raise ConfigError(f"{where} = {pattern!r} (from {source}) is not a regular expression: {problem}") from None


def _unknown(where: str, name: str, known: list[str], source: str) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"unknown setting {where!r} in {source}: the nearest known name is {near[0]!r}"

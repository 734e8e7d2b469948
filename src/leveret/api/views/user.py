"""Rows of users: password hash, algorithm, tags and limits, in RabbitMQ's format.

RabbitMQ stores the algorithm next to the base64 hash, Leveret as a prefix of the hash (auth/passwords.py). Hashes of
Leveret's own algorithm are exported with the prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leveret.api.context import ApiContext
from leveret.api.views.vhost import tags_of
from leveret.auth.passwords import refuse_unusable_hash
from leveret.auth.users import User
from leveret.errors import ConfigError
from leveret.http.errors import BadRequest
from leveret.http.rows import Row, WholeRows
from leveret.http.values import LARGEST, excerpt

SHA256, SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"
PREFIXES = {SHA256: "$rabbitmq-sha256$", SHA512: "$rabbitmq-sha512$"}
OWN_ALGORITHM = "argon2id"
USER_LIMITS = ("max-connections", "max-channels")


class Given(NamedTuple):
    """The properties of a user in a PUT or an import. ``password`` is not hashed yet."""

    password: str | None
    password_hash: str | None
    tags: list[str]
    limits: Mapping[str, int] | None  # None: unchanged


def user_row(user: User) -> Row:
    """Includes the password hash: for administrators only."""
    password_hash, algorithm = user.password_hash or "", SHA256
    for name, prefix in PREFIXES.items():
        if password_hash.startswith(prefix):
            password_hash, algorithm = password_hash.removeprefix(prefix), name
            break
    else:
        if password_hash:
            algorithm = OWN_ALGORITHM
    return {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": limits_of(user),
    }


USER_ROWS = WholeRows(("name", "password_hash", "hashing_algorithm", "tags", "limits"), user_row)


def limits_of(user: User) -> dict[str, int]:
    both = {"max-connections": user.max_connections, "max-channels": user.max_channels}
    return {name: limit for name, limit in both.items() if limit is not None}


def limit_of(name: str, value: object) -> int | None:
    """A negative value is no limit."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > LARGEST:
        raise BadRequest(f"'{name}' must be a whole number, negative for no limit, not {excerpt(value)}")
    return value if value >= 0 else None


def limits_given(given: object, known: tuple[str, ...]) -> dict[str, int]:
    """RabbitMQ exports an empty table as a list."""
    if given == []:
        return {}
    if not isinstance(given, dict):
        raise BadRequest(f"limits must be a table of names and numbers, not {excerpt(given)}")
    unknown = [name for name in given if name not in known]
    if unknown:
        raise BadRequest(f"limit {excerpt(unknown[0])} is unknown: known limits are {', '.join(known)}")
    limits = {name: limit_of(name, value) for name, value in given.items()}
    return {name: limit for name, limit in limits.items() if limit is not None}


def user_given(name: str, given: Mapping[str, Any]) -> Given:
    if "tags" not in given:
        raise BadRequest(f"user '{name}' has no 'tags': give a list of them, which may be empty")
    password, password_hash = given.get("password"), given.get("password_hash")
    if password is not None and password_hash is not None:
        raise BadRequest(f"user '{name}' has both 'password' and 'password_hash': give one of them")
    for key, value in (("password", password), ("password_hash", password_hash)):
        if value is not None and not isinstance(value, str):
            raise BadRequest(f"'{key}' of user '{name}' must be a string")
    limits = limits_given(given["limits"], USER_LIMITS) if given.get("limits") is not None else None
    hash_here = _our_hash(name, password_hash, given.get("hashing_algorithm")) if password_hash else None
    return Given(password or None, hash_here, tags_of(given["tags"]), limits)


def _our_hash(name: str, password_hash: str, algorithm: object) -> str:
    if not password_hash.startswith("$"):
        prefix = PREFIXES.get(SHA256 if algorithm is None else str(algorithm))
        if prefix is None:
            raise BadRequest(
                f"'hashing_algorithm' {excerpt(algorithm)} of user '{name}' is not supported: use "
                f"{', '.join(PREFIXES)}; give the user a new password"
            )
        password_hash = prefix + password_hash
    try:
        refuse_unusable_hash(password_hash, name)
    except ConfigError as problem:
        raise BadRequest(str(problem)) from None
    return password_hash


async def keep_pending_hash(context: ApiContext, user: User) -> None:
    """Compute the hash of a password that was not used for a login yet, so that an export includes it."""
    pending = user.pending_password
    if pending is None or user.password_hash is not None:
        return
    await context.in_worker(lambda: user.secret.verify(pending))
    current = context.broker.users.get(user.name)
    if current is not None and current.secret is user.secret:
        context.broker.users.note_login(current)

"""Users: names, password hashes, tags and limits.

A ``User`` is immutable; a change replaces it, so a worker thread that verifies a password uses the user as it was when
the login began. Only the hash of a password that was given in plain text is added later (``Secret``): it is computed at
the first login, because computing it takes longer than the whole start of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hmac import compare_digest
from typing import Protocol

from leveret.auth.passwords import (
    VerifiedLogins,
    fault_of,
    hash_password,
    is_weak,
    refuse_unusable_hash,
    verify_password,
    verify_unknown_user,
)
from leveret.errors import NotFound, PreconditionFailed

MOST_CHANGES = 3  # of a secret during one login


class Secret:
    """A password: a hash, or the plain text until it is hashed at its first use, or neither (no password login)."""

    __slots__ = ("hash", "is_fresh", "pending")

    def __init__(self, password_hash: str | None = None, pending: str | None = None) -> None:
        self.hash = password_hash
        self.pending = pending
        self.is_fresh = False  # the hash was computed and is not stored yet

    def __repr__(self) -> str:
        return "Secret(***)"

    def verify(self, password: str) -> str | None:
        """The hash if ``password`` is correct, else None. Blocks for the same time in both cases.

        A weak hash is replaced by argon2id, since the password is known now. The secret remains the same object, so the
        user's sessions and requests continue. Two threads may both compute a hash: both are valid, the last one is
        kept. The hash is assigned before the plain text is removed, so that a thread always finds one of them.
        """
        pending, known = self.pending, self.hash
        if known is not None:
            if not verify_password(known, password):
                return None
            return self._replace(password) if is_weak(known) else known
        if pending is None or not compare_digest(_bytes(pending), _bytes(password)):
            verify_unknown_user(password)
            return None
        return self._replace(password)

    def _replace(self, password: str) -> str:
        self.hash = made = hash_password(password)
        self.pending = None
        self.is_fresh = True
        return made


@dataclass(slots=True, frozen=True)
class User:
    name: str
    tags: tuple[str, ...] = ()  # without duplicates, in the order in which they were set
    max_connections: int | None = None
    max_channels: int | None = None
    secret: Secret = field(default_factory=Secret, repr=False, compare=False)

    @property
    def password_hash(self) -> str | None:
        """The hash; also None before the first use of a plain-text password, see ``pending_password``."""
        return self.secret.hash

    @property
    def pending_password(self) -> str | None:
        return self.secret.pending


class UserListener(Protocol):
    """Called before a change is made."""

    def user_saved(self, user: User) -> None: ...

    def user_deleted(self, name: str) -> None: ...


class UserSessions(Protocol):
    def user_revoked(self, name: str) -> None:
        """Called after the user was deleted or replaced, or its password changed: earlier logins are invalid."""


class Users:
    """All users of the node. Changed and listed on the loop; ``authenticate`` alone may run in a worker thread."""

    __slots__ = ("_listener", "_users", "_verified", "sessions")

    def __init__(self, listener: UserListener | None = None, verified: VerifiedLogins | None = None) -> None:
        self._listener = listener
        self._users: dict[str, User] = {}
        self._verified = VerifiedLogins() if verified is None else verified
        self.sessions: UserSessions | None = None

    def add(
        self,
        name: str,
        *,
        password: str | None = None,
        password_hash: str | None = None,
        tags: Iterable[str] = (),
        max_connections: int | None = None,
        max_channels: int | None = None,
    ) -> User:
        """Add or replace a user. Does not block: a plain password is hashed later."""
        _refuse_nameless(name)
        user = User(
            name, tuple(dict.fromkeys(tags)), max_connections, max_channels, _secret(name, password, password_hash)
        )
        self._save(user)
        self._users[name] = user
        self._revoke(name)
        return user

    def _save(self, user: User) -> None:
        if self._listener is not None:
            self._listener.user_saved(user)

    def note_login(self, user: User) -> None:
        """Called on the loop after ``authenticate``: stores a hash that this login computed.

        The user is stored as it is now: it may have been changed or deleted since the login began."""
        current = self._users.get(user.name)
        if current is not None and current.secret is user.secret and current.secret.is_fresh:
            current.secret.is_fresh = False
            self._save(current)

    def restore(self, user: User) -> str | None:
        """Restore a stored user; returns the problem with its hash, if any. A user with an unusable hash is kept, but
        cannot log in with a password until a new one is set."""
        _refuse_nameless(user.name)
        self._users[user.name] = user
        return fault_of(user.password_hash) if user.password_hash is not None else None

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def delete(self, name: str) -> None:
        if name not in self._users:
            raise NotFound(f"no user {name!r}")
        if self._listener is not None:
            self._listener.user_deleted(name)
        del self._users[name]
        self._revoke(name)

    def list(self) -> tuple[User, ...]:
        return tuple(sorted(self._users.values(), key=lambda user: user.name))

    def set_password(self, name: str, *, password: str | None = None, password_hash: str | None = None) -> User:
        """Set a password or a hash; without either, the user can log in with a client certificate only."""
        user = self._change(name, secret=_secret(name, password, password_hash))
        self._revoke(name)
        return user

    def set_tags(self, name: str, tags: Iterable[str]) -> User:
        return self._change(name, tags=tuple(dict.fromkeys(tags)))

    def set_limits(self, name: str, *, max_connections: int | None, max_channels: int | None) -> User:
        return self._change(name, max_connections=max_connections, max_channels=max_channels)

    def cached(self, name: str, password: str, now: float) -> User | None:
        """The user, if this login was verified within the last minute. Never blocks."""
        user = self._users.get(name)
        if user is None or user.secret.hash is None:
            return None
        return user if self._verified.seen(name, user.secret.hash, password, now) else None

    def authenticate(self, name: str, password: str, now: float) -> User | None:
        """The user, if the password is correct. Blocks for tens of milliseconds: run it in a worker thread.

        An unknown user, a user without a password and an empty password (always refused, as in RabbitMQ) take the same
        time as a wrong password. A secret that was replaced meanwhile is verified again: another cell may have hashed
        the same password.
        """
        for _ in range(MOST_CHANGES):
            user = self._users.get(name)
            if user is None or not password:
                verify_unknown_user(password)
                return None
            known = user.secret.verify(password)
            current = self._users.get(name)
            if current is not None and current.secret is user.secret:
                if known is None:
                    return None
                self._verified.remember(name, known, password, now)
                return current
        return None

    def _revoke(self, name: str) -> None:
        self._verified.forget_user(name)
        if self.sessions is not None:
            self.sessions.user_revoked(name)

    def __len__(self) -> int:
        return len(self._users)

    def __contains__(self, name: str) -> bool:
        return name in self._users

    def _change(self, name: str, **changes: object) -> User:
        user = self._users.get(name)
        if user is None:
            raise NotFound(f"no user {name!r}")
        changed = replace(user, **changes)  # type: ignore[arg-type]
        self._save(changed)
        self._users[name] = changed
        return changed


def _refuse_nameless(name: str) -> None:
    if not name:
        raise PreconditionFailed("a user needs a name")


def _secret(name: str, password: str | None, password_hash: str | None) -> Secret:
    if password_hash is not None:
        refuse_unusable_hash(password_hash, name)
        return Secret(password_hash=password_hash)
    if password is not None and not _is_unicode(password):
        raise PreconditionFailed(f"the password of user {name!r} is not valid Unicode text")
    return Secret(pending=password)


def _is_unicode(text: str) -> bool:
    """Lone surrogates come from environment variables that are not UTF-8; they cannot be hashed."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

"""Password hashes, and a cache of logins that were verified recently.

Verifying a password takes tens of milliseconds by design, so every function here that takes a password blocks: the
caller runs it in a thread pool, never on the loop. ``VerifiedLogins`` does not block: it computes a keyed digest.

The cost is OWASP's second choice for argon2id: 19 MiB, two passes, one lane. Four verifications at once in the pool
then take 76 MiB rather than the 256 MiB of argon2-cffi's defaults, and no verification starts threads of its own.

Hashes exported by RabbitMQ (four bytes of salt, then one SHA-2 of salt and password, in base64) are stored unchanged,
with their algorithm as a prefix: ``$rabbitmq-sha256$...``. They are never created here, and each is replaced by an
argon2id hash at the next login with the correct password (users.py).

An argon2 string contains its own cost, so a client that may set a hash could make a login take terabytes of memory or
years. Hashes with costs far above the usual defaults are refused when they are set, and are never verified.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections import deque
from functools import cache
from hashlib import blake2b, sha256, sha512
from hmac import compare_digest
from typing import TYPE_CHECKING

from leveret.errors import ConfigError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

UNKNOWN_USER = "$argon2id$v=19$m=19456,t=2,p=1$f9DMVK7dsZGrm96afPOzZw$ssrbO3Vm3FoMDHFYMWG/KZBj0u8m5DC3x3WSSMFnz18"
"""A hash to verify against when there is no user: same parameters, so the same time."""
RABBITMQ = {"$rabbitmq-sha256$": sha256, "$rabbitmq-sha512$": sha512}
SALT_BYTES = 4  # of RabbitMQ's hashes
FAULTY_RABBITMQ = f"it is not a hash of its algorithm in base64 ({SALT_BYTES} bytes of salt, then the digest)"
ARGON2 = re.compile(
    r"\$argon2(?:id|i|d)\$(?:v=(?:16|19)\$)?m=(\d{1,10}),t=(\d{1,10}),p=(\d{1,10})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)
MOST_MEMORY = 128 << 10  # KiB
MOST_WORK = 512 << 10  # KiB times passes: one to two seconds
MOST_LANES = 8  # each lane is a thread
LONGEST_PART = 88  # characters of salt and of digest: 64 bytes in base64


@cache
def hasher() -> PasswordHasher:
    """A hasher has no state, so threads may share it. The first password imports argon2, which takes 25 ms."""
    from argon2 import PasswordHasher
    from argon2.low_level import Type

    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, type=Type.ID)


def hash_password(password: str) -> str:
    """An argon2id string with a fresh salt. Blocks."""
    return hasher().hash(password)


def verify_password(password_hash: str, password: str) -> bool:
    """Whether the hash is of ``password``. Blocks; a hash in an unknown format never matches."""
    from argon2.exceptions import VerificationError

    for prefix in RABBITMQ:
        if password_hash.startswith(prefix):
            is_right = _verify_rabbitmq(password_hash, prefix, password)
            if not is_right:
                verify_unknown_user(password)  # otherwise the time would reveal which users were imported
            return is_right
    if fault_of(password_hash) is not None:
        verify_unknown_user(password)
        return False
    try:
        return hasher().verify(password_hash, password)
    except (VerificationError, ValueError):  # ValueError: not a hash of argon2, or a password with surrogates
        return False


def verify_unknown_user(password: str) -> None:
    """Take as long as verifying a password, so that an unknown user cannot be distinguished from a wrong password."""
    verify_password(UNKNOWN_USER, password)


def _verify_rabbitmq(password_hash: str, prefix: str, password: str) -> bool:
    salted = _decoded(password_hash, prefix)
    if salted is None:
        return False
    given = password.encode("utf-8", "surrogatepass")
    return compare_digest(salted[SALT_BYTES:], RABBITMQ[prefix](salted[:SALT_BYTES] + given).digest())


def _decoded(password_hash: str, prefix: str) -> bytes | None:
    """Salt and digest; None if they are malformed."""
    try:
        salted = base64.b64decode(password_hash.removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        return None
    return salted if len(salted) == SALT_BYTES + RABBITMQ[prefix]().digest_size else None


def is_weak(password_hash: str) -> bool:
    """Whether RabbitMQ made the hash: one graphics card can test billions of passwords per second against it."""
    return password_hash.startswith(tuple(RABBITMQ))


def fault_of(password_hash: str) -> str | None:
    """The reason why this hash cannot be used; None if it can."""
    for prefix in RABBITMQ:
        if password_hash.startswith(prefix):
            return None if _decoded(password_hash, prefix) else FAULTY_RABBITMQ
    parts = ARGON2.fullmatch(password_hash)
    if parts is None:
        return "it is not an argon2 string ($argon2id$v=19$m=...,t=...,p=...$salt$digest)"
    memory, passes, lanes = (int(number) for number in parts.groups()[:3])
    if memory > MOST_MEMORY or memory * passes > MOST_WORK or lanes > MOST_LANES:
        return (
            f"it costs too much (m={memory},t={passes},p={lanes}): at most m={MOST_MEMORY} (KiB), m times "
            f"t={MOST_WORK} and p={MOST_LANES} are accepted"
        )
    if len(parts[4]) > LONGEST_PART or len(parts[5]) > LONGEST_PART:
        return "its salt or its digest is longer than 64 bytes"
    return None


def refuse_unusable_hash(password_hash: str, owner: str) -> None:
    """Refuse a hash that can never match when it is set, rather than at a login weeks later."""
    fault = fault_of(password_hash)
    if fault is not None:
        raise ConfigError(f"password_hash of user {owner!r} cannot be used: {fault}; give the user a new password")


class VerifiedLogins:
    """Logins that were verified recently. Bounded, short-lived, and without passwords.

    An entry is a digest of user, hash and password with a key of this process, so that a memory dump without the key
    does not make guessing faster than the hash does. The hash is part of the digest: a changed password invalidates
    old entries.

    Worker threads add entries while the loop reads them. There is no lock: each step is one operation on a dictionary
    or a deque, and losing a race costs one more verification.
    """

    __slots__ = ("_capacity", "_entries", "_key", "_order", "_seconds")

    def __init__(self, capacity: int = 1024, seconds: float = 60.0) -> None:
        self._capacity = capacity
        self._seconds = seconds
        self._key = secrets.token_bytes(32)
        self._entries: dict[bytes, tuple[str, float]] = {}
        self._order: deque[bytes] = deque()

    def seen(self, user: str, password_hash: str, password: str, now: float) -> bool:
        digest = self._digest(user, password_hash, password)
        entry = self._entries.get(digest)
        if entry is None:
            return False
        if now < entry[1]:
            return True
        self._entries.pop(digest, None)
        return False

    def remember(self, user: str, password_hash: str, password: str, now: float) -> None:
        digest = self._digest(user, password_hash, password)
        is_new = digest not in self._entries
        self._entries[digest] = (user, now + self._seconds)
        if is_new:  # otherwise a user with frequent logins would be evicted by its own earlier entries
            self._order.append(digest)
        while len(self._order) > self._capacity:
            self._entries.pop(self._order.popleft(), None)

    def forget_user(self, user: str) -> None:
        for digest, (owner, _) in self._entries.copy().items():
            if owner == user:
                self._entries.pop(digest, None)

    def __len__(self) -> int:
        return len(self._entries)

    def _digest(self, user: str, password_hash: str, password: str) -> bytes:
        mixed = blake2b(key=self._key, digest_size=32)
        for part in (user, password_hash, password):
            raw = part.encode("utf-8", "surrogatepass")
            mixed.update(len(raw).to_bytes(8, "big"))  # without lengths, ("ab", "c") would equal ("a", "bc")
            mixed.update(raw)
        return mixed.digest()

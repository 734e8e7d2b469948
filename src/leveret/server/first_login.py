"""The first administrator of a broker that listens on a network and has no configured password.

The default user ``guest`` would be useless, since it may log in from this machine only. Instead an administrator with
a random password is created. Only its hash is stored; the password is shown once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from leveret.auth.loopback import is_loopback
from leveret.auth.passwords import hash_password, verify_password
from leveret.auth.users import Users
from leveret.config import Settings

ADMINISTRATOR = "admin"
WELL_KNOWN = "guest"  # name and password of the default user
LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # none that looks like another
LENGTH = 24

ShowFirstLogin = Callable[[str, str], None]
"""Shows user name and password to the operator. An exception ends the start."""


@dataclass(slots=True, frozen=True)
class FirstLogin:
    user: str
    password_hash: str | None = field(repr=False)


def opens_to_a_network(hosts: Iterable[str]) -> bool:
    """An empty host means every address; a name other than localhost may mean any."""
    return any(not host or not (host.lower() == "localhost" or is_loopback(host)) for host in hosts)


def generate_login(settings: Settings) -> tuple[FirstLogin, str | None]:
    """The login, and its password unless the configuration has one. Blocks for tens of milliseconds."""
    name = settings.default_user
    if name in settings.loopback_users:  # a user that is limited to loopback cannot administer over the network
        name = ADMINISTRATOR
    if any(user.name == name for user in settings.bootstrap.users):
        return FirstLogin(name, None), None
    password = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
    return FirstLogin(name, hash_password(password)), password


def has_well_known_login(users: Users) -> bool:
    """Whether ``guest`` still has the password ``guest``. Blocks for tens of milliseconds."""
    user = users.get(WELL_KNOWN)
    if user is None:
        return False
    if user.password_hash is None:
        return user.pending_password == WELL_KNOWN
    return verify_password(user.password_hash, WELL_KNOWN)

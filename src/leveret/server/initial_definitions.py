"""Definitions that a node creates at its start: the default user and virtual host, and those of ``[[bootstrap.*]]``.

The default user ``guest`` may log in from this machine only. So a broker that listens on a network and has no
configured password gets an administrator with a random one instead. Only its hash is stored; it is shown once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from leveret.auth.loopback import is_loopback
from leveret.auth.passwords import hash_password, verify_password
from leveret.auth.users import Users
from leveret.broker.broker import Broker
from leveret.broker.parameters import ensure_cluster_id
from leveret.config import Settings
from leveret.errors import ConfigError

ADMINISTRATOR = "admin"
WELL_KNOWN = "guest"  # name and password of the default user
LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # no similar-looking characters
LENGTH = 24

ShowFirstLogin = Callable[[str, str], None]
"""Shows user name and password to the operator. An exception ends the start."""

EVERYTHING = ".*"


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


def create_definitions(broker: Broker, settings: Settings, first_login: FirstLogin | None, is_new: bool) -> None:
    """Create the default user and virtual host at the first start, and the configured definitions at every start."""
    if is_new:
        _create_default_user(broker, settings, first_login)
    ensure_cluster_id(broker.parameters)
    wanted = settings.bootstrap
    for vhost in wanted.vhosts:
        broker.add_vhost(vhost.name)
        broker.limit_vhost(vhost.name, max_queues=vhost.max_queues, max_connections=vhost.max_connections)
    for row in wanted.users:
        broker.users.add(
            row.name,
            password=row.password,
            password_hash=row.password_hash,
            tags=row.tags,
            max_connections=row.max_connections,
            max_channels=row.max_channels,
        )
    _refuse_unknown_names(broker, settings)
    for rule in wanted.permissions:
        broker.permissions.set(rule.user, rule.vhost, rule.configure, rule.write, rule.read)
    for topic in wanted.topic_permissions:
        broker.permissions.set_topic(topic.user, topic.vhost, topic.exchange, topic.write, topic.read)


def _create_default_user(broker: Broker, settings: Settings, first_login: FirstLogin | None) -> None:
    broker.add_vhost(settings.default_vhost)
    tags = ("administrator",)
    if first_login is None:
        user = broker.users.add(settings.default_user, password=settings.default_password, tags=tags)
    else:
        user = broker.users.add(first_login.user, password_hash=first_login.password_hash, tags=tags)
    broker.permissions.set(user.name, settings.default_vhost, EVERYTHING, EVERYTHING, EVERYTHING)


def _refuse_unknown_names(broker: Broker, settings: Settings) -> None:
    """A permission for an unknown user or virtual host is a typing error, and would have no effect."""
    names = [(rule.user, rule.vhost) for rule in settings.bootstrap.permissions]
    names += [(rule.user, rule.vhost) for rule in settings.bootstrap.topic_permissions]
    for user, vhost in names:
        if user not in broker.users:
            raise ConfigError(f"bootstrap gives permissions to unknown user {user!r}: add it to bootstrap.users")
        if vhost not in broker.vhosts:
            raise ConfigError(f"bootstrap gives permissions on unknown vhost {vhost!r}: add it to bootstrap.vhosts")

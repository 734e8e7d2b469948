"""Definitions that a node creates at its start: the default user and virtual host, and those of ``[[bootstrap.*]]``."""

from __future__ import annotations

from leveret.broker.broker import Broker
from leveret.broker.global_parameters import ensure_cluster_id
from leveret.config import Settings
from leveret.errors import ConfigError
from leveret.server.first_login import FirstLogin

EVERYTHING = ".*"


def create_definitions(broker: Broker, settings: Settings, first_login: FirstLogin | None, is_new: bool) -> None:
    """At the first start the default user and virtual host; at every start what the configuration lists."""
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

"""May this user do that here? One question for every method, so that the matrix is the same everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from leveret.errors import AccessRefused
from leveret.routing.exchange import Exchange

if TYPE_CHECKING:
    from leveret.session.connection import Connection

Kind = Literal["configure", "write", "read"]


def check_access(connection: Connection, kind: Kind, what: Literal["queue", "exchange"], name: str) -> None:
    if not connection.broker.permissions.check(connection.user.name, connection.vhost.name, kind, name):
        shown = f"'{name}'" if name else "'amq.default'"
        raise AccessRefused(
            f"{kind} access to {what} {shown} in vhost '{connection.vhost.name}' refused for user "
            f"'{connection.user.name}'"
        )


def check_any_access(connection: Connection, what: Literal["queue", "exchange"], name: str) -> None:
    """To learn whether a thing exists, some permission on it is enough; none at all tells nothing."""
    check = connection.broker.permissions.check
    user, vhost = connection.user.name, connection.vhost.name
    if not any(check(user, vhost, kind, name) for kind in ("configure", "write", "read")):
        raise AccessRefused(f"access to {what} '{name}' in vhost '{vhost}' refused for user '{user}'")


def check_topic(connection: Connection, kind: Literal["write", "read"], exchange: Exchange, key: str) -> None:
    if exchange.kind != "topic":
        return
    user, vhost = connection.user.name, connection.vhost.name
    if not connection.broker.permissions.check_topic(user, vhost, exchange.name, kind, key):
        raise AccessRefused(
            f"{kind} access to topic '{key}' in exchange '{exchange.name}' in vhost '{vhost}' refused for user '{user}'"
        )

"""The permissions of the user of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.broker.access import UserAccess

if TYPE_CHECKING:
    from leveret.session.connection import Connection


def access_of(connection: Connection) -> UserAccess:
    return UserAccess(connection.broker.permissions, connection.vhost, connection.user.name)

"""From the protocol header to an open connection: start, login, tune, open."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.auth.loopback import is_loopback
from leveret.auth.mechanisms import offered, parse
from leveret.auth.users import User
from leveret.broker.access import access_to
from leveret.broker.caller import Caller
from leveret.errors import LoginRefused, NotAllowed
from leveret.version import VERSION
from leveret.wire.constants import MIN_FRAME_MAX
from leveret.wire.fields import Table
from leveret.wire.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)

if TYPE_CHECKING:
    from leveret.session.connection import Connection


CAPABILITIES: Table = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}
# Clients adapt to product and version (kombu decides by them what basic.qos means), so the broker announces the product
# with which it is compatible; see docs/decisions/0003-announced-product.md.
COMPATIBLE_PRODUCT = "RabbitMQ"
COMPATIBLE_VERSION = "3.13.7"


def server_properties(node_name: str) -> Table:
    return {
        "product": COMPATIBLE_PRODUCT,
        "version": COMPATIBLE_VERSION,
        "platform": f"Leveret {VERSION} on Python {platform.python_version()}",
        "information": f"Leveret {VERSION}, compatible with RabbitMQ {COMPATIBLE_VERSION}",
        "cluster_name": node_name,
        "capabilities": dict(CAPABILITIES),
    }


def start(connection: Connection) -> None:
    properties = server_properties(connection.broker.node_name)
    mechanisms = offered(bool(connection.peer.certificate))
    connection.send_method(ConnectionStart(0, 9, properties, mechanisms, b"en_US"))


def _start_ok(connection: Connection, method: ConnectionStartOk) -> None:
    connection.client_properties = method.client_properties
    capabilities = method.client_properties.get("capabilities")
    connection.capabilities = capabilities if isinstance(capabilities, dict) else {}
    name = method.client_properties.get("connection_name")
    connection.client_name = name if isinstance(name, str) else None
    credentials = parse(method.mechanism, method.response, connection.peer.certificate)
    if credentials.name in connection.limits.loopback_users and not is_loopback(connection.peer.host):
        credentials = credentials.refused_to_remote_peers()
    connection.mechanism = method.mechanism
    connection.halt("login")
    connection.login(credentials, lambda user: _logged_in(connection, method.mechanism, user))


def _logged_in(connection: Connection, mechanism: str, user: User | None) -> None:
    """The result of the login, on the event loop. The connection may be closed by now."""
    if connection.is_over:
        return
    try:
        if user is None:
            raise LoginRefused(
                f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            )
        connection.user = user
        limits = connection.limits
        connection.send_method(ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat))
    except LoginRefused as refusal:
        connection.refuse_login(refusal)
        return
    connection.unhalt("login")


def _tune_ok(connection: Connection, method: ConnectionTuneOk) -> None:
    limits = connection.limits
    connection.channel_max = _tuned("channel_max", method.channel_max, limits.channel_max)
    connection.frame_max = _tuned("frame_max", method.frame_max, limits.frame_max)
    if connection.frame_max < MIN_FRAME_MAX:
        raise NotAllowed(
            f"negotiated frame_max = {method.frame_max} is lower than the minimum allowed value ({MIN_FRAME_MAX})"
        )
    connection.intake.frame_limit = connection.frame_max  # of the payload, so a frame may be 8 bytes larger
    connection.heartbeat = method.heartbeat


def _tuned(name: str, wanted: int, offered_: int) -> int:
    """0 accepts the offered value; a higher value is refused."""
    if wanted > offered_:
        raise NotAllowed(f"negotiated {name} = {wanted} is higher than the maximum allowed value ({offered_})")
    return wanted or offered_


def _open(connection: Connection, method: ConnectionOpen) -> None:
    broker, user = connection.broker, connection.user
    access = access_to(broker, method.virtual_host, user)
    vhost = access.vhost
    broker.registry.enter(user.name, user.max_connections, vhost.name, vhost.max_connections)
    connection.vhost = vhost
    connection.caller = Caller(access, connection)
    connection.opened()
    connection.send_method(ConnectionOpenOk())


def _update_secret(connection: Connection, method: ConnectionUpdateSecret) -> None:
    """Accepted without verification, as in RabbitMQ for users of its own database: the connection is logged in. The
    method is for tokens that expire, and there are none here."""
    connection.send_method(ConnectionUpdateSecretOk())


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {
    ConnectionStartOk.id: _start_ok,
    ConnectionTuneOk.id: _tune_ok,
    ConnectionOpen.id: _open,
    ConnectionUpdateSecret.id: _update_secret,
}

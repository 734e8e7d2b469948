"""From the protocol header to an open connection: start, login, tune, open."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.auth.mechanisms import parse
from leveret.errors import NotAllowed
from leveret.session.handover import Handover
from leveret.version import VERSION
from leveret.wire.constants import MIN_FRAME_MAX
from leveret.wire.fields import Table, decode_table, encode_table
from leveret.wire.frames import method_frame
from leveret.wire.grammar import Step
from leveret.wire.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)

if TYPE_CHECKING:
    from leveret.session.amqp_connection import AmqpConnection


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


def _note_client(connection: AmqpConnection, properties: Table) -> None:
    connection.client_properties = properties
    capabilities = properties.get("capabilities")
    connection.capabilities = capabilities if isinstance(capabilities, dict) else {}
    connection.expects_login_reply = connection.supports("authentication_failure_close")
    name = properties.get("connection_name")
    connection.client_name = name if isinstance(name, str) else None


def _start_ok(connection: AmqpConnection, method: ConnectionStartOk) -> None:
    _note_client(connection, method.client_properties)
    connection.log_in(parse(method.mechanism, method.response, connection.peer.certificate), method.mechanism)


def _tune_ok(connection: AmqpConnection, method: ConnectionTuneOk) -> None:
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


def _open(connection: AmqpConnection, method: ConnectionOpen) -> None:
    if connection.is_relayed(method.virtual_host):
        connection.step = Step.AWAIT_OPEN  # the other cell sends open-ok, or the error
        return
    connection.open_vhost(method.virtual_host)
    connection.may_move = connection.broker.cells.mover is not None
    connection.send_method(ConnectionOpenOk())


def _update_secret(connection: AmqpConnection, method: ConnectionUpdateSecret) -> None:
    """Accepted without verification, as in RabbitMQ for users of its own database: the connection is logged in. The
    method is for tokens that expire, and there are none here."""
    connection.send_method(ConnectionUpdateSecretOk())


# ---- to another cell


def handover(connection: AmqpConnection, vhost: str) -> Handover:
    agreed = {
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "heartbeat": connection.heartbeat,
    }
    properties = encode_table(connection.client_properties)
    return Handover("amqp", vhost, connection.user.name, connection.mechanism, properties, agreed)


def open_handed_over(connection: AmqpConnection, client: Handover) -> None:
    properties = client.client_properties
    _note_client(connection, decode_table(properties, 0, len(properties))[0])
    agreed = client.agreed
    connection.channel_max, connection.frame_max = int(agreed["channel_max"]), int(agreed["frame_max"])
    connection.heartbeat = int(agreed["heartbeat"])
    connection.intake.frame_limit = connection.frame_max
    connection.step = Step.AWAIT_OPEN
    connection.receive(method_frame(0, ConnectionOpen(client.vhost)))


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {
    ConnectionStartOk.id: _start_ok,
    ConnectionTuneOk.id: _tune_ok,
    ConnectionOpen.id: _open,
    ConnectionUpdateSecret.id: _update_secret,
}

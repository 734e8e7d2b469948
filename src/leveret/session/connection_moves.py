"""A connection moves to the cell of the queue that it uses first.

Several cells on one machine listen on the same ports, and the system spreads connections over them without knowing what
they will do. Most connections use one queue. So when the first publish or consume of a connection leads to one queue of
another cell, the socket is passed to that cell, and the client does not notice: what it does there is local.

    client ── c1: login, channels, confirm.select, first publish ──> state, input from that publish on, socket ──> c2

A connection moves once, and only while all of its state can be written down in a few fields: no consumers, no
deliveries, no publishes, no exclusive queues, no transaction. What is left of its input begins with the frame that
caused the move.

A consumer of a pseudo-queue moves to a cell with shards that nothing consumes from, if its own has none
(session/pooled_consumer.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from leveret.delivery.consumer import UNLIMITED
from leveret.session.handover import Handover
from leveret.session.handshake import handover
from leveret.wire.frames import method_frame
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import ChannelOpen, ConfirmSelect

if TYPE_CHECKING:
    from leveret.queues.queue import Queue
    from leveret.session.amqp_channel import AmqpChannel
    from leveret.session.amqp_connection import AmqpConnection
    from leveret.session.connection import Connection

STAY = "stay-in-cell"  # a client property: true if the connection must not move
MOST_CHANNELS = 64
MOST_REST = 256 << 10  # bytes of input


class ConnectionMoves(Exception):
    """Raised instead of handling the frame that leads to another cell. ``size``: the bytes of that frame."""

    def __init__(self, cell: str, size: int = 0) -> None:
        super().__init__(cell)
        self.cell = cell
        self.size = size


class ChannelState(NamedTuple):
    number: int
    prefetch: int
    shared_limit: int
    has_confirms: bool
    last_queue: str | None


class ConnectionState(NamedTuple):
    client: Handover
    connected_at: float
    channels: list[ChannelState]


def consider(connection: Connection, queues: Sequence[Queue], size: int = 0) -> None:
    """Called for the first publish or consume of a connection. Raises ConnectionMoves if it leads to one queue of
    another cell."""
    log = queues[0].remote_log if len(queues) == 1 else None
    own = connection.broker.cells.name  # the home of a queue that is being moved
    cell = "" if log is None else log.reachable_cell
    if can_move(connection) and cell not in ("", own):
        raise ConnectionMoves(cell, size)


def can_move(connection: Connection) -> bool:
    """Asked once, for the first publish or consume."""
    may_move, connection.may_move = connection.may_move, False
    return may_move and _is_simple(connection) and _has_definitions(connection)


def _has_definitions(connection: Connection) -> bool:
    """Whether definitions follow here. If they do not, they may not follow in the other cell either, which needs them
    before it serves the connection."""
    changes = connection.broker.cells.changes
    return changes is None or changes.is_current


def _is_simple(connection: Connection) -> bool:
    if connection.client_properties.get(STAY) is True or len(connection.channels) > MOST_CHANNELS:
        return False
    if connection.halted or connection.is_paused or connection.vhost.owns_queues(connection):
        return False
    return all(_is_unused(channel) for channel in connection.channels.values())  # type: ignore[arg-type]


def _is_unused(channel: AmqpChannel) -> bool:
    if channel.step is not ChannelStep.OPEN or channel.consumers or channel.published or channel.unacked.next_tag > 1:
        return False
    if channel.tx is not None or channel.committing is not None or channel.reply is not None or channel.deferred:
        return False
    return channel.pending is None and (channel.confirms is None or not channel.confirms.issued)


def state_of(connection: AmqpConnection) -> bytes:
    channels = [
        ChannelState(
            channel.number,
            channel.prefetch,
            channel.shared_limit,
            channel.confirms is not None,
            channel.last_queue,
        )
        for channel in connection.channels.values()
    ]
    client = handover(connection, connection.vhost.name)
    return msgspec.msgpack.encode(ConnectionState(client, connection.connected_at, channels))


def restore(connection: AmqpConnection, saved: bytes) -> None:
    """A new connection becomes the one whose state this is; replies that the client has are not sent again."""
    state = msgspec.msgpack.decode(saved, type=ConnectionState)
    user = connection.broker.users.get(state.client.user)
    if user is None:  # deleted just now
        connection.over()
        return
    connection.take_over(state.client, user)
    if connection.is_over:
        return
    connection.may_move, connection.connected_at = False, state.connected_at
    for each in state.channels:
        connection.take_method(each.number, method_frame(each.number, ChannelOpen())[7:-1])
        channel = connection.channels[each.number]
        channel.prefetch, channel.last_queue = each.prefetch, each.last_queue
        if each.shared_limit != UNLIMITED:
            channel.shared_limit = channel.shared_credit = each.shared_limit
        if each.has_confirms:
            channel.handle(ConfirmSelect(nowait=True))
    connection.outbox.forget()

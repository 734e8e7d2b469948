"""A client that opens a virtual host of another cell is handed over after its login, with all that it has sent."""

from __future__ import annotations

from itertools import pairwise

import pytest

from leveret.session.relayed_connection import RelayedConnection
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.fields import Table, encode_table
from leveret.wire.frames import method_frame
from leveret.wire.grammar import Step
from leveret.wire.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.handed_over import PLACED, CellsWithPlacedVhost
from tests.support.peer_pair import Client

PROPERTIES: Table = {"connection_name": "a client", "capabilities": {"basic.nack": True}, "number": 7}
LOGINS = {
    "PLAIN": b"\0guest\0secret",
    "AMQPLAIN": encode_table({"LOGIN": "guest", "PASSWORD": "secret"})[4:],
    "EXTERNAL": b"",
}


def handshake(mechanism: str = "PLAIN", vhost: str = PLACED, *, frame_max: int = 8192, heartbeat: int = 17) -> bytes:
    """Everything at once, with what a client that does not wait for open-ok sends behind it."""
    methods: list[tuple[int, Method]] = [
        (0, ConnectionStartOk(PROPERTIES, mechanism, LOGINS[mechanism])),
        (0, ConnectionTuneOk(5, frame_max, heartbeat)),
        (0, ConnectionOpen(vhost)),
        (1, ChannelOpen()),
        (1, QueueDeclare("q", durable=True)),
    ]
    return PROTOCOL_HEADER + b"".join(method_frame(number, method) for number, method in methods)


def handed_over(cells: CellsWithPlacedVhost, pieces: list[bytes], mechanism: str = "PLAIN") -> Client:
    """A client that sends these pieces; the home cell accepts it as soon as it is asked to."""
    client = cells.near.stranger()
    if mechanism == "EXTERNAL":
        client.socket.certificate = {"subject": ((("commonName", "guest"),),)}
    relayed: RelayedConnection | None = None
    for piece in pieces:
        client.feed(piece)
        if relayed is None and cells.requests:
            _, relayed = cells.accept()
            client.session = relayed  # type: ignore[assignment]
        cells.near.rest()
        cells.home.turn()
    return client


def check_served(cells: CellsWithPlacedVhost, client: Client) -> None:
    names = [what.NAME for what in client.heard() if isinstance(what, Method)]
    assert names == [
        "connection.start",
        "connection.tune",
        "connection.open-ok",
        "channel.open-ok",
        "queue.declare-ok",
    ]
    assert set(cells.home.broker.vhosts[PLACED].queues) == {"q"}
    assert not cells.near.broker.vhosts[PLACED].queues
    assert not cells.near.broker.registry.connections
    (session,) = cells.home.broker.registry.connections
    assert session.vhost is cells.home.broker.vhosts[PLACED]


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_handshake_in_pieces_of_any_size_arrives_whole(mechanism: str, size: int) -> None:
    cells, sent = CellsWithPlacedVhost(), handshake(mechanism)
    client = handed_over(cells, [sent[at : at + size] for at in range(0, len(sent), size)], mechanism)
    check_served(cells, client)


@pytest.mark.parametrize("cut", range(1, len(handshake()), 3))
def test_a_handshake_cut_anywhere_arrives_whole(cut: int) -> None:
    cells, sent = CellsWithPlacedVhost(), handshake()
    check_served(cells, handed_over(cells, [sent[start:end] for start, end in pairwise((0, cut, len(sent)))]))


@pytest.mark.parametrize("mechanism", LOGINS)
def test_the_home_cell_has_what_was_negotiated(mechanism: str) -> None:
    cells = CellsWithPlacedVhost()
    handed_over(cells, [handshake(mechanism, frame_max=16_384, heartbeat=17)], mechanism)
    (session,) = cells.home.broker.registry.connections
    assert (session.frame_max, session.channel_max, session.heartbeat) == (16_384, 5, 17)  # type: ignore[attr-defined]
    assert session.intake.frame_limit == 16_384  # type: ignore[attr-defined]
    assert (session.user.name, session.mechanism) == ("guest", mechanism)  # type: ignore[attr-defined]
    assert (session.client_name, session.client_properties) == ("a client", PROPERTIES)  # type: ignore[attr-defined]
    assert session.supports("basic.nack")  # type: ignore[attr-defined]
    assert not session.supports("connection.blocked")  # type: ignore[attr-defined]


def test_no_password_is_handed_over() -> None:
    cells = CellsWithPlacedVhost()
    client = cells.near.stranger()
    client.feed(handshake())
    ((waiting, _),) = cells.requests
    assert "secret" not in repr(waiting.handover())
    assert b"secret" not in waiting.unhandled_input()


def test_nothing_is_handled_before_the_home_cell_has_accepted() -> None:
    cells = CellsWithPlacedVhost()
    client = cells.near.stranger()
    client.feed(handshake())
    assert [what.NAME for what in client.heard() if isinstance(what, Method)] == ["connection.start", "connection.tune"]
    assert (client.session.step, client.session.awaits_cell, client.socket.reading) == (Step.AWAIT_OPEN, True, False)
    assert cells.near.broker.registry.opened == 0


@pytest.mark.parametrize(
    ("vhost", "user", "reason"),
    [
        ("unknown", "guest", "NOT_ALLOWED - vhost unknown not found"),
        (PLACED, "anna", f"NOT_ALLOWED - access to vhost '{PLACED}' refused for user 'anna'"),
    ],
)
def test_what_may_not_be_opened_is_refused_without_the_home_cell(vhost: str, user: str, reason: str) -> None:
    cells = CellsWithPlacedVhost()
    cells.near.user("anna")
    client = cells.near.stranger()
    client.feed(PROTOCOL_HEADER)
    client.send(ConnectionStartOk(PROPERTIES, "PLAIN", b"\0" + user.encode() + b"\0secret"), channel=0)
    client.send(ConnectionTuneOk(), ConnectionOpen(vhost), channel=0)
    close = client.heard()[-1]
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (530, reason, 10, 40)
    assert not cells.requests


def test_the_home_cell_checks_limits_and_reports_errors_to_the_client() -> None:
    cells = CellsWithPlacedVhost()
    cells.home.broker.limit_vhost(PLACED, max_queues=None, max_connections=0)
    client = handed_over(cells, [handshake()])
    close = client.heard()[-1]
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, "connection limit (0) is reached" in close.reply_text) == (530, True)


def test_a_virtual_host_of_this_cell_and_one_of_all_cells_are_served_here() -> None:
    cells = CellsWithPlacedVhost()
    client = cells.home.stranger()
    client.log_in(vhost=PLACED)
    cells.near.stranger().log_in(vhost="/")
    assert not cells.requests


def test_a_side_that_does_not_read_stops_the_other() -> None:
    cells = CellsWithPlacedVhost()
    client = handed_over(cells, [handshake()])
    relayed = client.session
    assert isinstance(relayed, RelayedConnection)
    link = relayed._link
    relayed.outbox.set_writable(False)
    assert not link.reading  # type: ignore[attr-defined]
    relayed.outbox.set_writable(True)
    assert link.reading  # type: ignore[attr-defined]
    relayed.set_link_writable(False)
    assert not client.socket.reading
    relayed.set_link_writable(True)
    assert client.socket.reading


def test_the_end_of_one_side_is_the_end_of_the_other() -> None:
    for ends in ("client", "home"):
        cells = CellsWithPlacedVhost()
        client = handed_over(cells, [handshake()])
        relayed = client.session
        assert isinstance(relayed, RelayedConnection)
        if ends == "client":
            relayed.lost()
            assert relayed._link.closed  # type: ignore[attr-defined]
        else:
            relayed.link_lost()
            assert client.socket.closed


def test_channels_work_as_on_any_connection_after_that() -> None:
    cells = CellsWithPlacedVhost()
    client = handed_over(cells, [handshake()])
    client.heard()
    client.send(QueueDeclare("another"))
    cells.home.turn()
    assert client.heard() == [QueueDeclareOk("another", 0, 0)]

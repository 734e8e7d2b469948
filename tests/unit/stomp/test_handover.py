"""STOMP clients of a virtual host of another cell: CONNECT is handled here, and everything after it there."""

from __future__ import annotations

import pytest

from tests.support.handed_over import PLACED, CellsWithPlacedVhost
from tests.support.stomp_client import made
from tests.support.stomp_harness import StompPeer

SUBSCRIBE = made("SUBSCRIBE", {"id": "s", "destination": "/queue/q", "ack": "auto", "receipt": "1"})
SEND = made("SEND", {"destination": "/queue/q"}, b"hello")


def connect(version: str, **more: object) -> bytes:
    login = {"accept-version": version, "login": "guest", "passcode": "secret", "host": PLACED}
    return made("CONNECT", {**login, **more})


def served(cells: CellsWithPlacedVhost, pieces: list[bytes]) -> StompPeer:
    peer = StompPeer(cells.near)
    is_relayed = False
    for piece in pieces:
        peer.feed(piece)
        if cells.requests and not is_relayed:
            _, peer.connection = cells.accept()  # type: ignore[assignment]
            is_relayed = True
        cells.near.rest()
        cells.home.turn()
    return peer


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("size", [1, 10, 1000])
def test_frames_behind_connect_arrive_at_the_home_cell(version: str, size: int) -> None:
    cells, sent = CellsWithPlacedVhost(), connect(version) + SUBSCRIBE + SEND
    peer = served(cells, [sent[at : at + size] for at in range(0, len(sent), size)])
    connected, receipt, message = peer.heard()
    assert (connected.command, connected["version"], receipt.command) == ("CONNECTED", version, "RECEIPT")
    assert (message.command, message.body) == ("MESSAGE", b"hello")
    assert set(cells.home.broker.vhosts[PLACED].queues) == {"q"}
    assert not cells.near.broker.registry.connections
    assert [each.protocol for each in cells.home.broker.registry.connections] == [f"STOMP {version}"]  # type: ignore[attr-defined]


def test_heart_beats_are_those_of_connect_and_the_home_cell_sends_them() -> None:
    cells = CellsWithPlacedVhost()
    peer = served(cells, [connect("1.2", **{"heart-beat": "2000,3000"})])
    (connected,) = peer.heard()
    assert connected["heart-beat"] == "3000,2000"
    (session,) = cells.home.broker.registry.connections
    assert session._transport.beats == (3.0, 2.0)  # type: ignore[attr-defined]
    assert peer.socket.beats is None


def test_no_passcode_is_handed_over() -> None:
    cells = CellsWithPlacedVhost()
    StompPeer(cells.near).feed(connect("1.2"))
    ((waiting, _),) = cells.requests
    assert "secret" not in repr(waiting.handover())


@pytest.mark.parametrize(("user", "host"), [("anna", PLACED), ("guest", "unknown")])
def test_what_may_not_be_opened_is_refused_without_the_home_cell(user: str, host: str) -> None:
    cells = CellsWithPlacedVhost()
    cells.near.user("anna")
    (error,) = StompPeer(cells.near).connect(login=user, host=host)
    assert (error.command, error["message"]) == ("ERROR", "Bad CONNECT")
    assert not cells.requests

"""Replies that waited for another cell, while the log of the own cell was written."""

from __future__ import annotations

from leveret.wire.methods import QueueDeclare, QueueDeclareOk
from tests.support.cell_pair import CellPair


def test_a_reply_does_not_wait_for_what_was_granted_meanwhile() -> None:
    pair = CellPair()
    pair.declare("q")
    client = pair.here.client()
    for wire in pair.wires:
        wire.is_held = True
    client.send(QueueDeclare("q", passive=True))
    assert not client.heard()
    broker = pair.here.broker
    broker.log.issued += 1  # a definition of another cell
    broker.granted(broker.log.issued)
    for wire in pair.wires:
        wire.is_held = False
    pair.here.turn()
    assert [type(reply) for reply in client.heard()] == [QueueDeclareOk]

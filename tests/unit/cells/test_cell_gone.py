"""A cell is gone for a minute: what waits for it waits for ten seconds, and everything else goes on."""

from __future__ import annotations

import pytest

from leveret.broker.access import access_to
from leveret.broker.local import LocalSession
from leveret.wire.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.cell_cluster import CellCluster
from tests.support.peer_pair import Client, Content

MINUTE = 60
EVERY = 5  # seconds between two publishes


@pytest.fixture
def cells() -> CellCluster:
    """A queue in each of three cells: q1, q2, q3."""
    cells = CellCluster(3)
    for number, cell in enumerate(cells.cells, 1):
        cell.client().declare(f"q{number}", durable=True)
    return cells


def lose_second(cells: CellCluster) -> None:
    for other in (0, 2):
        cells.cut(cells[other], cells[1])


def bring_back_second(cells: CellCluster) -> None:
    cells.connect_definitions(cells[1])
    for other in (0, 2):
        cells.connect_queues(cells[other], cells[1])
        cells.connect_queues(cells[1], cells[other])
    cells.rest()


def answers(client: Client) -> list[type]:
    return [type(each) for each in client.heard() if isinstance(each, BasicAck | BasicNack)]


def bodies(client: Client) -> list[bytes]:
    return [each.body for each in client.heard() if isinstance(each, Content)]


def test_publishes_are_nacked_after_ten_seconds_and_others_go_on(cells: CellCluster) -> None:
    to_second, to_third, consumer = cells[0].client(), cells[0].client(), cells[2].client()
    for client in (to_second, to_third):
        assert client.ask(ConfirmSelect()) == ConfirmSelectOk()
    consumer.consume("q2", no_ack=True)
    to_second.publish("q2", b"before")
    assert (answers(to_second), bodies(consumer)) == ([BasicAck], [b"before"])
    lose_second(cells)
    for second in range(0, MINUTE, EVERY):
        to_second.publish("q2", b"at %d" % second)
        to_third.publish("q3", b"at %d" % second)
        assert answers(to_third) == [BasicAck], "queues of other cells go on"
        wanted = [BasicNack] if second >= 10 else []
        assert answers(to_second) == wanted, "each waits for ten seconds"
        cells.advance(EVERY)
    assert cells[2].queue("q3").ready == MINUTE // EVERY
    bring_back_second(cells)
    waited = [b"at %d" % second for second in (MINUTE - EVERY,)]
    assert bodies(consumer) == waited, "the consumer has stayed; what was nacked is not there"
    assert answers(to_second) == [BasicNack, BasicAck]
    to_second.publish("q2", b"after")
    assert (answers(to_second), bodies(consumer)) == ([BasicAck], [b"after"])


def test_requests_and_declarations_fail_after_ten_seconds(cells: CellCluster) -> None:
    """Those that concern the cell; when it has been waited for in vain, further ones fail at once."""
    asking, declaring, in_second = cells[0].client(), cells[2].client(), cells[1].client()
    lose_second(cells)
    asking.send(BasicGet("q2"))
    in_second.send(QueueDeclare("new", durable=True))
    assert declaring.ask(QueueDeclare("other", durable=True)) == QueueDeclareOk("other", 0, 0)
    cells.advance(9)
    assert (asking.heard(), in_second.heard()) == ([], [])
    cells.advance(1.5)
    assert asking.error()[0] == 404
    assert in_second.error()[0] == 406
    later = cells[0].client()
    later.send(BasicGet("q2"))
    assert later.error()[0] == 404
    cells.advance(MINUTE)
    bring_back_second(cells)
    assert cells[1].client().ask(QueueDeclare("other", durable=True, passive=True)) == QueueDeclareOk("other", 0, 0)
    assert cells[0].client().get("q2") is None


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_caller_in_the_process_learns_that_a_message_is_not_confirmed(cells: CellCluster, is_sent: bool) -> None:
    """Such as the HTTP API."""
    first = cells[0]
    session = LocalSession(access_to(first.broker, "/", first.broker.users.get("guest")), lambda tag, delivered: None)
    answers: list[tuple[bool, int]] = []
    if not is_sent:
        lose_second(cells)
    assert session.publish("", "q2", b"hello")
    session.receipts.when_resolved(
        lambda: answers.append((session.receipts.is_unanswered, session.receipts.unroutable))
    )
    if is_sent:
        lose_second(cells)
    cells.advance(9)
    assert answers == ([(True, 0)] if is_sent else [])
    cells.advance(1.5)
    assert answers == [(True, 0)]


def test_a_caller_in_the_process_learns_that_a_queue_has_refused_a_message(cells: CellCluster) -> None:
    cells[1].client().declare("full", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    cells[1].client().publish("full", b"first")
    first = cells[0]
    session = LocalSession(access_to(first.broker, "/", first.broker.users.get("guest")), lambda tag, delivered: None)
    assert session.publish("", "full", b"hello")
    first.broker.wake()
    cells.rest()
    receipts = session.receipts
    assert (receipts.refused, receipts.is_unanswered, receipts.unroutable) == (1, False, 0)

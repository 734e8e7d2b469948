"""What is sent again, and what is declared again."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client.arrivals import Returned
from leveret.client.errors import ConnectionLost, Nacked, Unroutable
from leveret.client.topology_record import TopologyRecord
from leveret.client.unconfirmed import Unconfirmed
from leveret.wire import methods as m


class Line:
    """Messages a, b, c ... with a future each."""

    def __init__(self, names: str, mandatory: str = "") -> None:
        loop = asyncio.new_event_loop()
        self.unconfirmed = Unconfirmed(loop)
        self.confirms: dict[str, asyncio.Future[None]] = {name: loop.create_future() for name in names}
        for stamp, (name, confirm) in enumerate(self.confirms.items()):
            like = ("", name, name.encode()) if name in mandatory else None
            self.unconfirmed.keep(stamp, name.encode(), confirm, like)
        loop.close()

    def done(self) -> str:
        return "".join(name for name, confirm in self.confirms.items() if confirm.done())

    def left(self) -> str:
        return "".join(each.frames.decode() for each in self.unconfirmed.unsettled())

    def settle(self, tag: int, *, multiple: bool = False, is_taken: bool = True) -> None:
        self.unconfirmed.settle(tag, multiple=multiple, is_taken=is_taken)


def returned(name: str) -> Returned:
    return Returned(312, "NO_ROUTE", "", name, b"\0\0", name.encode())


def test_what_is_open_is_sent_again_in_order_and_numbered_anew() -> None:
    line = Line("abcdef")
    line.settle(2, multiple=True)
    line.settle(5)
    assert (line.done(), line.unconfirmed.open) == ("abe", 3)
    assert line.left() == "cdf"
    line.settle(3)
    assert line.done() == "abef"
    line.settle(0, multiple=True)
    assert (line.done(), line.unconfirmed.open, line.left()) == ("abcdef", 0, "")


def test_numbers_that_mean_nothing_change_nothing() -> None:
    line = Line("ab")
    line.settle(7)
    line.settle(1)
    line.settle(1)
    assert (line.done(), line.unconfirmed.open) == ("a", 1)
    line.settle(9, multiple=True)
    assert line.unconfirmed.open == 0


def test_a_refused_message_is_not_sent_again() -> None:
    line = Line("ab")
    line.settle(1, is_taken=False)
    assert isinstance(line.confirms["a"].exception(), Nacked)
    assert line.left() == "b"


def test_a_message_that_came_back_is_not_sent_again_though_its_confirm_is_missing() -> None:
    line = Line("aba", mandatory="ab")
    assert line.unconfirmed.returned(returned("b")) is True
    assert isinstance(line.confirms["b"].exception(), Unroutable)
    assert line.unconfirmed.returned(returned("x")) is False
    assert (line.left(), line.unconfirmed.open) == ("a", 1)


def test_at_the_end_everybody_is_told() -> None:
    line = Line("ab")
    line.unconfirmed.end(ConnectionLost("gone"))
    assert [str(each.exception()) for each in line.confirms.values()] == ["gone", "gone"]
    assert line.unconfirmed.open == 0


def test_a_message_without_anybody_who_waits_is_kept_too() -> None:
    line = Line("")
    line.unconfirmed.keep(0, b"x", None, None)
    assert line.left() == "x"
    line.settle(1)
    assert line.left() == ""


# ---- topology

ORDERS = m.QueueDeclare("orders", durable=True)
SHOP = m.ExchangeDeclare("shop", "topic")
BOUND = m.QueueBind("orders", "shop", "#")


@pytest.fixture
def record() -> TopologyRecord:
    made = TopologyRecord()
    for method in (SHOP, ORDERS, BOUND, m.ExchangeBind("shop", "audit", "x")):
        made.note(method, None)
    return made


def contents(record: TopologyRecord) -> tuple[int, int, int]:
    return len(list(record.exchanges())), len(list(record.queues())), len(list(record.bindings()))


def test_what_was_declared_is_kept_once(record: TopologyRecord) -> None:
    record.note(ORDERS, None)
    record.note(BOUND, None)
    record.note(m.QueueDeclare("seen", passive=True), None)
    record.note(m.ExchangeDeclare("seen", passive=True), None)
    assert contents(record) == (1, 1, 2)
    assert list(record.exchanges()) == [SHOP]
    assert list(record.queues()) == [("orders", ORDERS)]


@pytest.mark.parametrize(
    ("undo", "left"),
    [
        (m.QueueUnbind("orders", "shop", "#"), (1, 1, 1)),
        (m.QueueUnbind("orders", "shop", "other"), (1, 1, 2)),
        (m.ExchangeUnbind("shop", "audit", "x"), (1, 1, 1)),
        (m.ExchangeUnbind("audit", "shop", "x"), (1, 1, 2)),
        (m.QueueDelete("orders"), (1, 0, 1)),
        (m.ExchangeDelete("shop"), (0, 1, 0)),
        (m.ExchangeDelete("audit"), (1, 1, 1)),
    ],
)
def test_what_is_undone_is_forgotten(record: TopologyRecord, undo: m.Method, left: tuple[int, int, int]) -> None:
    record.note(undo, None)
    assert contents(record) == left


def test_a_queue_without_a_name_keeps_its_role_under_another_name(record: TopologyRecord) -> None:
    record.note(m.QueueDeclare("", exclusive=True), m.QueueDeclareOk("amq.gen-1", 0, 0))
    record.note(m.QueueBind("amq.gen-1", "shop", "a"), None)
    assert list(record.queues())[-1] == ("amq.gen-1", m.QueueDeclare("", exclusive=True))
    assert not record.has_roles
    record.named("orders", "orders")
    record.named("amq.gen-1", "amq.gen-7")
    assert list(record.bindings())[-1] == m.QueueBind("amq.gen-7", "shop", "a")
    assert record.translated(m.BasicGet("amq.gen-1")) == m.BasicGet("amq.gen-7")
    assert record.translated(m.BasicGet("orders")) == m.BasicGet("orders")
    record.named("amq.gen-1", "amq.gen-9")
    assert record.current("amq.gen-1") == "amq.gen-9"
    record.note(m.QueueDelete("amq.gen-1"), None)
    assert (record.has_roles, contents(record)) == (False, (1, 1, 2))

"""What is sent again, and what is declared again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from leveret.client.errors import ConnectionLost, Nacked, Unroutable
from leveret.client.messages import Returned
from leveret.client.topology_record import TopologyRecord
from leveret.client.unconfirmed import Unconfirmed
from leveret.wire import methods as m


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    Line.loop = asyncio.new_event_loop()
    yield
    Line.loop.close()


class Line:
    """Messages a, b, c ... with a future each."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, names: str, mandatory: str = "") -> None:
        loop = self.loop
        self.unconfirmed = Unconfirmed(loop)
        self.confirms: dict[str, asyncio.Future[None]] = {name: loop.create_future() for name in names}
        for stamp, (name, confirm) in enumerate(self.confirms.items()):
            like = (b"\0\x01" + name.encode(), b"\0\0", name.encode()) if name in mandatory else None
            self.unconfirmed.keep(stamp, name.encode(), confirm, like)

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
    line.unconfirmed.returned(returned("b"))
    assert isinstance(line.confirms["b"].exception(), Unroutable)
    line.unconfirmed.returned(returned("x"))
    assert (line.left(), line.unconfirmed.open) == ("a", 1)


class Votes:
    """Stands for the confirms of several brokers: it is not done with the first word."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def done(self) -> bool:
        return False

    def set_result(self, result: None, /) -> None:
        self.heard.append("taken")

    def set_exception(self, problem: Exception, /) -> None:
        self.heard.append(type(problem).__name__)

    def exception(self) -> None:
        return None


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_message_that_came_back_is_not_safe_though_its_confirm_follows(is_taken: bool) -> None:
    line, votes = Line(""), Votes()
    line.unconfirmed.keep(0, b"a", votes, (b"\0\x01a", b"\0\0", b"a"))
    line.unconfirmed.returned(returned("a"))
    line.settle(1, is_taken=is_taken)
    assert votes.heard == ["Unroutable"]
    assert line.unconfirmed.open == 0


def test_a_broker_that_came_back_with_a_message_has_no_second_word_at_the_end() -> None:
    line, votes = Line(""), Votes()
    line.unconfirmed.keep(0, b"a", votes, (b"\0\x01a", b"\0\0", b"a"))
    line.unconfirmed.returned(returned("a"))
    line.unconfirmed.end(ConnectionLost("gone"))
    assert votes.heard == ["Unroutable"]


def test_a_broker_that_confirms_out_of_turn_is_counted_once() -> None:
    line, first, second = Line(""), Votes(), Votes()
    line.unconfirmed.keep(0, b"a", first, None)
    line.unconfirmed.keep(1, b"b", second, None)
    line.settle(2)
    line.settle(2, multiple=True)
    assert (first.heard, second.heard) == (["taken"], ["taken"])


def test_many_messages_that_come_back_before_their_confirms_are_found_at_once() -> None:
    names = [b"%05d" % number for number in range(20_000)]
    line, looks = Line(""), 0

    class Counted(bytes):
        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return bytes.__eq__(self, other)  # type: ignore[arg-type]

        __hash__ = bytes.__hash__

    for stamp, name in enumerate(names):
        line.unconfirmed.keep(stamp, name, None, (Counted(b"\0\x05" + name), b"\0\0", name))
    for name in names:
        line.unconfirmed.returned(returned(name.decode()))
    assert looks == len(names)
    assert line.left() == ""


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


# ---- what the broker deletes by itself

REPLIES = m.ExchangeDeclare("replies", auto_delete=True)
REPLY = m.QueueDeclare("reply", auto_delete=True)


def test_an_auto_delete_queue_is_forgotten_with_its_last_consumer() -> None:
    record = TopologyRecord()
    for method in (REPLIES, REPLY, m.QueueBind("reply", "replies", "a"), m.QueueBind("reply", "replies", "b")):
        record.note(method, None)
    record.consumer_ended("reply")  # of whom nothing was said
    for _ in range(2):
        record.consumer_began("reply")
    record.consumer_ended("reply")
    assert contents(record) == (1, 1, 2)
    record.consumer_ended("reply")
    assert contents(record) == (0, 0, 0)


def test_other_queues_outlive_their_consumers(record: TopologyRecord) -> None:
    record.consumer_began("orders")
    record.consumer_ended("orders")
    assert contents(record) == (1, 1, 2)


def test_a_queue_is_known_by_both_of_its_names() -> None:
    record = TopologyRecord()
    record.note(m.QueueDeclare("", auto_delete=True), m.QueueDeclareOk("amq.gen-1", 0, 0))
    record.named("amq.gen-1", "amq.gen-2")
    record.consumer_began("amq.gen-1")
    assert record.kind_of("amq.gen-2") == "classic"
    record.consumer_ended("amq.gen-2")
    assert (contents(record), record.has_roles) == ((0, 0, 0), False)


def test_a_queue_whose_consumer_the_broker_ended_is_gone(record: TopologyRecord) -> None:
    record.consumer_began("orders")
    record.queue_gone("orders")
    assert contents(record) == (1, 0, 1)


def test_a_late_word_of_a_deleted_queue_does_not_hit_the_one_that_was_declared_since(record: TopologyRecord) -> None:
    record.consumer_began("orders")
    record.note(m.QueueDelete("orders"), None)
    record.note(ORDERS, None)
    record.queue_gone("orders")
    assert list(record.queues()) == [("orders", ORDERS)]


@pytest.mark.parametrize(
    ("undo", "left"),
    [
        (m.QueueUnbind("q", "inner", ""), []),
        (m.QueueUnbind("q", "inner", "", {"x": 1}), ["outer", "inner"]),
        (m.ExchangeUnbind("inner", "outer", ""), ["inner"]),
        (m.ExchangeDelete("inner"), []),
        (m.QueueDelete("q"), []),
    ],
)
def test_an_auto_delete_exchange_is_forgotten_with_the_last_binding_from_it(undo: m.Method, left: list[str]) -> None:
    """And with it those that led to nothing else."""
    record = TopologyRecord()
    for name in ("outer", "inner"):
        record.note(m.ExchangeDeclare(name, auto_delete=True), None)
    for method in (m.QueueDeclare("q"), m.QueueBind("q", "inner", ""), m.ExchangeBind("inner", "outer", "")):
        record.note(method, None)
    record.note(undo, None)
    assert [each.exchange for each in record.exchanges()] == left


def test_bindings_that_differ_only_by_their_arguments_are_kept_apart() -> None:
    record = TopologyRecord()
    for value in (1, 2):
        record.note(m.QueueBind("q", "amq.headers", "", False, {"x": value}), None)
    record.note(m.QueueUnbind("q", "amq.headers", "", {"x": 1}), None)
    assert list(record.bindings()) == [m.QueueBind("q", "amq.headers", "", False, {"x": 2})]

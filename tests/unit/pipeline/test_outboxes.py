"""Commits to queues of other cells: exactly once, whatever crashes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from leveret.broker.publishes import write_run
from leveret.errors import ClusterError
from leveret.message import PERSISTENT
from leveret.pipeline import outboxes, stage_moves
from leveret.pipeline.commits import Committed
from leveret.pipeline.outboxes import RETRY_AFTER, Transfer
from leveret.pipeline.stage_moves import PATIENCE
from leveret.pipeline.transfers import decoded, encoded
from leveret.store.batch import Unit
from leveret.store.journal import Journal
from tests.support.outbox_cells import OutboxCells, make_elsewhere
from tests.support.sinks import address, drained, row

DONE = Committed(False, 2, 0)


@pytest.fixture
def cells() -> OutboxCells:
    return OutboxCells()


def test_a_commit_is_answered_when_the_other_cell_has_the_rows(cells: OutboxCells) -> None:
    outcomes = cells.commit(b"1", b"2")
    assert (outcomes, cells.here.queue("r").ready, len(cells.sent)) == ([], 2, 1)
    cells.carry()
    assert outcomes == [DONE]
    assert cells.waiting_in_outboxes() == 0
    assert drained(cells.there, "q") == drained(cells.here, "r") == [b"1", b"2"]


def test_a_commit_does_not_wait_long_for_a_cell_that_is_away(cells: OutboxCells) -> None:
    outcomes = cells.commit(b"1", b"2")
    cells.here.advance(PATIENCE - 0.1)
    assert outcomes == []
    cells.here.advance(0.1)
    assert (outcomes, cells.waiting_in_outboxes()) == ([DONE], 2)
    cells.carry()
    assert drained(cells.there, "q") == [b"1", b"2"]


def test_a_transfer_without_an_answer_is_sent_again_and_dropped(cells: OutboxCells) -> None:
    outcomes = cells.commit(b"1", b"2")
    cells.carry(problem="the link is lost")
    assert (outcomes, cells.sent, cells.there.queue("q").ready) == ([], [], 2)
    cells.here.advance(RETRY_AFTER)
    cells.carry()
    assert outcomes == [DONE]
    assert drained(cells.there, "q") == [b"1", b"2"]


def test_rows_of_several_keys_keep_their_keys_after_a_crash_of_the_other_cell(cells: OutboxCells) -> None:
    stages = [cells.sink.stage("T", 0, b"hello", exchange="amq.fanout", key=key) for key in ("a", "b", "a")]
    cells.sink.send("T", 0, *stages)
    cells.here.rest()
    while cells.sent:
        cells.carry()
    cells.crash_there()
    client = cells.there.client()
    found = [client.get("q") for _ in stages]
    assert [each.method.routing_key for each in found if each is not None] == ["a", "b", "a"]


def test_batches_follow_each_other_in_order(cells: OutboxCells) -> None:
    first = cells.commit(b"1", b"2", batch=0)
    cells.here.advance(PATIENCE)
    cells.commit(b"3", batch=1)
    assert (first, len(cells.sent)) == ([DONE], 1)
    cells.carry()
    cells.carry()
    assert drained(cells.there, "q") == [b"1", b"2", b"3"]


def crash_there_before_the_disk(cells: OutboxCells) -> None:
    cells.receive_without_disk()
    cells.crash_there()
    assert cells.there.queue("q").ready == 0


def crash_there_without_an_answer(cells: OutboxCells) -> None:
    cells.carry(problem="the link is lost")
    cells.crash_there()
    assert cells.there.queue("q").ready == 2
    cells.here.advance(RETRY_AFTER)


def crash_here_before_it_is_sent(cells: OutboxCells) -> None:
    cells.crash_here()


def crash_here_without_an_answer(cells: OutboxCells) -> None:
    cells.carry(problem="the link is lost")
    cells.crash_here()


def crash_both(cells: OutboxCells) -> None:
    crash_here_without_an_answer(cells)
    cells.crash_there()


@pytest.mark.parametrize(
    "fault",
    [
        crash_there_before_the_disk,
        crash_there_without_an_answer,
        crash_here_before_it_is_sent,
        crash_here_without_an_answer,
        crash_both,
    ],
)
def test_every_row_arrives_once_after_a_crash(cells: OutboxCells, fault: Callable[[OutboxCells], None]) -> None:
    cells.commit(b"1", b"2")
    fault(cells)
    cells.carry()
    assert cells.sent == []
    cells.commit(b"3", batch=1)
    cells.carry()
    assert drained(cells.there, "q") == drained(cells.here, "r") == [b"1", b"2", b"3"]


def test_the_rows_and_the_mark_are_one_group_of_the_log(cells: OutboxCells) -> None:
    """No crash can separate them."""
    cells.commit(b"1", b"2")
    cells.carry()
    cells.commit(b"3", b"4", batch=1)
    journal = cells.there.store.journal
    units = [unit for unit in units_of(journal, cells.carry) if unit.appends]
    assert [(len(unit.appends), len(unit.settles)) for unit in units] == [(2, 1)]


def units_of(journal: Journal, deed: Callable[[], None]) -> list[Unit]:
    """The groups of the log that this makes; what stands outside of groups is none."""
    found: list[Unit] = []
    whole = journal.group

    @contextmanager
    def group() -> Iterator[None]:
        with whole():
            yield
            assert journal._unit is not None
            found.append(journal._unit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "group", group)
        deed()
    return found


def test_what_is_not_durable_is_not_sent(cells: OutboxCells) -> None:
    """After a crash, other messages would get the same sequences."""
    stage = cells.sink.stage("T", 0, b"1", exchange="amq.fanout")
    cells.here.is_slow = True
    cells.sink.send("T", 0, stage)
    cells.here.rest()
    assert cells.here.queue("r").ready == 1
    assert cells.sent == []
    cells.here.is_slow = False
    cells.here.rest()
    assert len(cells.sent) == 1


def test_rows_for_a_queue_that_was_deleted_are_dropped(cells: OutboxCells) -> None:
    outcomes = cells.commit(b"1", b"2")
    cells.there.vhost.delete_queue("q")
    cells.carry()
    assert outcomes == [DONE]
    assert cells.waiting_in_outboxes() == 0


def test_a_cell_with_an_alarm_gets_the_rows_later(cells: OutboxCells) -> None:
    cells.commit(b"1", b"2")
    cells.there.broker.alarms["memory"] = "memory"
    with pytest.raises(ClusterError, match="publishers are blocked"):
        cells.carry()
    assert cells.there.queue("q").ready == 0


def test_priority_and_expiration_begin_in_the_queue(cells: OutboxCells) -> None:
    cells.commit(b"low", b"two", priority=1, expiration="1000")
    cells.here.advance(PATIENCE)  # longer than the expiration
    cells.commit(b"high", batch=1, priority=4)
    cells.carry()
    cells.carry()
    assert cells.there.queue("q").ready == 3
    cells.there.advance(1.1)
    cells.there.rest()
    assert drained(cells.there, "q") == [b"high"]


def test_a_queue_that_has_moved_on_gets_its_rows_by_way_of_its_former_cell(cells: OutboxCells) -> None:
    """That cell knows what it has received, and answers when the new one has it."""
    outcomes = cells.commit(b"1", b"2")
    cells.there.vhost.delete_queue("q")
    cells.there.vhost.declare_queue("q", durable=True)
    make_elsewhere(cells.there.vhost, "q", "third")
    (transfer,) = cells.sent
    for _ in range(2):  # it is sent again
        with pytest.raises(ClusterError, match="queue 'q' are on their way to another cell"):
            cells.carry()
        cells.sent.append(transfer)
    passed_on = [queue.ready for name, queue in cells.there.vhost.internal.queues.items() if "outbox" in name]
    assert (passed_on, cells.own_outboxes.ids("here"), len(cells.own_outboxes.ids("third"))) == ([2], [], 1)
    cells.own_outboxes.start(lambda cell, transfer, answered: answered(None))
    cells.there.rest()
    cells.carry()
    assert (outcomes, cells.waiting_in_outboxes()) == ([DONE], 0)


def test_a_transfer_waits_only_for_what_was_passed_on_of_its_own_outbox(cells: OutboxCells) -> None:
    """Otherwise two cells that pass on messages to each other could wait for each other forever."""
    other = cells.own_outboxes.of(cells.there.vhost, "third", "q", came_from="another outbox")
    content, to, traits = row(b"other", address())
    write_run([other.queue], cells.there.broker.log, [(content, to, traits)], len(content), False)
    outcomes = cells.commit(b"1", b"2")
    cells.carry()
    assert (outcomes, other.is_passed) == ([DONE], False)


def test_rows_for_a_queue_that_is_being_moved_are_sent_again(cells: OutboxCells) -> None:
    """Its cell is neither the old one nor the new one then."""
    cells.there.broker.cells.name = "there"
    cells.commit(b"1", b"2")
    cells.there.vhost.delete_queue("q")
    cells.there.vhost.declare_queue("q", durable=True)
    make_elsewhere(cells.there.vhost, "q", "there")
    with pytest.raises(ClusterError, match="queue 'q' is being moved"):
        cells.carry()
    assert cells.own_outboxes.ids("there") == []
    assert not cells.outboxes.is_passed("there")
    assert cells.outboxes.is_passed("here")


def test_a_move_waits_while_the_outbox_is_full(cells: OutboxCells, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (outboxes, stage_moves):
        monkeypatch.setattr(module, "MOST_WAITING", 1)
    stages = [cells.sink.stage("T", 0, body, exchange="amq.fanout") for body in (b"1", b"2", b"3")]
    cells.sink.send("T", 0, *stages)
    cells.here.rest()
    assert cells.here.queue("r").ready == 2
    cells.carry()
    assert cells.here.queue("r").ready == 3


def test_empty_outboxes_and_their_marks_do_not_stay(cells: OutboxCells) -> None:
    cells.commit(b"1")
    cells.carry()
    (old,) = cells.outboxes.ids("there")
    cells.received.keep_only("here", [old])
    cells.there.rest()
    assert [name for name in cells.there.vhost.internal.queues if old in name]
    cells.crash_here()
    assert cells.outboxes.ids("there") == []
    assert not [name for name in cells.here.vhost.internal.queues if "outbox" in name]
    cells.received.keep_only("here", [])
    assert not cells.there.vhost.internal.queues
    cells.commit(b"2", batch=1)
    cells.carry()
    assert drained(cells.there, "q") == [b"1", b"2"]


def test_a_transfer_is_sent_as_it_is() -> None:
    messages = [row(b"1", address("a", "k")), row(b"2", address("b", "")), row(b"", address("a", "k"))]
    sent = Transfer("/", "q", "id", 7, messages)
    found = decoded(*encoded(sent))
    assert found[:4] == sent[:4]
    assert [(content, each.exchange, each.key, traits) for content, each, traits in found.messages] == [
        (content, each.exchange, each.key, PERSISTENT) for content, each, _ in messages
    ]

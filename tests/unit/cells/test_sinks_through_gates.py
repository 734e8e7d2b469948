"""Committed rows for an exchange that is resized in order over cells: each arrives once, and keys keep their order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.pipeline.commits import Committed
from leveret.pipeline.stage_moves import PATIENCE
from leveret.sharding.slots import slot_of
from leveret.wire.methods import ExchangeDeclare
from tests.support.cell_cluster import CellCluster, cut_queues
from tests.support.sink_cells import SinkCells
from tests.support.sinks import drained
from tests.unit.cells.test_ordered_over_cells import Traffic, are_settled, hold_wires, policy, slots

FIRST, OLD, NEW = "sharding: orders - c1 - 0", "sharding: orders - c3 - 0", "sharding: orders - c2 - 0"
KEY = "key 12"  # in OLD; in NEW without the third cell
DONE = Committed(False, 1, 0)


@pytest.fixture
def cells() -> SinkCells:
    cells = SinkCells()
    cells[0].client().ask(ExchangeDeclare("orders", "x-modulus-hash", durable=True))
    policy(cells, 1)
    assert slots(cells[0]).owner(slot_of(KEY)) == OLD
    return cells


def resize(cells: SinkCells) -> None:
    cells[0].sharding.membership.leave("c3")
    cells.rest()
    assert slots(cells[0]).owner(slot_of(KEY)) == NEW


def test_rows_on_their_way_to_the_old_shard_follow_their_slot(cells: SinkCells) -> None:
    first = cells.commit(0, "orders", KEY, b"1")
    cells.advance(PATIENCE)
    resize(cells)
    assert not are_settled(cells)
    second = cells.commit(1, "orders", KEY, b"2")
    assert (first, second) == ([DONE], [])
    assert [each.cell for each in cells.sent] == ["c3"], "it does not overtake the first"
    cells.carry_all()
    assert second == [DONE]
    assert (drained(cells[1], NEW), cells[2].queue(OLD).ready) == ([b"1", b"2"], 0)
    assert are_settled(cells)


@pytest.mark.parametrize("is_crashed", [False, True])
def test_rows_do_not_overtake_those_that_the_old_cell_passes_on(cells: SinkCells, is_crashed: bool) -> None:
    cells.commit(0, "orders", KEY, b"1")
    cells.advance(PATIENCE)
    resize(cells)
    cells.commit(1, "orders", KEY, b"2")
    cells.carry()  # to the old cell
    if is_crashed:
        cells.crash(2)
    to_new = [each for each in cells.sent if each.cell == "c2"]
    assert [each.by.cell for each in to_new] == ["c3"]
    cells.sent = [each for each in cells.sent if each.cell != "c2"]  # the cells of the shards cannot reach each other
    cells.advance(1)
    cells.carry()
    assert not cells[0].sharding.is_settled("c3"), "it has something to pass on"
    assert [each.cell for each in cells.sent] == []
    cells.sent += to_new
    cells.carry_all()
    assert drained(cells[1], NEW) == [b"1", b"2"]
    assert cells[0].sharding.is_settled("c3")


def test_publishes_do_not_wait_for_transfers_to_a_cell_that_is_away(cells: SinkCells) -> None:
    cells.commit(0, "orders", KEY, b"1")
    resize(cells)
    Traffic(cells).publish(cells[0], KEY)
    assert drained(cells[1], NEW) == [b"key 12/1"]


def commit(cells: SinkCells) -> None:
    cells.commit(0, "orders", KEY, b"1")


def commit_again(cells: SinkCells) -> None:
    cells.advance(PATIENCE)
    cells.commit(1, "orders", KEY, b"2")


def carry(cells: SinkCells) -> None:
    cells.carry()


def lose_the_answer(cells: SinkCells) -> None:
    cells.carry(is_answered=False)
    cells.advance(1)


STEPS: list[Callable[[SinkCells], None]] = [commit, resize, commit_again, lose_the_answer, carry, carry]


@pytest.mark.parametrize("crashed", [0, 1, 2], ids=["first", "new", "old"])
@pytest.mark.parametrize("after", range(1, len(STEPS)), ids=lambda number: STEPS[number - 1].__name__ + str(number))
def test_rows_arrive_once_and_in_order_after_a_crash(cells: SinkCells, after: int, crashed: int) -> None:
    for number, step in enumerate(STEPS, 1):
        step(cells)
        if number == after:
            cells.crash(crashed)
            cells.advance(1)
    cells.carry_all()
    assert (drained(cells[1], NEW), cells[2].queue(OLD).ready) == ([b"1", b"2"], 0)
    cells.advance(1)
    assert are_settled(cells)


@pytest.mark.parametrize("is_crashed", [False, True])
def test_a_row_waits_in_its_stage_while_the_gate_is_closed(cells: SinkCells, is_crashed: bool) -> None:
    first = cells[0]
    hold_wires(cells, first, held=True)
    Traffic(cells).publish(first, KEY)  # to the old shard, and stuck on the way
    resize(cells)
    outcomes = cells.commit(0, "orders", KEY, b"1")
    assert (outcomes, cells.sent) == ([], [])
    if is_crashed:
        cells.crash(0)
    else:
        hold_wires(cells, first, held=False)
        cells.advance(0.1)
        assert [each.cell for each in cells.sent] == ["c2"]
    cells.carry_all()
    assert drained(cells[1], NEW) == ([b"1"] if is_crashed else [b"key 12/1", b"1"])
    assert cells[2].queue(OLD).ready == 0


def test_a_transfer_waits_while_the_gate_of_the_old_shard_is_closed(cells: SinkCells) -> None:
    """Otherwise a stream of transfers could keep the hold from ever being empty."""
    old = cells[2]
    traffic = Traffic(cells)
    traffic.publish(old, KEY)
    cells.commit(0, "orders", KEY, b"1")
    resize(cells)
    traffic.publish(old, KEY)  # held
    assert drained(old, OLD) == [b"key 12/1"]  # the last stretch of the hold is on its way
    cells.rest()
    assert old.vhost.gates[OLD].when_clear(lambda: None)
    cells.carry()
    assert sum(queue.ready for queue in old.vhost.internal.queues.values()) == 0
    cells.carry_all()
    assert drained(cells[1], NEW) == [b"key 12/2", b"1"]
    assert are_settled(cells)


def test_a_row_for_a_gate_of_the_first_cell_goes_to_the_outbox_of_its_new_shard(cells: SinkCells) -> None:
    first = cells[0]
    for cell in ("c2", "c3"):
        first.sharding.membership.leave(cell)
    cells.rest()
    assert slots(first).table.shards == [FIRST]
    with cells.definitions_held(1):  # so the gate stays
        first.sharding.membership.rejoin("c3")
        cells.rest()
        assert slots(first).owner(slot_of(KEY)) == OLD
        assert slots(first).reach(KEY)[0].name in first.vhost.gates
        cut_queues(cells, first, cells[2])
        cells.commit(0, "orders", KEY, b"1")
        cells.advance(60)
        cells.carry_all()
    assert drained(cells[2], OLD) == [b"1"]


def commit_to_hold(cells: SinkCells) -> None:
    """The old shard has a message when the resize begins."""
    cells[2].client().publish(OLD, b"before", delivery_mode=2)
    resize(cells)
    cells.commit(0, "orders", KEY, b"1", b"2")
    cells.carry()


def drain_old(cells: SinkCells) -> None:
    assert drained(cells[2], OLD) == [b"before"]
    cells.rest()
    assert [each.cell for each in cells.sent] == ["c2"]


HOLD_STEPS: list[Callable[[SinkCells], None]] = [commit_to_hold, drain_old, lose_the_answer]


@pytest.mark.parametrize("crashed", [0, 1, 2], ids=["first", "new", "old"])
@pytest.mark.parametrize("after", range(1, len(HOLD_STEPS) + 1), ids=lambda number: HOLD_STEPS[number - 1].__name__)
def test_held_rows_arrive_once_and_in_order_after_a_crash(cells: SinkCells, after: int, crashed: int) -> None:
    for number, step in enumerate(HOLD_STEPS, 1):
        step(cells)
        if number == after:
            cells.crash(crashed)
            cells.advance(1)
    cells.commit(1, "orders", KEY, b"3")
    cells.carry_all()
    assert drained(cells[1], NEW) == [b"1", b"2", b"3"]
    cells.advance(1)
    assert are_settled(cells)


@pytest.mark.parametrize("frames", range(2, 12, 2))
def test_held_messages_arrive_once_if_their_cell_crashes_while_they_move(
    cells: SinkCells, monkeypatch: pytest.MonkeyPatch, frames: int
) -> None:
    """``frames``: what the cells still send each other before that."""
    monkeypatch.setattr(SinkCells, "transfer", CellCluster.transfer)
    old = cells[2]
    old.client().publish(OLD, b"before", delivery_mode=2)
    resize(cells)
    client = old.client()
    client.feed(b"".join([client.published("orders", KEY, body, delivery_mode=2) for body in (b"1", b"2")]))
    cells.frames_left = frames
    assert drained(old, OLD) == [b"before"]
    cells.rest()
    cells.crash(2)
    cells.frames_left = None
    cells.advance(2)
    assert drained(cells[1], NEW) == [b"1", b"2"]
    assert are_settled(cells)

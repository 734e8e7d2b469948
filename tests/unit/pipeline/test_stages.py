"""Stages and commits: invisible until they are committed, then all of them, once."""

from __future__ import annotations

import pytest

from leveret.broker.internal_queues import STAGE
from leveret.errors import LeveretError, NotFound, PreconditionFailed
from leveret.pipeline.commits import Committed
from leveret.pipeline.stages import COMPONENT, LIFETIME
from leveret.pipeline.transactions import COMPONENT as COMMIT
from leveret.pipeline.transactions import CommitRow
from tests.support.peer_pair import Harness
from tests.support.sinks import USER, Sink, address, drained, row
from tests.support.stored_harness import StoredHarness

MANY = [b"%05d" % number for number in range(5_000)]


def harness_with(*queues: str, **more: int) -> StoredHarness:
    harness = StoredHarness(**more)
    for queue in queues:
        harness.vhost.declare_queue(queue, durable=True)
    harness.rest()
    return harness


def stage_queues(harness: Harness) -> list[str]:
    return [name for name in harness.vhost.internal.queues if name.startswith(STAGE)]


# ---- staging and committing


def test_what_is_staged_is_invisible_until_it_is_committed() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.stage("T", 0, b"one", b"two")
    assert harness.queue("q").ready == 0
    assert [*harness.vhost.queues] == ["q"]
    assert sink.commit("T", 0, stage) == Committed(False, 2, 0)
    assert drained(harness, "q") == [b"one", b"two"]
    assert sink.last() == 0


def test_stages_of_a_commit_arrive_in_the_order_in_which_they_are_named() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    first, second = sink.stage("T", 3, b"a", b"b"), sink.stage("T", 3, b"c")
    assert sink.commit("T", 3, second, first, second).messages == 3
    assert drained(harness, "q") == [b"c", b"a", b"b"]


def test_nothing_is_left_of_a_stage_when_its_commit_is_done() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    sink.commit("T", 0, sink.stage("T", 0, b"one"))
    assert stage_queues(harness) == []
    assert harness.vhost.parameters.names(COMPONENT) == []
    assert CommitRow.decoded(harness.vhost.parameters.get(COMMIT, "T") or b"") == CommitRow(
        0, [], 1, USER, harness.clock.wall()
    )
    assert [row.name for row in harness.disk.definitions().queues] == ["q"]


def test_a_batch_that_was_committed_is_a_duplicate_and_its_stages_are_dropped() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    sink.commit("T", 5, sink.stage("T", 5, b"one"))
    for batch, before in ((5, 1), (4, None)):
        again = sink.stage("T", batch, b"again", b"more")
        assert sink.commit("T", batch, again) == Committed(True, 0, 0, before=before)
    assert sink.ids() == stage_queues(harness) == []
    assert drained(harness, "q") == [b"one"]
    assert sink.last() == 5


def test_transactions_do_not_know_of_each_other() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    sink.commit("T", 5, sink.stage("T", 5, b"one"))
    assert sink.commit("U", 0, sink.stage("U", 0, b"two")) == Committed(False, 1, 0)
    assert (sink.last("T"), sink.last("U"), sink.last("V")) == (5, 0, None)


def test_other_attempts_at_a_committed_batch_are_dropped() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    failed, good = sink.stage("T", 1, b"failed"), sink.stage("T", 1, b"good", attempt=1)
    later, other = sink.stage("T", 2, b"later"), sink.stage("U", 1, b"other")
    sink.commit("T", 1, good)
    assert sink.ids() == [later, other]
    assert drained(harness, "q") == [b"good"]
    with pytest.raises(PreconditionFailed):
        sink.commit("U", 1, failed)


def test_a_stage_that_is_being_made_when_another_attempt_is_committed_ends() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    slow = sink.begin("T", 1)
    sink.add(slow, [row(b"slow", address())])
    sink.commit("T", 1, sink.stage("T", 1, b"quick"))
    with pytest.raises(PreconditionFailed, match="another attempt was committed"):
        sink.add(slow, [row(b"more", address())])
    assert stage_queues(harness) == []


def test_a_stage_that_is_being_made_while_a_repeat_is_answered_goes_on() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    sink.commit("T", 1, sink.stage("T", 1, b"first"))
    slow = sink.begin("T", 1)
    sink.commit("T", 1, sink.stage("T", 1, b"second"))
    assert sink.ids() == [slow.id]
    assert sink.commit("T", 1, sink.finish(slow)) == Committed(True, 0, 0, before=1)
    assert sink.ids() == []


def test_an_unknown_stage_is_refused_and_nothing_is_committed() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.stage("T", 0, b"one")
    with pytest.raises(PreconditionFailed, match="no stage 'nonsense' in vhost '/'"):
        sink.commit("T", 0, stage, "nonsense")
    assert sink.last() is None
    assert drained(harness, "q") == []
    assert sink.commit("T", 0, stage).messages == 1


def test_a_stage_of_another_batch_is_refused() -> None:
    sink = Sink(harness_with("q"))
    stage = sink.stage("T", 0, b"one")
    with pytest.raises(PreconditionFailed, match="is of transaction 'T', batch 0, not of 'T', batch 1"):
        sink.commit("T", 1, stage)
    assert sink.ids() == [stage]


def test_a_stage_that_is_not_whole_cannot_be_committed() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.begin()
    sink.add(stage, [row(b"one", address())])
    with pytest.raises(PreconditionFailed):
        sink.commit("T", 0, stage.id)


def test_an_empty_batch_can_be_committed() -> None:
    sink = Sink(harness_with())
    assert sink.commit("T", 0) == Committed(False, 0, 0)
    assert sink.commit("T", 1, sink.stage("T", 1)) == Committed(False, 0, 0)
    assert sink.last() == 1


def test_a_repeat_that_comes_while_the_batch_is_moved_waits_for_its_end() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage, again = sink.stage("T", 0, *MANY), sink.stage("T", 0, b"again")
    harness.is_slow = True
    first, second = sink.send("T", 0, stage), sink.send("T", 0, again)
    harness.rest()
    assert first == second == []
    harness.is_slow = False
    harness.rest()
    assert first == [Committed(False, len(MANY), 0)]
    assert second == [Committed(True, 0, 0, before=len(MANY))]
    assert drained(harness, "q") == MANY


def test_a_commit_is_not_answered_before_it_is_granted() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.stage("T", 0, b"one")
    harness.is_slow = True
    outcomes = sink.send("T", 0, stage)
    harness.rest()
    assert harness.queue("q").ready == 1
    assert outcomes == []
    harness.work()
    assert outcomes == [Committed(False, 1, 0)]


def test_each_turn_moves_one_slice_of_bounded_size() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    first, second = sink.stage("T", 0, *MANY), sink.stage("U", 0, *MANY)
    sink.send("T", 0, first)
    sink.send("U", 0, second)
    before, moved = 0, []
    while before < 2 * len(MANY):
        harness.broker.tick()
        moved.append(harness.queue("q").ready - before)
        before += moved[-1]
    assert max(moved) == 4096


def test_a_stage_larger_than_memory_is_moved_from_disk_in_order() -> None:
    harness = harness_with("q", queue_memory=16 << 10)
    sink = Sink(harness)
    stage = sink.begin()
    for start in range(0, len(MANY), 500):
        sink.add(stage, [row(body, address()) for body in MANY[start : start + 500]])
        harness.rest()
    id_ = sink.finish(stage)
    assert stage.queue.lane.paged > 3_000
    assert sink.commit("T", 0, id_).messages == len(MANY)
    assert drained(harness, "q") == MANY


def test_without_a_disk_it_is_the_same() -> None:
    harness = Harness()
    harness.vhost.declare_queue("q")
    sink = Sink(harness)
    stage, again = sink.stage("T", 0, b"one", b"two"), sink.stage("T", 0, b"again")
    assert sink.commit("T", 0, stage) == Committed(False, 2, 0)
    assert sink.commit("T", 0, again) == Committed(True, 0, 0, before=2)
    assert drained(harness, "q") == [b"one", b"two"]
    assert sink.ids() == stage_queues(harness) == []


def test_the_end_of_a_virtual_host_ends_its_commits_and_stages() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage, other = sink.stage("T", 0, *MANY), sink.stage("U", 0, b"other")
    outcomes = sink.send("T", 0, stage)
    harness.broker.tick()
    harness.broker.delete_vhost("/")
    harness.rest()
    (outcome,) = outcomes
    assert isinstance(outcome, NotFound)
    harness.vhost = harness.broker.add_vhost("/")
    assert sink.last() is None
    with pytest.raises(PreconditionFailed):
        sink.commit("U", 0, other)
    harness.advance(LIFETIME)
    assert sink.ids() == []


def test_a_store_that_fails_answers_with_an_error() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.stage("T", 0, b"one")
    harness.is_slow = True
    outcomes = sink.send("T", 0, stage)
    harness.rest()
    harness.broker.lost()
    (outcome,) = outcomes
    assert isinstance(outcome, LeveretError)
    assert "the commit may not be stored" in str(outcome)


# ---- time


def test_a_stage_that_nobody_commits_expires_after_an_hour() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.stage("T", 0, b"one")
    harness.advance(LIFETIME - 1)
    assert sink.ids() == [stage]
    harness.advance(1)
    assert sink.ids() == stage_queues(harness) == []
    assert [row.name for row in harness.disk.definitions().queues] == ["q"]
    with pytest.raises(PreconditionFailed, match="waits an hour for its commit or a renewal"):
        sink.commit("T", 0, stage)


def test_a_restart_does_not_give_a_stage_more_time() -> None:
    harness = harness_with("q")
    stage = Sink(harness).stage("T", 0, b"one")
    harness.advance(1000)
    harness = harness.stopped(seconds=1000).again()
    sink = Sink(harness)
    harness.advance(LIFETIME - 2001)
    assert sink.ids() == [stage]
    harness.advance(1)
    assert sink.ids() == stage_queues(harness) == []


def test_a_committed_stage_does_not_expire() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.stage("T", 0, *MANY)
    harness.is_slow = True
    sink.send("T", 0, stage)
    harness.broker.tick()
    harness.advance(2 * LIFETIME)
    harness.is_slow = False
    harness.rest()
    assert drained(harness, "q") == MANY


# ---- the next life


@pytest.mark.parametrize("image", range(3))
def test_a_stage_that_was_answered_survives_a_power_cut(image: int) -> None:
    harness = harness_with("q")
    stage = Sink(harness).stage("T", 0, b"one", b"two", priority=3)
    harness = harness.crashed(image=image).again()
    sink = Sink(harness)
    assert harness.queue("q").ready == 0
    (found,) = sink.stages.of(harness.vhost)
    assert (found.ticket.transaction, found.messages, found.look) == ("T", 2, 1)
    assert sink.commit("T", 0, stage) == Committed(False, 2, 0)
    assert drained(harness, "q") == [b"one", b"two"]


def test_a_stage_keeps_over_a_crash_which_of_its_rows_are_mandatory() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.begin()
    stage.mandatory.add(address())
    sink.add(stage, [row(b"one", address()), row(b"two", address())])
    id_ = sink.finish(stage)
    harness = harness.crashed().again()
    sink = Sink(harness)
    harness.vhost.delete_queue("q")
    committed = sink.commit("T", 0, id_)
    assert (committed.unroutable, committed.unroutable_mandatory) == (2, 2)


def test_a_stage_that_was_not_finished_is_gone_after_a_crash() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage = sink.begin()
    sink.add(stage, [row(b"one", address())])
    harness.rest()
    harness = harness.crashed().again()
    sink = Sink(harness)
    assert sink.ids() == stage_queues(harness) == []
    assert [row.name for row in harness.disk.definitions().queues] == ["q"]


def test_a_stage_whose_row_came_to_disk_without_its_messages_is_gone() -> None:
    """The definitions are committed before the journal is written."""
    harness = harness_with("q")
    sink = Sink(harness)
    harness.is_slow = True
    stage = sink.begin()
    sink.add(stage, [row(b"one", address())])
    sink.stages.seal(stage)
    harness.rest()
    harness.disk.apply([change for batch in harness.store.batches for change in batch.changes])
    harness = harness.crashed(image=0).again()
    sink = Sink(harness)
    assert sink.ids() == stage_queues(harness) == []
    assert harness.vhost.parameters.names(COMPONENT) == []


@pytest.mark.parametrize("image", range(3))
def test_a_commit_that_was_on_its_way_is_finished_by_the_next_life(image: int) -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage, rest = sink.stage("T", 0, *MANY), sink.stage("T", 0, b"rest")
    sink.send("T", 0, stage)
    harness.broker.tick()
    harness.write()  # the row, and the first slice
    harness = harness.crashed(image=image).again()
    assert 0 < harness.queue("q").ready < len(MANY)
    sink = Sink(harness)
    assert drained(harness, "q") == MANY
    assert sink.commit("T", 0, rest) == Committed(True, 0, 0, before=len(MANY))
    assert sink.ids() == stage_queues(harness) == []
    harness = harness.crashed(image=image).again()
    assert Sink(harness).last() == 0
    assert harness.queue("q").ready == 0


def test_a_commit_that_is_finished_twice_moves_nothing_again() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    sink.send("T", 0, sink.stage("T", 0, *MANY))
    harness.broker.tick()
    harness.write()
    for _ in range(2):
        harness = harness.crashed().again()
        sink = Sink(harness)
        harness = harness.crashed().again()
        assert harness.queue("q").ready == len(MANY)
    assert drained(harness, "q") == MANY


def test_a_row_that_makes_no_sense_costs_itself() -> None:
    harness = harness_with("q")
    sink = Sink(harness)
    stage, good = sink.stage("T", 0, b"one"), sink.stage("T", 0, b"good")
    harness.vhost.parameters.put(COMPONENT, stage, b"{}")
    harness.vhost.parameters.put(COMMIT, "U", b"nonsense")
    harness.rest()
    harness = harness.stopped().again()
    sink = Sink(harness)
    assert sink.ids() == [good]

"""Checkpoints and messages that reclaim has copied."""

from __future__ import annotations

from errno import EIO

import pytest

from leveret.store.checkpoint import checkpoints_on
from tests.support.store_harness import StoreHarness, look, message

FULL = 4096


@pytest.fixture
def harness() -> StoreHarness:
    made = StoreHarness(full_size=FULL, checkpoint_every=3 * FULL)
    made.begin()
    return made


def test_a_deadline_counts_once_although_its_message_was_copied(harness: StoreHarness) -> None:
    queue, other = harness.declare(), harness.declare()
    harness.takes_checkpoints = False
    harness.send([queue], [message(b"kept", deadline=70.0)])
    harness.publish([other], *[b"x" * 100] * 30)
    harness.rest()
    harness.checkpoints.every = 1
    harness.checkpoints.schedule(0)
    harness.takes_checkpoints = True
    harness.publish([other], b"y" * 3000)
    harness.rest()
    harness.takes_checkpoints = False
    (following,) = checkpoints_on(harness.disk)
    harness.settle(other, *range(1, 32))
    harness.rest()
    found = look(harness.disk.copy(), FULL).recovered
    assert found.checkpoint == following
    (run,) = found.lanes[queue << 8].index
    assert run.segment >= following, "reclaim has copied it"
    assert [sequence for _, sequence in found.lanes[queue << 8].deadlines] == [1]


def copied_and_kept(harness: StoreHarness) -> int:
    """A queue with one message in segment 1, which a checkpoint covers and reclaim has copied behind it; the file of
    segment 1 cannot be removed."""
    queue, other = harness.declare(), harness.declare()
    harness.takes_checkpoints = False
    harness.publish([queue], b"kept")
    harness.publish([other], *[b"x" * 100] * 30)
    harness.rest()
    harness.checkpoints.every = 1
    harness.checkpoints.schedule(0)
    harness.takes_checkpoints = True
    harness.publish([other], b"y" * 3000)
    harness.rest()
    harness.takes_checkpoints = False
    harness.disk.fault = lambda kind, path: OSError(EIO, "no") if kind == "remove" and "01.seg" in path else None
    harness.settle(other, *range(1, 32))
    harness.rest()
    harness.disk.fault = lambda kind, path: None
    assert "0000000001.seg" in harness.segments
    (run,) = harness.journal.lanes[queue << 8].index
    assert run.segment >= checkpoints_on(harness.disk)[0]
    return queue


def test_of_two_copies_the_older_one_counts_and_the_other_is_removed_first(harness: StoreHarness) -> None:
    queue = copied_and_kept(harness)
    (copy,) = harness.journal.lanes[queue << 8].index
    found = look(harness.disk.copy(), FULL).recovered
    assert found.checkpoint is not None
    assert [run.segment for run in found.lanes[queue << 8].index] == [1]
    assert found.segments[1].after == {copy.segment}
    assert found.segments[copy.segment].is_damaged


def test_a_settle_about_a_copy_is_owed_to_the_original(harness: StoreHarness) -> None:
    """The copy is removed first, and the settle with it: then nothing would settle the original."""
    queue = copied_and_kept(harness)
    harness.settle(queue, 1)
    harness.rest()
    found = look(harness.disk.copy(), FULL).recovered
    assert found.checkpoint is not None
    lane = found.lanes[queue << 8]
    assert lane.number() == 0
    assert [(entry.sequence, entry.number, entry.about) for entry in lane.owed] == [(1, 1, 1)]

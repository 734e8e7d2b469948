"""When checkpoints are taken, and that a snapshot is of one moment whatever happens while it is taken."""

from __future__ import annotations

from errno import EIO, ENOSPC

import pytest

from leveret.message import NEVER
from leveret.store import checkpoints
from leveret.store.checkpoint import checkpoints_on, load
from leveret.store.recovery import recover
from tests.support.store_harness import StoreHarness, look, message

FULL = 4096


@pytest.fixture
def harness() -> StoreHarness:
    made = StoreHarness(full_size=FULL, checkpoint_every=3 * FULL)
    made.begin()
    return made


def publish_until_due(harness: StoreHarness, queue: int) -> None:
    """So much that a checkpoint begins with the next write."""
    for n in range(1000):
        harness.publish([queue], b"%04d" % n * 25)
        harness.turn()
        harness.write()
        if harness.checkpoints.is_running:
            return
    raise AssertionError("no checkpoint begins")


def test_a_checkpoint_is_taken_after_so_many_bytes(harness: StoreHarness) -> None:
    queue = harness.declare()
    harness.rest()
    publish_until_due(harness, queue)
    assert harness.journal.layout.placed >= 3 * FULL
    harness.rest()
    (following,) = checkpoints_on(harness.disk)
    assert look(harness.disk.copy(), FULL).recovered.checkpoint == following
    for _ in range(200):
        harness.publish([queue], b"x" * 100)
        harness.rest()
    assert checkpoints_on(harness.disk)[0] > following
    assert len(checkpoints_on(harness.disk)) == 1


def test_a_checkpoint_for_a_take_over_is_taken_if_there_is_much_behind_the_last(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LITTLE_WORK", 3)
    queue = harness.declare()
    for _ in range(3):
        assert not harness.checkpoints.take_now()
        harness.publish([queue], b"x")
        harness.rest()
    assert checkpoints_on(harness.disk) == []
    assert harness.checkpoints.take_now()
    harness.rest()
    assert checkpoints_on(harness.disk) == [harness.checkpoints.newest]
    assert not harness.checkpoints.take_now()


def test_a_checkpoint_can_be_due_at_once(harness: StoreHarness) -> None:
    """Also behind a small segment: other nodes wait for it."""
    written: list[int] = []
    harness.checkpoints.when_written(written.append)
    assert harness.checkpoints.newest is None
    harness.checkpoints.hurry()
    harness.declare()
    harness.rest()
    assert written == checkpoints_on(harness.disk) == [harness.checkpoints.newest]
    harness.declare()
    harness.rest()
    assert len(written) == 1


def test_the_segment_in_front_is_at_least_half_full(harness: StoreHarness) -> None:
    queue = harness.declare()
    for _ in range(300):
        harness.publish([queue], b"x" * 100)
        harness.rest()
        for following in checkpoints_on(harness.disk):
            assert harness.disk.size(f"journal/{following - 1:010d}.seg") >= FULL // 2


def test_small_records_count_too(harness: StoreHarness) -> None:
    harness.checkpoints.most_work = 40
    harness.checkpoints.every = 1 << 40
    harness.checkpoints.schedule(0)
    queue = harness.declare()
    for _ in range(60):
        harness.publish([queue], b"x" * 40)
        harness.rest()
    assert checkpoints_on(harness.disk)


def test_in_a_cell_they_are_taken_often_but_not_all_the_time(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SHORT_WORK", 5)
    harness.checkpoints.take_often()
    queue = harness.declare()
    taken: list[int] = []
    harness.checkpoints.when_written(taken.append)

    def publish() -> int:
        for _ in range(10):
            harness.publish([queue], b"small")
            harness.rest()
        return len(taken)

    assert publish() == 1  # behind a small segment
    assert publish() == 1
    harness.clock.move_to(harness.clock.now() + checkpoints.SHORT_PAUSE)
    assert publish() == 2


def test_after_a_large_one_the_next_is_due_later(harness: StoreHarness) -> None:
    queue = harness.declare()
    harness.checkpoints.schedule(1 << 30)
    for _ in range(200):
        harness.publish([queue], b"x" * 100)
        harness.rest()
    assert not checkpoints_on(harness.disk)


def test_a_snapshot_is_of_one_moment_although_the_lanes_change(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "STEP", 1)
    queues = [harness.declare() for _ in range(10)]
    for queue in queues:
        harness.publish([queue], *[b"first %d" % n for n in range(20)])
    harness.rest()
    publish_until_due(harness, queues[0])
    following = harness.journal.layout.end[0]
    kept = harness.live(queues[0])
    for n, queue in enumerate(queues):
        if n % 3 == 0:
            harness.settle(queue, 1 + n, 2 + n)
        elif n % 3 == 1:
            harness.journal.returned(queue, 0, 15, 1, 4)
        else:
            harness.publish([queue], b"later")
        harness.turn()
    harness.delete(queues[9])
    harness.rest()
    lanes = load(harness.disk, following).lanes
    assert [len(lanes[queue << 8].live) for queue in queues] == [kept] + 9 * [20]
    assert not any(lane.tries for lane in lanes.values())
    found = look(harness.disk.copy(), FULL)
    assert found.recovered.checkpoint == following
    assert [len(found.bodies(queue)) for queue in queues] == [kept - 2, 20, 21, 18, 20, 21, 18, 20, 21, 0]
    assert found.tries[queues[4], 0, 15] == 4


def test_a_snapshot_is_taken_a_few_lanes_at_a_time(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "STEP", 10)
    queues = [harness.declare() for _ in range(50)]
    for queue in queues:
        harness.publish([queue], b"one")
    harness.rest()
    publish_until_due(harness, queues[0])
    steps, waiting = 0, len(harness.checkpoints._waiting)
    while harness.checkpoints._waiting:
        harness._work_in_background()
        assert waiting - len(harness.checkpoints._waiting) <= 10
        steps, waiting = steps + 1, len(harness.checkpoints._waiting)
    assert steps >= 4


@pytest.mark.parametrize("number", [ENOSPC, EIO])
def test_a_snapshot_whose_records_were_not_written_is_dropped(harness: StoreHarness, number: int) -> None:
    queue = harness.declare()
    harness.rest()
    publish_until_due(harness, queue)
    following = harness.journal.layout.end[0]
    harness.disk.fault = lambda kind, path: OSError(number, "no") if kind == "create" else None
    harness.publish([queue], b"not written")
    harness.turn()
    harness.write()
    harness.disk.fault = lambda kind, path: None
    if number == ENOSPC:
        harness.journal.space_returned()
    harness.rest()
    assert not harness.checkpoints.is_running
    assert following not in checkpoints_on(harness.disk)
    look(harness.disk.copy(), FULL)


def test_a_file_that_cannot_be_written_is_tried_again_with_the_next_one(harness: StoreHarness) -> None:
    queue = harness.declare()
    harness.rest()
    harness.disk.fault = lambda kind, path: OSError(EIO, "no") if ".checkpoint" in path else None
    publish_until_due(harness, queue)
    harness.rest()
    assert not checkpoints_on(harness.disk)
    assert harness.journal.failure is None
    harness.disk.fault = lambda kind, path: None
    publish_until_due(harness, queue)
    harness.rest()
    assert checkpoints_on(harness.disk)


def test_nothing_is_read_after_a_clean_shutdown(harness: StoreHarness) -> None:
    queue = harness.declare()
    harness.publish([queue], b"a", b"b", b"c")
    harness.journal.returned(queue, 0, 1, 1, 0)
    harness.rest()
    harness.settle(queue, 3)
    harness.stop()
    read: list[str] = []
    image = harness.disk.copy()
    image.fault = lambda kind, path: read.append(path) if kind == "read" else None  # type: ignore[func-returns-value]
    found = recover(image, {queue}, FULL)
    assert found.clean
    (lane,) = found.lanes.values()
    assert (lane.number(), lane.tail, lane.redelivered_below) == (2, 4, 2)
    sizes = [image.size(path) for path in read if path.endswith(".seg")]
    assert len(sizes) == len(harness.segments), "the last bytes of each, to identify it"
    assert look(harness.disk.copy(), FULL).bodies(queue) == [b"a", b"b"]


@pytest.mark.parametrize("jobs", [0, 1, 2, 40])
def test_a_checkpoint_that_is_under_way_at_the_shutdown_does_no_harm(
    harness: StoreHarness, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "STEP", 1)
    queues = [harness.declare() for _ in range(10)]
    for queue in queues:
        harness.send([queue], [message(b"timed", deadline=99.0)])
    harness.rest()
    publish_until_due(harness, queues[0])
    for _ in range(jobs):
        harness._work_in_background()
    late, harness.background = harness.background, []
    harness.settle(queues[1], 1)
    harness.stop()
    for job, done in late:
        done(job())
    assert not harness.background
    found = look(harness.disk.copy(), FULL)
    assert found.recovered.checkpoint == harness.journal.layout.next_segment
    assert found.recovered.clean
    assert [len(found.recovered.lanes[queue << 8].deadlines) for queue in queues] == [1, 0] + 8 * [1]


def test_a_shutdown_that_is_not_clean_writes_no_checkpoint(harness: StoreHarness) -> None:
    queue = harness.declare()
    harness.rest()
    harness.publish([queue], b"a")
    harness.disk.fault = lambda kind, path: OSError(EIO, "no") if kind == "append" else None
    harness.turn()
    harness.write()
    harness.disk.fault = lambda kind, path: None
    harness.journal.stop()
    harness.checkpoints.write_last()
    assert not checkpoints_on(harness.disk)


def test_deadlines_of_messages_that_are_gone_do_not_pile_up(harness: StoreHarness) -> None:
    queue = harness.declare()
    for n in range(400):
        harness.send([queue], [message(b"x" * 80, deadline=1000.0 + n)])
        harness.rest()
        if n != 7:
            harness.settle(queue, n + 1)
    log = harness.journal.lanes[queue << 8]
    assert len(log.deadlines) < 150
    assert 8 in log.deadlines.sequences
    harness.stop()
    found = recover(harness.disk, {queue}, FULL).lanes[queue << 8]
    assert [sequence for _, sequence in found.deadlines] == [8]


def test_deadlines_survive_in_each_lane_of_a_priority_queue(harness: StoreHarness) -> None:
    queue = harness.declare()
    harness.send(
        [queue],
        [
            message(b"low"),
            message(b"high", priority=1, deadline=50.0),
            message(b"low", deadline=60.0),
            message(b"high", priority=1, deadline=NEVER),
        ],
        highest=1,
    )
    harness.rest()
    harness.stop()
    found = recover(harness.disk, {queue}, FULL)
    assert found.checkpoint is not None
    scanned = recover(harness.disk, {queue}, FULL, repair=False, lineage=None)
    for lane, sequences in ((0, [2]), (1, [1])):
        deadlines = list(found.lanes[queue << 8 | lane].deadlines)
        assert [sequence for _, sequence in deadlines] == sequences
        assert deadlines == list(scanned.lanes[queue << 8 | lane].deadlines)


def test_a_start_that_cannot_use_a_checkpoint_removes_it(harness: StoreHarness) -> None:
    """Its choice among copies may be another, and what it does then does not fit the checkpoint."""
    queue = harness.declare()
    harness.publish([queue], b"a")
    harness.rest()
    harness.stop()
    assert recover(harness.disk, {queue}, FULL, repair=False, lineage=b"x" * 32).checkpoint is None
    assert checkpoints_on(harness.disk)
    assert recover(harness.disk, {queue}, FULL, lineage=b"x" * 32).checkpoint is None
    assert not checkpoints_on(harness.disk)


@pytest.mark.parametrize("later", [0, 1], ids=["of the same segment", "newer"])
def test_a_start_removes_what_a_killed_writer_left_without_a_warning(
    harness: StoreHarness, later: int, caplog: pytest.LogCaptureFixture
) -> None:
    queue = harness.declare()
    harness.publish([queue], b"a")
    harness.rest()
    harness.stop()
    (following,) = checkpoints_on(harness.disk)
    before = harness.disk.names("journal")
    harness.disk.put(f"journal/{following + later:010d}.checkpoint.new", b"begun")
    assert recover(harness.disk, {queue}, FULL).checkpoint == following
    assert harness.disk.names("journal") == before
    assert not caplog.messages


def test_a_start_that_had_to_read_much_takes_a_checkpoint_soon(harness: StoreHarness) -> None:
    """Or a broker that crashes again and again would read more each time."""
    queue = harness.declare()
    harness.takes_checkpoints = False
    for _ in range(300):
        harness.publish([queue], b"x" * 100)
        harness.rest()
    again = StoreHarness(harness.disk.copy(), full_size=FULL, checkpoint_every=3 * FULL)
    again.begin()
    again.publish([queue], b"one")
    again.rest()
    (following,) = checkpoints_on(again.disk)
    found = look(again.disk.copy(), FULL).recovered
    assert found.checkpoint == following
    assert found.bytes_read < FULL

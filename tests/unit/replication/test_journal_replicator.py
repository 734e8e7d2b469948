"""A batch is done when the local writer and the log are both done with it."""

from __future__ import annotations

from leveret.errors import ClusterError
from leveret.replication.batches import FIRST_OFFSET, Contents, Write, decode_batch
from leveret.replication.claims import Position
from leveret.replication.journal_replicator import MOST_BYTES, Applied, JournalReplicator, ReplicatedBatch
from leveret.store.batch import Batch
from leveret.store.definitions import Put, VhostRow


class Parts:
    """The log, the local writer and the owner of a replicator, which keep what they get."""

    def __init__(self) -> None:
        self.is_busy = False
        self.asked = 0  # the size of the record that was to be sent last
        self.position = Position(9, 3, 4)
        self.bodies: list[bytes] = []
        self.tokens: list[ReplicatedBatch] = []
        self.submitted: list[Batch] = []
        self.finished: list[Batch] = []
        self.reasons: list[str] = []
        self.given_up: list[str] = []
        self.replicator = JournalReplicator(self, self.reasons.append)
        self.unsynced: dict[int, int] = {}  # by stream: the first sequence that its files do not have
        self.replicator.start(self, self)

    def has_room(self, size: int) -> bool:
        self.asked = size
        return not self.is_busy

    def append(self, body: bytes, token: ReplicatedBatch) -> None:
        self.bodies.append(body)
        self.tokens.append(token)

    def submit(self, batch: Batch) -> None:
        self.submitted.append(batch)

    def submit_later(self) -> None:
        self.reasons.append("later")

    def wait_for_acks(self) -> None:
        self.reasons.append("acks")

    def finish(self, batch: Batch) -> None:
        self.finished.append(batch)

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)

    def granted(self) -> dict[int, int]:
        return dict.fromkeys(self.unsynced, 10)

    def are_synced(self, granted: dict[int, int]) -> bool:
        return all(self.unsynced[stream] >= stop for stream, stop in granted.items())

    def grant(self, number: int = 1) -> None:
        tokens, self.tokens = self.tokens[:number], self.tokens[number:]
        self.position = Position(self.position.sequence + number, 3, self.position.batch + number)
        self.replicator.granted(tokens)

    def contents(self) -> list[Contents]:
        return [decode_batch(body) for body in self.bodies]


def batch_of(data: bytes, *, removals: tuple[int, ...] = (), changes: tuple[str, ...] = ()) -> Batch:
    batch = Batch(0)
    batch.write(1, [data])
    batch.removals = list(removals)
    batch.changes = [Put(VhostRow(name, None, None)) for name in changes]
    return batch


def test_a_batch_is_written_and_appended_at_the_same_time() -> None:
    parts = Parts()
    batch = batch_of(b"one")
    parts.replicator.submit(batch)
    assert parts.submitted == [batch]
    assert parts.contents() == [Contents([], [Write(1, FIRST_OFFSET, b"one")], [], [])]
    assert parts.finished == []


def test_a_batch_is_done_when_both_have_it_whichever_is_first() -> None:
    for first, second in (("written", "granted"), ("granted", "written")):
        parts = Parts()
        batch = batch_of(b"one")
        parts.replicator.submit(batch)
        for event in (first, second):
            assert parts.finished == []
            parts.grant() if event == "granted" else parts.replicator.written(batch)
        assert parts.finished == [batch]


def test_batches_are_done_in_order() -> None:
    parts = Parts()
    one, two, three = batches = [batch_of(data) for data in (b"1", b"2", b"3")]
    for batch in batches:
        parts.replicator.submit(batch)
    parts.replicator.written(two)  # and with it the one before
    parts.grant()
    assert parts.finished == [one]
    parts.grant(2)
    assert parts.finished == [one, two]
    parts.replicator.written(three)
    assert parts.finished == [one, two, three]


def test_changes_and_removals_wait_for_the_log_and_what_follows_waits_with_them() -> None:
    for special in (batch_of(b"2", changes=("v",)), batch_of(b"2", removals=(1,))):
        parts = Parts()
        one, three = batch_of(b"1"), batch_of(b"3")
        for batch in (one, special, three):
            parts.replicator.submit(batch)
        assert parts.submitted == [one]
        assert len(parts.bodies) == 3
        parts.grant()
        assert parts.submitted == [one]
        parts.grant()
        assert parts.submitted == [one, special, three]


def test_batches_that_wait_for_the_log_are_packed() -> None:
    parts = Parts()
    parts.is_busy = True
    batches = [batch_of(b"1", changes=("v",)), batch_of(b"2"), batch_of(bytes(MOST_BYTES)), batch_of(b"4")]
    for batch in batches:
        parts.replicator.submit(batch)
    assert (parts.bodies, parts.submitted) == ([], [])  # nor are they written
    assert parts.asked == MOST_BYTES + 3
    parts.is_busy = False
    last = batch_of(b"5", removals=(7,))
    parts.replicator.submit(last)
    first, large, rest = parts.contents()
    assert (first.changes, [bytes(write.data) for write in first.writes]) == (batches[0].changes, [b"1", b"2"])
    assert sum(len(write.data) for write in large.writes) == MOST_BYTES
    assert ([bytes(write.data) for write in rest.writes], rest.removals) == ([b"4", b"5"], [7])
    assert [token.batch for token in parts.tokens] == [batches[1], batches[2], last]
    parts.replicator.written(batches[1])
    parts.grant()
    assert parts.finished == [batches[1]]


def test_what_the_directory_has_for_sure_is_known() -> None:
    parts = Parts()
    one, two = batch_of(b"1"), batch_of(b"2")
    one.end, two.end = (1, 33), (1, 34)
    parts.replicator.submit(one)
    parts.replicator.submit(two)
    parts.grant(2)
    parts.replicator.written(one)
    assert parts.replicator.applied is None  # the log's position is that of the second
    parts.replicator.written(two)
    assert parts.replicator.applied == Applied(Position(11, 3, 6), (1, 34))


def test_the_note_waits_for_the_files_of_streams() -> None:
    parts = Parts()
    parts.unsynced = {7: 9, 8: 10}
    for data, end in ((b"1", 33), (b"2", 34)):
        batch = batch_of(data)
        batch.end = (1, end)
        parts.replicator.submit(batch)
        parts.grant()
        parts.replicator.written(batch)
        assert parts.replicator.applied is None
    parts.unsynced[7] = 10
    assert parts.replicator.applied == Applied(Position(10, 3, 5), (1, 33))  # what was awaited
    assert parts.replicator.applied == Applied(Position(11, 3, 6), (1, 34))


def test_trims_go_with_the_next_batch() -> None:
    parts = Parts()
    for queue, first in ((7, 100), (8, 5), (7, 200)):
        parts.replicator.trimmed(queue, first)
    parts.replicator.submit(batch_of(b"1"))
    parts.replicator.submit(batch_of(b"2"))
    assert [contents.trims for contents in parts.contents()] == [[(7, 200), (8, 5)], []]


def test_nothing_is_done_after_another_node_leads() -> None:
    parts = Parts()
    one, two = batch_of(b"1"), batch_of(b"2", changes=("v",))
    parts.replicator.submit(one)
    parts.replicator.submit(two)
    parts.replicator.stop("another node leads")
    parts.replicator.written(one)
    parts.grant(2)
    parts.replicator.submit(batch_of(b"3"))
    assert parts.finished == []
    assert parts.submitted == [one]
    assert len(parts.bodies) == 2


def test_a_failed_disk_makes_the_node_step_down() -> None:
    parts = Parts()
    one = batch_of(b"1")
    parts.replicator.submit(one)
    parts.replicator.failed(OSError(28, "No space left on device"))
    parts.grant()
    assert parts.finished == []
    assert parts.given_up == parts.reasons
    assert parts.reasons == ["the disk of this node failed (No space left on device)"]


def test_a_damaged_journal_makes_the_node_step_down() -> None:
    parts = Parts()
    parts.replicator.submit(batch_of(b"1"))
    parts.replicator.damaged("segment 1 is damaged")
    parts.replicator.damaged("segment 2 is damaged")
    parts.grant()
    assert parts.finished == []
    assert parts.given_up == ["segment 1 is damaged"]
    assert parts.replicator.damage == "segment 1 is damaged"


def test_settles_alone_may_wait() -> None:
    parts = Parts()
    parts.replicator.submit_later()
    assert parts.reasons == ["later"]


def test_a_writer_that_starts_too_late_gives_up() -> None:
    parts = Parts()
    replicator = JournalReplicator(parts, parts.reasons.append)
    replicator.stop("another node leads")
    replicator.stop("a later reason")
    replicator.start(parts, parts)
    assert parts.given_up == ["another node leads"]
    assert replicator.is_stopped


def test_a_batch_that_does_not_fit_into_the_log_grants_nothing_that_follows() -> None:
    """The next grant counts for all batches before it."""
    parts = Parts()
    small, large, later = (batch_of(data) for data in (b"small", b"large", b"later"))
    parts.replicator.submit(small)

    def refuse(body: bytes, token: ReplicatedBatch) -> None:
        raise ClusterError("too large")

    append, parts.append = parts.append, refuse  # type: ignore[method-assign]
    parts.replicator.submit(large)
    parts.append = append  # type: ignore[method-assign]
    parts.replicator.submit(later)
    parts.replicator.written(later)
    parts.grant()
    assert parts.submitted == [small]
    assert (parts.finished, parts.reasons, parts.given_up) == ([], ["too large"], ["too large"])

"""A batch is done when the local writer and the log are both done with it."""

from __future__ import annotations

from leveret.replication.batches import FIRST_OFFSET, Contents, Write, decode_batch
from leveret.replication.claims import Position
from leveret.replication.journal_replicator import MOST_BYTES, Applied, JournalReplicator, ReplicatedBatch
from leveret.store.batch import Batch
from leveret.store.definitions import Put, VhostRow


class Parts:
    """The log, the local writer and the owner of a replicator, which keep what they get."""

    def __init__(self) -> None:
        self.has_room = True
        self.position = Position(9, 3, 4)
        self.bodies: list[bytes] = []
        self.tokens: list[ReplicatedBatch] = []
        self.submitted: list[Batch] = []
        self.finished: list[Batch] = []
        self.reasons: list[str] = []
        self.given_up: list[str] = []
        self.replicator = JournalReplicator(self, self.reasons.append)
        self.replicator.start(self)

    def append(self, body: bytes, token: ReplicatedBatch) -> None:
        self.bodies.append(body)
        self.tokens.append(token)

    def submit(self, batch: Batch) -> None:
        self.submitted.append(batch)

    def submit_later(self) -> None:
        self.reasons.append("later")

    def finish(self, batch: Batch) -> None:
        self.finished.append(batch)

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)

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
    assert parts.contents() == [Contents([], [Write(1, FIRST_OFFSET, b"one")], [])]
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
    parts.has_room = False
    batches = [batch_of(b"1", changes=("v",)), batch_of(b"2"), batch_of(bytes(MOST_BYTES)), batch_of(b"4")]
    for batch in batches:
        parts.replicator.submit(batch)
    assert parts.bodies == []
    parts.has_room = True
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


def test_settles_alone_may_wait() -> None:
    parts = Parts()
    parts.replicator.submit_later()
    assert parts.reasons == ["later"]


def test_a_writer_that_starts_too_late_gives_up() -> None:
    parts = Parts()
    replicator = JournalReplicator(parts, parts.reasons.append)
    replicator.stop("another node leads")
    replicator.stop("a later reason")
    replicator.start(parts)
    assert parts.given_up == ["another node leads"]
    assert replicator.is_stopped

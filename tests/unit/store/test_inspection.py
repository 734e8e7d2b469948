"""A data directory seen from outside: what is in it, what is wrong with it, and that looking changes nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest
from xxhash import xxh3_64_intdigest

from leveret.errors import StoreError
from leveret.store import inspection as module
from leveret.store.checkpoint import FOOTER, checkpoint_path, checkpoints_on
from leveret.store.definitions import Drop, QueueRow
from leveret.store.disk import ReadableDisk
from leveret.store.files import Files
from leveret.store.inspection import Stored, inspect, read_contents
from leveret.store.pages import Fetched, Pieces, fetch
from leveret.store.recovery import Damaged
from leveret.wire.content import body_of
from tests.support.synchronous_store import WALL, SynchronousStore, picture, segments_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def bodies(messages: Sequence[Stored]) -> list[bytes]:
    return [body_of(stored.message[0]) for stored in messages]


def damage(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        inspect(path)
    return str(caught.value)


# ---- what is there


def test_messages_are_counted_per_queue_with_its_names(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "mail"), (2, "idle"))
        kept.declare((3, "mail"), vhost="shop")
        kept.publish(1, [b"a", b"bb"])
        kept.publish(1, [b"c"], lane=4)
        kept.publish(3, [b"d"] * 5)
        kept.settle(3, 2, 2)
    found = inspect(path)
    assert found.contents.is_sound
    assert [(queue.vhost, queue.name, queue.messages) for queue in found.queues] == [
        ("/", "mail", 3),
        ("/", "idle", 0),
        ("shop", "mail", 3),
    ]
    assert (found.messages, found.bytes) == (6, sum(queue.bytes for queue in found.queues))
    assert found.bytes > 6
    assert (found.definitions["vhosts"], found.definitions["queues"], found.definitions["users"]) == (2, 3, 0)


def test_messages_of_a_deleted_queue_are_told_apart_and_keep_no_segment_alive(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "stays"), (2, "goes"))
        kept.publish(2, [b"x" * 100] * 3)
        kept.publish(1, [b"y" * 100])
        kept.journal.record(Drop(QueueRow, (2,)))
        kept.journal.flush()
    found = inspect(path)
    assert [(queue.id, queue.name, queue.messages) for queue in found.deleted] == [(2, None, 3)]
    assert found.messages == 1
    assert [segment.messages for segment in found.segments] == [1]
    assert 0.1 < found.segments[0].live < 0.35


def test_the_live_share_of_a_segment_falls_as_messages_are_settled(path: Path) -> None:
    with SynchronousStore(path, segment_size=4096) as kept:
        kept.declare((1, "q"))
        for _ in range(4):
            kept.publish(1, [b"x" * 1900])
        kept.settle(1, 1)
        kept.crash()
    shares = [segment.live for segment in inspect(path).segments]
    assert len(shares) == 3
    assert 0.4 < shares[0] < 0.6
    assert shares[1] > 0.9


# ---- nothing changes


@pytest.mark.parametrize("is_clean", [True, False])
def test_looking_changes_not_a_byte_and_not_a_time(path: Path, tmp_path: Path, is_clean: bool) -> None:
    """Also beside a database whose latest rows are in its write-ahead log only, as a killed broker leaves it."""
    copy = tmp_path / "copy"
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"m"])
        shutil.copytree(path, copy)
    looked_at = path if is_clean else copy
    assert (looked_at / "meta.db-wal").exists() is not is_clean
    with segments_of(looked_at)[-1].open("ab") as file:
        file.write(b"torn")
    before = picture(looked_at)
    found = inspect(looked_at)
    list(read_contents(looked_at).messages(1))
    assert picture(looked_at) == before
    assert [(queue.name, queue.messages) for queue in found.queues] == [("q", 1)]


# ---- what is wrong


def test_a_torn_tail_is_told_and_is_no_damage(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"first"])
        whole = segments_of(path)[-1].stat().st_size
        kept.publish(1, [b"second"])
        kept.crash()
    segment = segments_of(path)[-1]
    segment.write_bytes(segment.read_bytes()[:-3])
    found = inspect(path)
    (torn,) = found.contents.recovered.damages
    assert (torn.segment, torn.offset, torn.is_tail) == (1, whole, True)
    assert torn.size == segment.stat().st_size - whole
    assert found.contents.is_sound
    assert found.messages == 1


def test_damage_is_told_with_its_place_and_costs_only_itself(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        places = []
        for body in (b"first", b"second", b"third"):
            places.append(segments_of(path)[-1].stat().st_size)
            kept.publish(1, [body])
    damage(segments_of(path)[0], places[1] + 40)
    found = inspect(path)
    expected = Damaged(1, places[1], places[2] - places[1], "the checksum does not match", False)
    assert found.contents.damages == [expected]
    assert not found.contents.is_sound
    assert bodies(list(found.contents.messages(1))) == [b"first", b"third"]


def test_definitions_that_are_no_database_are_a_fault_and_the_journal_is_read_all_the_same(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"m"])
    (path / "meta.db").write_bytes(b"these are not the definitions you are looking for" * 100)
    found = inspect(path)
    assert not found.contents.is_sound
    assert "meta.db cannot be read" in found.contents.faults[0]
    assert [(queue.id, queue.messages) for queue in found.deleted] == [(1, 1)]


def test_definitions_that_are_missing_under_messages_are_a_fault(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"m"])
    (path / "meta.db").unlink()
    assert "missing" in inspect(path).contents.faults[0]
    assert not (path / "meta.db").exists()


def test_a_new_directory_without_anything_is_sound(path: Path) -> None:
    with SynchronousStore(path):
        pass
    (path / "meta.db").unlink()
    assert inspect(path).contents.is_sound


def test_a_damaged_page_of_the_definitions_is_a_fault(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare(*[(number, f"queue {number}") for number in range(1, 400)])
    size = apsw.Connection(str(path / "meta.db")).pragma("page_size")
    data = (path / "meta.db").read_bytes()
    at = data.index(b"queue 200") // size * size  # some page in the middle of a tree
    (path / "meta.db").write_bytes(data[: at + 8] + bytes(64) + data[at + 72 :])
    found = inspect(path)
    assert not found.contents.is_sound
    assert all(fault.startswith("meta.db") for fault in found.contents.faults)


# ---- what cannot be read


def test_a_folder_that_is_no_data_directory_is_refused_with_the_remedy(tmp_path: Path) -> None:
    assert "name the data directory" in refusal(tmp_path / "nowhere")
    assert "no file 'format'" in refusal(tmp_path)
    (tmp_path / "incomplete").touch()
    assert "never finished" in refusal(tmp_path)


def test_a_newer_format_is_refused_with_the_remedy(path: Path) -> None:
    with SynchronousStore(path):
        pass
    (path / "format").write_text("leveret data directory, format 7\n")
    assert "format 7, this Leveret reads up to 2: upgrade" in refusal(path)


def test_definitions_of_a_newer_version_are_refused_by_their_own_name(path: Path) -> None:
    with SynchronousStore(path):
        pass
    db = apsw.Connection(str(path / "meta.db"))
    db.pragma("user_version", 99)
    db.close()
    assert refusal(path).startswith(f"{path / 'meta.db'} was written by a newer Leveret")


# ---- the messages


def test_messages_come_in_the_order_of_delivery_with_all_that_is_known(path: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"a", b"b", b"c"])
        kept.publish(1, [b"urgent"], lane=9)
        kept.journal.returned(1, 0, 2, 1, 3)
        kept.settle(1, 1)
    found = list(read_contents(path).messages(1))
    assert bodies(found) == [b"urgent", b"b", b"c"]
    assert [(each.lane, each.sequence, each.tries) for each in found] == [(9, 1, 0), (0, 2, 3), (0, 3, 0)]
    assert [each.redelivered for each in found] == [False, True, False]
    assert {each.published for each in found} == {WALL}
    assert found[0].message[1].exchange == "an exchange"
    assert bodies(list(read_contents(path).messages(1, 2))) == [b"urgent", b"b"]
    assert list(read_contents(path).messages(1, 0)) == []
    assert list(read_contents(path).messages(2)) == []


def test_nobody_knows_what_was_redelivered_after_a_crash(path: Path) -> None:
    kept = SynchronousStore(path)
    kept.declare((1, "q"))
    kept.publish(1, [b"m"])
    kept.crash()
    (only,) = read_contents(path).messages(1)
    assert only.redelivered is None


def test_a_long_queue_is_read_in_small_slices(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        for first in range(0, 300, 10):
            kept.publish(1, [b"%03d" % number * 30 for number in range(first, first + 10)])
    at_once: list[int] = []

    def counted(disk: ReadableDisk, queue: int, lane: int, runs: Pieces, wall_ahead: float) -> Fetched:
        at_once.append(sum(run.size for _, run in runs))
        return fetch(disk, queue, lane, runs, wall_ahead)

    monkeypatch.setattr(module, "SLICE", 2000)
    monkeypatch.setattr(module, "fetch", counted)
    found = read_contents(path).messages(1)
    assert body_of(next(found).message[0]) == b"000" * 30
    assert len(at_once) == 1  # nobody has read what nobody asked for yet
    assert bodies(list(found)) == [b"%03d" % number * 30 for number in range(1, 300)]
    assert max(at_once) <= 2000
    assert len(at_once) > 10


# ---- checkpoints


def kept_messages(path: Path) -> Path:
    """A directory with three messages in one run; its checkpoint."""
    with SynchronousStore(path) as kept:
        kept.declare((1, "mail"))
        kept.publish(1, [b"a", b"b", b"c"])
    (following,) = checkpoints_on(Files(path))
    return path / checkpoint_path(following)


def test_a_checkpoint_that_agrees_with_the_journal_is_no_fault(path: Path) -> None:
    kept_messages(path)
    found = inspect(path)
    assert (found.contents.faults, found.messages) == ([], 3)


def test_a_checkpoint_that_disagrees_with_the_journal_is_a_fault(path: Path) -> None:
    file = kept_messages(path)
    data = bytearray(file.read_bytes()[: -FOOTER.size])
    assert data[-12:-8] == (3).to_bytes(4, sys.byteorder)
    data[-12:-8] = (2).to_bytes(4, sys.byteorder)  # messages of the run
    file.write_bytes(data + FOOTER.pack(len(data), xxh3_64_intdigest(bytes(data), int(file.stem))))
    found = inspect(path)
    assert not found.contents.is_sound
    assert (
        f"journal/{file.name} disagrees with the journal (queue 1, lane 0: other messages)" in found.contents.faults[0]
    )
    assert found.messages == 3, "counted without the checkpoint"


def test_a_checkpoint_that_no_start_would_use_is_no_fault(path: Path) -> None:
    file = kept_messages(path)
    file.write_bytes(b"rubbish")
    assert inspect(path).contents.is_sound
    shutil.rmtree(path)
    kept_messages(path)
    (path / "lock").write_text("4711\n")
    assert inspect(path).contents.is_sound

"""Backups: the moment that is held, the way to the target, and that nothing is left or altered when it fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.errors import StoreError
from leveret.store import backup as module
from leveret.store.backup import (
    Made,
    copy_over,
    hand_over,
    refuse_target,
    remove_snapshots,
    snapshot,
    snapshot_at_rest,
    snapshot_folder,
)
from leveret.store.batch import Batch
from leveret.store.data_dir import DataDir
from leveret.store.inspection import inspect, read_contents
from leveret.wire.content import body_of
from tests.support.synchronous_store import SynchronousStore, picture, segments_of

ID = "0123456789abcdef" * 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def folder(path: Path) -> Path:
    return snapshot_folder(path, ID)


@pytest.fixture
def rested(path: Path) -> Path:
    """A directory with two segments and three messages, which nobody uses."""
    with SynchronousStore(path, segment_size=4096) as kept:
        kept.declare((1, "q"), (2, "other"))
        kept.publish(1, [b"a" * 2000, b"b" * 2000])
        kept.publish(1, [b"c" * 2000])
    return path


def bodies(path: Path) -> list[bytes]:
    return [body_of(stored.message[0]) for stored in read_contents(path).messages(1)]


def finish(path: Path, folder: Path, target: Path) -> Made:
    steps = hand_over(path, folder, target)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made


def inodes(path: Path) -> set[int]:
    return {entry.stat().st_ino for entry in path.rglob("*") if entry.is_file()}


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


# ---- the moment


def test_a_snapshot_has_all_that_was_written_before_and_nothing_that_came_after(path: Path, folder: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"before"])
        kept.journal.seal(lambda segment: snapshot(path, folder, segment, kept.store.copy_definitions))
        kept.declare((2, "later"))
        kept.publish(1, [b"after"])
        assert bodies(folder) == [b"before"]
        assert [queue.name for queue in inspect(folder).queues] == ["q"]
        assert segments_of(folder)[0].stat().st_ino == segments_of(path)[0].stat().st_ino


def test_the_open_segment_is_not_shared(path: Path, folder: Path) -> None:
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.journal.seal(lambda segment: snapshot(path, folder, segment, kept.store.copy_definitions))
        before = picture(folder)
        kept.publish(1, [b"after"])
        assert picture(folder) == before
        assert segments_of(folder)[-1].name == segments_of(path)[-1].name


def test_a_snapshot_of_a_running_broker_does_not_look_like_a_clean_stop(path: Path, folder: Path) -> None:
    """The segments of the life before end with a STOP; messages were delivered since, so they must be marked."""
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"m"])
    assert read_contents(path).recovered.clean
    with SynchronousStore(path) as kept:
        kept.journal.seal(lambda segment: snapshot(path, folder, segment, kept.store.copy_definitions))
        assert not read_contents(folder).recovered.clean


def test_nothing_of_later_batches_is_done_before_the_snapshot(path: Path) -> None:
    """Three batches at once, and the last one removes a segment: the moment between the second and the third counts."""
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"m"])
        waiting: list[Batch] = []
        kept.submit = waiting.append
        kept.publish(1, [b"n"])
        seen: list[list[str]] = []
        kept.journal.seal(lambda segment: seen.append([file.name for file in segments_of(path)]))
        last = Batch(0)
        last.removals.append(1)
        assert kept.store.writer is not None
        kept.store.writer.run([*waiting, last])
        assert seen == [["0000000001.seg", "0000000002.seg"]]
        assert [file.name for file in segments_of(path)] == ["0000000002.seg"]
        kept.crash()


def test_segments_are_copied_where_the_file_system_has_no_links(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with SynchronousStore(path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"before"])
        kept.journal.seal(lambda segment: snapshot(path, folder, segment, kept.store.copy_definitions))
        assert bodies(folder) == [b"before"]
        assert not inodes(path / "journal") & inodes(folder)


def test_a_full_disk_is_not_taken_for_one_without_links(
    rested: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        snapshot_at_rest(rested, folder)


def test_at_rest_the_last_segment_is_copied_as_the_next_start_may_cut_it(rested: Path, folder: Path) -> None:
    with segments_of(rested)[-1].open("ab") as file:
        file.write(b"torn")
    snapshot_at_rest(rested, folder)
    before = picture(folder)
    with SynchronousStore(rested) as kept:
        kept.publish(1, [b"more"])
    assert picture(folder) == before
    assert [body[:1] for body in bodies(folder)] == [b"a", b"b", b"c"]


# ---- the way to the target


def test_on_one_file_system_the_snapshot_becomes_the_target(rested: Path, folder: Path, tmp_path: Path) -> None:
    before = bodies(rested)
    snapshot_at_rest(rested, folder)
    made = finish(rested, folder, tmp_path / "backup")
    assert (made.segments, made.queues) == (len(segments_of(rested)), 2)
    assert made.bytes == sum(file.stat().st_size for file in (tmp_path / "backup").rglob("*.*"))
    assert bodies(tmp_path / "backup") == before
    assert not folder.exists()
    assert {entry.stat().st_mode & 0o77 for entry in (tmp_path / "backup").rglob("*")} == {0}


def test_on_another_file_system_it_is_copied_in_steps(
    rested: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "rename", failing(errno.EXDEV))
    monkeypatch.setattr(module, "SLICE", 1000)
    snapshot_at_rest(rested, folder)
    target = tmp_path / "mounted"
    (target / "lost+found").mkdir(parents=True)
    steps = list(hand_over(rested, folder, target))
    assert len(steps) > 8
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1][0] == steps[-1][1]
    assert bodies(target) == bodies(rested)
    assert not inodes(target) & inodes(rested)
    assert sorted(entry.name for entry in target.iterdir()) == ["format", "journal", "lost+found", "meta.db"]
    assert not folder.exists()


@pytest.mark.parametrize("was_there", [True, False])
def test_a_copy_that_is_given_up_leaves_nothing(
    rested: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_there: bool
) -> None:
    monkeypatch.setattr(os, "rename", failing(errno.EXDEV))
    monkeypatch.setattr(module, "SLICE", 1000)
    snapshot_at_rest(rested, folder)
    target = tmp_path / "target"
    if was_there:
        (target / "lost+found").mkdir(parents=True)
    before = picture(rested / "journal")
    steps = hand_over(rested, folder, target)
    for _ in range(4):
        next(steps)
    assert (target / "journal").exists()
    steps.close()
    assert target.exists() is was_there
    assert not was_there or [entry.name for entry in target.iterdir()] == ["lost+found"]
    assert not folder.exists()
    assert picture(rested / "journal") == before


def test_no_broker_starts_on_half_a_copy(rested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 1000)
    steps = copy_over(rested, tmp_path / "half")
    refused = 0
    for _ in steps:
        with pytest.raises(StoreError, match="not a Leveret data directory"):
            DataDir.open(tmp_path / "half")
        refused += 1
    assert refused > 4
    DataDir.open(tmp_path / "half").close()


def test_a_disk_that_fills_up_is_told_and_leaves_nothing(
    rested: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 1000)
    steps = copy_over(rested, tmp_path / "target")
    next(steps)
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        list(steps)
    assert not (tmp_path / "target").exists()


# ---- refusals


def test_a_target_that_cannot_be_used_is_refused_with_the_remedy(rested: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "way in").symlink_to(rested)
    wanted = {
        tmp_path / "file": "not a directory: choose another path",
        tmp_path / "dangling": "not a directory: choose another path",
        tmp_path / "full": "not empty: choose another",
        tmp_path / "missing" / "backup": "does not exist: create it first",
        rested: "inside the data directory",
        rested / "backup": "inside the data directory",
        tmp_path / "way in" / "backup": "inside the data directory",
    }
    for target, says in wanted.items():
        with pytest.raises(StoreError, match=says):
            refuse_target(target, rested)
    refuse_target(tmp_path / "new", rested)


def test_a_target_that_was_filled_meanwhile_is_left_alone(rested: Path, folder: Path, tmp_path: Path) -> None:
    snapshot_at_rest(rested, folder)
    steps = hand_over(rested, folder, tmp_path / "target")
    next(steps)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "letter").write_text("dear")
    with pytest.raises(StoreError, match="not empty"):
        list(steps)
    assert [entry.name for entry in (tmp_path / "target").iterdir()] == ["letter"]
    assert not folder.exists()


def test_only_what_a_backup_left_is_removed_at_a_start(rested: Path, folder: Path) -> None:
    snapshot_at_rest(rested, folder)
    (rested / "backup-of-mine").mkdir()
    remove_snapshots(rested)
    assert not folder.exists()
    assert (rested / "backup-of-mine").exists()

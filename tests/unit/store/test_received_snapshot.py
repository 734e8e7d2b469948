"""The files of another node's data directory take the place of a node's own, whenever the process ends on the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from xxhash import xxh3_64

from leveret.clock import FrozenClock
from leveret.errors import StoreError
from leveret.store import received_snapshot
from leveret.store.data_dir import FORMAT_FILE, SENTENCE
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.received_snapshot import ReceivedSnapshot
from leveret.store.records import SEGMENT_HEAD, segment_head
from leveret.store.replica import Replica
from leveret.store.replica_note import ReplicaNote, read_note
from leveret.store.store import Store

HEAD = SEGMENT_HEAD.size
NOTE = ReplicaNote("c", 90, 4, 50, 7, HEAD + 5, "log2")


def snapshot_files(folder: Path) -> dict[str, bytes]:
    DefinitionsDb(folder / "made.db").close()
    return {
        "journal/0000000007.seg": segment_head(7) + b"seven",
        "streams/12/00000000000000000000.seg": b"stream",
        "meta.db": (folder / "made.db").read_bytes(),
        "format": SENTENCE.format(1).encode(),
    }


def send(received: ReceivedSnapshot, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        received.begin(name)
        for at in range(0, len(data), 1000):
            received.write(data[at : at + 1000])
        received.end(xxh3_64(data).hexdigest())


def copy(path: Path, files: dict[str, bytes]) -> None:
    received = ReceivedSnapshot(path)
    try:
        send(received, files)
        received.install(NOTE)
    finally:
        received.close()


def former_member(path: Path, log: str) -> None:
    replica = Replica(path, "c")
    replica.open()
    replica.apply([], [(3, HEAD, b"three")], [], [])
    replica.follow(log)
    replica.keep(10, 2, 5)
    replica.close()


def segments(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in (path / "journal").iterdir()}


def assert_installed(path: Path) -> None:
    replica = Replica(path, "c")
    assert replica.open() == NOTE
    replica.close()
    assert segments(path) == {"0000000007.seg": segment_head(7) + b"seven"}
    assert not list(path.glob("snapshot.*"))


def test_the_files_take_the_place_of_older_ones(tmp_path: Path) -> None:
    former_member(tmp_path / "data", "log2")
    copy(tmp_path / "data", snapshot_files(tmp_path))
    assert (tmp_path / "data/streams/12/00000000000000000000.seg").read_bytes() == b"stream"
    assert_installed(tmp_path / "data")
    assert not list((tmp_path / "data").glob("before-*"))


def test_files_of_another_log_are_kept_as_a_data_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    former_member(data, "log1")
    copy(data, snapshot_files(tmp_path))
    assert_installed(data)
    assert segments(data / "before-log1") == {"0000000003.seg": segment_head(3) + b"three"}
    assert (data / "before-log1" / FORMAT_FILE).read_bytes() == (data / FORMAT_FILE).read_bytes()
    note = read_note(data / "before-log1")
    assert note is not None
    assert (note.log, note.batch) == ("log1", 5)


def test_a_copy_that_is_interrupted_changes_nothing(tmp_path: Path) -> None:
    data, files = tmp_path / "data", snapshot_files(tmp_path)
    former_member(data, "log1")
    received = ReceivedSnapshot(data)
    received.begin("journal/0000000007.seg")
    received.write(b"some")
    received.close()
    assert segments(data) == {"0000000003.seg": segment_head(3) + b"three"}
    assert not list(data.glob("snapshot.*"))
    copy(data, files)  # again
    assert_installed(data)


def test_a_file_that_was_damaged_on_its_way_is_refused(tmp_path: Path) -> None:
    received = ReceivedSnapshot(tmp_path)
    received.begin("journal/0000000007.seg")
    received.write(b"some")
    with pytest.raises(StoreError, match="damaged on its way"):
        received.end(xxh3_64(b"same").hexdigest())
    received.close()


@pytest.mark.parametrize("name", ["../x", "/etc/x", "journal/../../x", "streams/a/b/c.seg", "", ".x", "journal/"])
def test_names_outside_of_a_data_directory_are_refused(tmp_path: Path, name: str) -> None:
    received = ReceivedSnapshot(tmp_path)
    with pytest.raises(StoreError, match="name"):
        received.begin(name)
    received.close()


def test_the_installation_is_finished_after_a_crash_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends before the n-th change of a name, for all n."""
    files = snapshot_files(tmp_path)
    for allowed in range(40):
        data = tmp_path / f"data {allowed}"
        former_member(data, "log1")
        received = ReceivedSnapshot(data)
        send(received, files)
        left = [allowed]

        def limited(real: Callable[..., None], left: list[int] = left) -> Callable[..., None]:
            def change(*arguments: Path) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                real(*arguments)

            return change

        with monkeypatch.context() as patch:
            for module, name in ((os, "replace"), (os, "rename"), (Path, "rmdir")):
                patch.setattr(module, name, limited(getattr(module, name)))
            with suppress(KeyboardInterrupt):
                received.install(NOTE)
        is_complete = (data / "snapshot.complete").exists() or (data / "snapshot.install").exists()
        received.close()
        if is_complete:
            with pytest.raises(StoreError, match="belongs to a cell"):
                Store(data, segment_size=1 << 20, synced=True, clock=FrozenClock()).open()
        if left[0] < 0 and not is_complete and allowed < 3:  # before all of it was complete: as it was
            assert segments(data) == {"0000000003.seg": segment_head(3) + b"three"}
            continue
        assert_installed(data)
        assert segments(data / "before-log1") == {"0000000003.seg": segment_head(3) + b"three"}
        if left[0] >= 0:
            return
    raise AssertionError("more changes of names than expected")


def test_snapshots_of_data_directories_in_no_cell_are_not_affected(tmp_path: Path) -> None:
    received_snapshot.finish_installation(tmp_path)
    assert not list(tmp_path.iterdir())

"""Serving requests: who does what in which thread, and what becomes of a backup that cannot be finished."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.server.requests import Requests
from leveret.store import backup as backup_module
from leveret.store.batch import Batch
from leveret.store.inspection import inspect
from leveret.store.request_files import is_wanted, leave_request, read_answer, withdraw
from tests.support.synchronous_store import SynchronousStore

ID = "abcdef0123456789" * 2
Job = tuple[Callable[[], object], Callable[[object], None]]


class Reader:
    """The reader's thread, which does a job when it is told to."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()

    def take(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        self.jobs.append((job, done))

    def work(self) -> None:
        """One job."""
        job, done = self.jobs.popleft()
        try:
            result = job()
        except Exception as problem:
            result = problem
        done(result)

    def work_all(self) -> None:
        while self.jobs:
            self.work()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[SynchronousStore]:
    with SynchronousStore(tmp_path / "data") as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"m" * 5000])
        yield kept


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def requests(kept: SynchronousStore, reader: Reader) -> Requests:
    made = Requests(kept.store, reader.take)
    made.start()
    reader.work_all()
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def ask(kept: SynchronousStore, target: Path) -> None:
    leave_request(kept.path, ID, {"kind": "backup", "target": str(target)})


def answered(kept: SynchronousStore) -> dict[str, Any]:
    found = read_answer(kept.path, ID)
    assert found is not None
    withdraw(kept.path, ID)
    return found


def leftovers(kept: SynchronousStore) -> list[str]:
    return [name for name in os.listdir(kept.path) if name.startswith("backup-")]


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target is on another file system, and a step is small."""

    def rename(*_: object) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(backup_module, "SLICE", 1000)


def test_a_backup_is_made_and_answered_with_its_figures(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path
) -> None:
    ask(kept, target)
    requests.look()
    reader.work_all()
    found = answered(kept)
    assert (found["state"], found["segments"], found["queues"]) == ("done", 2, 1)
    assert inspect(target).messages == 1
    assert leftovers(kept) == []


def test_other_jobs_of_the_reader_come_between_the_steps_of_a_copy(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    ask(kept, target)
    requests.look()
    turns = 0
    while reader.jobs:
        reader.work()
        turns += 1
        assert len(reader.jobs) <= 1
    assert turns > 8
    assert answered(kept)["state"] == "done"


def test_a_second_look_while_one_is_under_way_asks_nothing(reader: Reader, requests: Requests) -> None:
    requests.look()
    requests.look()
    assert len(reader.jobs) == 1


def test_one_request_after_the_other(
    kept: SynchronousStore, reader: Reader, requests: Requests, tmp_path: Path
) -> None:
    other = "1" * 32
    leave_request(kept.path, other, {"kind": "backup", "target": str(tmp_path / "other")})
    ask(kept, tmp_path / "backup")
    for _ in range(2):
        requests.look()
        reader.work_all()
    assert {name: inspect(tmp_path / name).messages for name in ("backup", "other")} == {"backup": 1, "other": 1}


def test_a_bad_target_is_refused_before_anything_is_sealed(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path
) -> None:
    target.mkdir()
    (target / "letter").touch()
    before = kept.journal.layout.next_segment
    ask(kept, target)
    requests.look()
    reader.work_all()
    assert "not empty" in answered(kept)["error"]
    assert kept.journal.layout.next_segment == before


def test_a_batch_that_fails_fails_the_backup_and_the_next_one_works(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path
) -> None:
    write, voided = kept.submit, list[Batch]()
    kept.submit = voided.append
    ask(kept, target)
    requests.look()
    reader.work_all()
    assert len(voided) > 0
    assert is_wanted(kept.path, ID)
    problem = OSError(errno.ENOSPC, "No space left on device")
    kept.submit = write
    for _ in range(2):  # however often it is said
        requests.failed(problem)
    kept.journal.failed(problem)
    kept.journal.space_returned()
    reader.work_all()
    assert "No space left" in answered(kept)["error"]
    assert not target.exists()
    ask(kept, target)
    requests.look()
    reader.work_all()
    assert answered(kept)["state"] == "done"
    assert inspect(target).messages == 1


def test_a_failure_after_the_snapshot_is_no_failure_of_the_backup(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path
) -> None:
    ask(kept, target)
    requests.look()
    reader.work()
    requests.failed(OSError(errno.EIO, "later"))
    reader.work_all()
    assert answered(kept)["state"] == "done"


@pytest.mark.parametrize("is_full", [True, False])
def test_a_store_that_cannot_write_makes_no_backup(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path, is_full: bool
) -> None:
    if is_full:
        kept.journal.batches.held = []
    else:
        kept.journal.failure = "the disk failed"
    ask(kept, target)
    requests.look()
    reader.work_all()
    error = answered(kept)["error"]
    assert ("the disk is full" if is_full else "restart the broker") in error
    assert not target.exists()
    kept.journal.batches.held = kept.journal.failure = None


def test_a_snapshot_that_fails_harms_nobody_but_the_backup(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(kept.store, "copy_definitions", broken)
    ask(kept, target)
    requests.look()
    reader.work_all()
    assert answered(kept) == {"state": "failed", "error": "a bug"}
    assert leftovers(kept) == []
    kept.publish(1, [b"goes on"])
    assert kept.journal.granted == kept.journal.issued


def test_a_request_that_is_taken_back_ends_the_copy(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    ask(kept, target)
    requests.look()
    for _ in range(4):
        reader.work()
    assert target.exists()
    withdraw(kept.path, ID)
    reader.work_all()
    assert not target.exists()
    assert leftovers(kept) == []
    assert read_answer(kept.path, ID) is None


def test_a_broker_that_stops_gives_the_copy_up_and_says_so(
    kept: SynchronousStore, reader: Reader, requests: Requests, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    ask(kept, target)
    requests.look()
    for _ in range(4):
        reader.work()
    requests.stop()
    reader.work_all()
    assert "the broker is shutting down" in answered(kept)["error"]
    assert not target.exists()
    assert leftovers(kept) == []


def test_leftovers_of_an_earlier_life_go_at_the_start(kept: SynchronousStore, reader: Reader) -> None:
    (kept.path / f"backup-{ID}" / "journal").mkdir(parents=True)
    Requests(kept.store, reader.take).start()
    reader.work_all()
    assert leftovers(kept) == []

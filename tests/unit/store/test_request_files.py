"""Requests left as files: what is granted, what is answered with an error, and what is nobody's business."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leveret.store.request_files import (
    DONE,
    FAILED,
    WORKING,
    Request,
    answer,
    is_wanted,
    leave_request,
    next_request,
    prepare,
    read_answer,
    withdraw,
)

FIRST, SECOND = "0" * 31 + "1", "0" * 31 + "2"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "lock").write_text("1\n")
    prepare(tmp_path)
    return tmp_path


def leave(path: Path, id_: str = FIRST, **what: object) -> None:
    leave_request(path, id_, what or {"kind": "backup", "target": "/srv/backup"})


def age(file: Path, seconds: int) -> None:
    """Make it older than it is."""
    then = file.stat().st_mtime_ns - seconds * 10**9
    os.utime(file, ns=(then, then))


def error_for(path: Path, data: bytes) -> str:
    (path / "requests" / f"{FIRST}.json").write_bytes(data)
    assert next_request(path) is None
    found = read_answer(path, FIRST)
    assert found is not None
    assert found["state"] == FAILED
    assert not is_wanted(path, FIRST)
    withdraw(path, FIRST)
    return str(found["error"])


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path / "requests"))


def test_the_folder_is_for_its_owner_only(path: Path) -> None:
    assert (path / "requests").stat().st_mode & 0o777 == 0o700


def test_a_request_is_found_and_answered_and_then_gone(path: Path) -> None:
    assert next_request(path) is None
    leave(path)
    assert names(path) == [f"{FIRST}.json"]
    assert next_request(path) == Request(FIRST, "backup", Path("/srv/backup"))
    assert read_answer(path, FIRST) is None
    answer(path, FIRST, WORKING, done=1, of=2)
    assert read_answer(path, FIRST) == {"state": "working", "done": 1, "of": 2}
    answer(path, FIRST, DONE, segments=3)
    assert read_answer(path, FIRST) == {"state": "done", "segments": 3}
    assert names(path) == [f"{FIRST}.answer"]
    withdraw(path, FIRST)
    assert names(path) == []


def test_the_oldest_comes_first_and_none_twice(path: Path) -> None:
    age(path / "lock", 60)
    leave(path, FIRST)
    leave(path, SECOND)
    age(path / "requests" / f"{SECOND}.json", 5)
    for id_ in (SECOND, FIRST):
        found = next_request(path)
        assert found is not None
        assert found.id == id_
        answer(path, id_, WORKING)
    assert next_request(path) is None


def test_a_request_that_was_taken_back_gets_no_answer(path: Path) -> None:
    leave(path)
    withdraw(path, FIRST)
    answer(path, FIRST, DONE)
    assert names(path) == []


def test_what_is_no_request_is_answered_with_an_error_that_helps(path: Path) -> None:
    for data in (b"{", b"\xff", b"", b"[" * 60_000, b"{" * 60_000):
        assert "not JSON" in error_for(path, data)
    assert "more than 65536 bytes" in error_for(path, b" " * 65537)
    for data in (b"[]", b"7", b"null", b"{}", b'{"kind": "dance"}', b'{"kind": ["backup"]}'):
        assert "does not support requests of kind" in error_for(path, data)
    for target in (None, 7, "", "relative/place", "/with\0zero"):
        what = {"kind": "backup", "target": target}
        assert "needs an absolute path" in error_for(path, json.dumps(what).encode())


def test_a_request_of_just_the_largest_size_is_read(path: Path) -> None:
    data = json.dumps({"kind": "backup", "target": "/srv/backup"}).encode()
    (path / "requests" / f"{FIRST}.json").write_bytes(data.ljust(65536))
    assert next_request(path) is not None


def test_a_bad_request_does_not_stand_in_the_way_of_a_good_one(path: Path) -> None:
    age(path / "lock", 60)
    leave(path, FIRST, kind="dance")
    age(path / "requests" / f"{FIRST}.json", 5)
    leave(path, SECOND)
    found = next_request(path)
    assert found is not None
    assert found.id == SECOND


def test_what_was_asked_of_an_earlier_life_is_refused(path: Path) -> None:
    leave(path)
    age(path / "requests" / f"{FIRST}.json", 5)
    assert next_request(path) is None
    found = read_answer(path, FIRST)
    assert found is not None
    assert "older than this broker: run the command again" in found["error"]


def test_a_start_removes_old_answers_and_leaves_requests_and_new_answers(path: Path) -> None:
    leave(path, FIRST)
    for name in (f"{SECOND}.answer", f"{SECOND}.answer.new", f"{FIRST}.json"):
        (path / "requests" / name).touch()
        age(path / "requests" / name, 60)
    (path / "requests" / "new.answer").touch()
    prepare(path)
    assert names(path) == [f"{FIRST}.json", "new.answer"]


def test_files_with_other_names_are_left_alone(path: Path) -> None:
    for name in ("notes.json", f"{FIRST}.json.new", f"{FIRST.upper()}x.json", "..json"):
        (path / "requests" / name).write_text("{}")
    before = names(path)
    assert next_request(path) is None
    assert names(path) == before


def test_a_folder_that_somebody_removed_is_no_error(path: Path) -> None:
    os.rmdir(path / "requests")
    assert next_request(path) is None
    leave(path)
    assert next_request(path) is not None

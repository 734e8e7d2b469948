"""The data directory: made once, locked while in use, and refused with a remedy when it cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.errors import StoreError
from leveret.store import data_dir as module
from leveret.store.data_dir import FORMAT, DataDir, kept_still, read_format, read_lineage

GOOD = b"leveret data directory, format 2\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some" / "data"


@pytest.fixture
def folder(path: Path) -> Iterator[DataDir]:
    opened = DataDir.open(path)
    yield opened
    opened.close()


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        DataDir.open(path)
    return str(caught.value)


def contents(path: Path) -> dict[str, bytes | None]:
    return {file.name: file.read_bytes() if file.is_file() else None for file in path.iterdir()}


def open_handles() -> int:
    return len(os.listdir("/proc/self/fd" if os.path.exists("/proc/self/fd") else "/dev/fd"))


def test_new_directory_has_its_layout_and_is_for_its_owner_only(folder: DataDir, path: Path) -> None:
    assert folder.path == path
    assert folder.meta == path / "meta.db"
    assert contents(path) == {
        "format": GOOD,
        "lock": locked_by_us(path),
        "journal": None,
    }
    modes = {file.name: file.stat().st_mode & 0o777 for file in (path.parent, path, *path.iterdir())}
    assert modes == {"some": 0o700, "data": 0o700, "format": 0o600, "lock": 0o600, "journal": 0o700}


def test_directory_is_used_again_as_it_is(path: Path) -> None:
    for _ in range(2):
        folder = DataDir.open(path)
        (path / "journal" / "1").touch()
        (path / "anything").touch()
        folder.close()
        folder.close()
    assert contents(path).keys() == {"format", "lock", "journal", "anything"}


def test_lost_journal_folder_is_made_again(path: Path) -> None:
    DataDir.open(path).close()
    (path / "journal").rmdir()
    DataDir.open(path).close()
    assert (path / "journal").is_dir()


def test_second_broker_is_refused_while_the_first_one_runs(folder: DataDir, path: Path) -> None:
    before = open_handles()
    assert refusal(path) == (
        f"data directory {path} is in use by another broker (process {os.getpid()}): "
        "stop it, or set data_dir to another one"
    )
    assert open_handles() == before
    assert contents(path)["lock"] == locked_by_us(path)
    folder.close()
    DataDir.open(path).close()


def test_process_of_an_earlier_owner_is_overwritten_whole(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "lock").write_text("12345678901234567890\n")
    DataDir.open(path).close()
    assert contents(path)["lock"] == locked_by_us(path)


def locked_by_us(path: Path) -> bytes:
    """The process id, blanks up to the 20th byte, and the lineage."""
    lineage = read_lineage(path)
    assert lineage is not None
    return f"{os.getpid()}\n".ljust(20).encode() + lineage + b"\n"


def test_lineage_stays_from_run_to_run(path: Path) -> None:
    first = DataDir.open(path)
    first.close()
    second = DataDir.open(path)
    second.close()
    assert first.lineage == second.lineage == read_lineage(path)
    assert len(first.lineage) == 32


def test_another_lineage_can_begin(path: Path) -> None:
    folder = DataDir.open(path)
    folder.begin_lineage(b"a" * 32)
    assert folder.lineage == read_lineage(path) == b"a" * 32
    assert contents(path)["lock"] == locked_by_us(path)
    folder.close()
    again = DataDir.open(path)
    assert again.lineage == b"a" * 32
    again.close()


@pytest.mark.parametrize("left", [b"4711\n", b"", b"4711\n" + b"x" * 60, b"\0" * 53])
def test_lineage_ends_when_the_lock_is_written_without_it(path: Path, left: bytes) -> None:
    """As a version that knows no checkpoints does: they must not be used any more."""
    first = DataDir.open(path)
    first.close()
    (path / "lock").write_bytes(left)
    assert read_lineage(path) is None
    second = DataDir.open(path)
    second.close()
    assert second.lineage != first.lineage
    assert read_lineage(path) == second.lineage


def test_second_broker_is_refused_before_the_first_one_wrote_its_process(folder: DataDir, path: Path) -> None:
    (path / "lock").write_text("")
    assert refusal(path).startswith(f"data directory {path} is in use by another broker: stop it")


HOLD = """
import sys
from pathlib import Path
from leveret.store.data_dir import DataDir
folder = DataDir.open(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_lock_holds_between_processes_and_dies_with_its_owner(path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(path)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        assert f"(process {other.pid})" in refusal(path)
        other.kill()
        other.wait()
        DataDir.open(path).close()
    assert contents(path)["lock"] == locked_by_us(path)


def test_program_started_by_the_broker_does_not_inherit_the_lock(folder: DataDir) -> None:
    assert folder._handle is not None
    assert not os.get_inheritable(folder._handle)


def test_closing_frees_the_lock_though_a_copy_of_its_handle_lives_on(folder: DataDir, path: Path) -> None:
    """As in a forked process that outlives the broker."""
    assert folder._handle is not None
    copy = os.dup(folder._handle)
    folder.close()
    DataDir.open(path).close()
    os.close(copy)


@pytest.mark.parametrize("names", [["holiday.jpg"], ["journal", "lock", "notes.txt"]])
def test_folder_with_foreign_things_is_refused_and_stays_as_it_is(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    remedy = "is not a Leveret data directory (no file 'format'): choose an empty folder"
    assert refusal(tmp_path) == f"{tmp_path} {remedy}"
    assert sorted(contents(tmp_path)) == sorted(names)


@pytest.mark.parametrize("names", [[], ["lost+found"], ["lock", "format.new"], ["meta.db", "meta.db-wal"]])
def test_folder_that_is_empty_or_half_made_is_taken(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).touch()
    DataDir.open(tmp_path).close()
    assert read_format(tmp_path) == FORMAT
    assert "format.new" not in contents(tmp_path)


def test_crash_before_the_format_is_in_place_leaves_a_folder_that_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCut(BaseException):
        pass

    def cut(*_: object) -> None:
        raise PowerCut

    monkeypatch.setattr(module.os, "replace", cut)
    with pytest.raises(PowerCut):
        DataDir.open(path)
    monkeypatch.undo()
    assert contents(path).keys() == {"lock", "journal", "format.new"}
    DataDir.open(path).close()
    assert read_format(path) == FORMAT


def test_format_is_synced_before_it_gets_its_name_and_the_name_after(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.mkdir(parents=True)
    done: list[str] = []

    def sync(handle: int) -> None:
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))

    def replace(old: Path, new: Path) -> None:
        done.append("rename")
        old.rename(new)

    monkeypatch.setattr(module.os, "fsync", sync)
    monkeypatch.setattr(module.os, "replace", replace)
    DataDir.open(path).close()
    assert done == ["data", "format.new", "rename", "data"]


def test_newer_format_is_refused_and_the_lock_is_free_again(path: Path) -> None:
    DataDir.open(path).close()
    (path / "format").write_text("leveret data directory, format 3\n")
    before = open_handles()
    expected = (
        f"data directory {path} has format 3, this Leveret reads up to 2: "
        "upgrade Leveret or set data_dir to another one"
    )
    assert refusal(path) == expected
    assert refusal(path) == expected
    assert open_handles() == before
    assert read_format(path) == 3


def test_a_directory_of_an_older_format_is_upgraded_and_refused_by_older_versions(path: Path) -> None:
    DataDir.open(path).close()
    (path / "format").write_text("leveret data directory, format 1\n")
    DataDir.open(path).close()
    assert (path / "format").read_bytes() == GOOD


@pytest.mark.parametrize("text", [b"", GOOD.replace(b"2", b"x"), GOOD * 2, b"\xff\x00", b"something else\n" * 99])
def test_format_that_nobody_wrote_is_refused(path: Path, text: bytes) -> None:
    DataDir.open(path).close()
    (path / "format").write_bytes(text)
    found = refusal(path)
    assert found.startswith(f"data directory {path} has an unknown format (its file 'format' contains b'")
    assert found.endswith("restore a backup, or set data_dir to another one")
    assert len(found) < 400
    with pytest.raises(StoreError, match="unknown format"):
        read_format(path)


def test_reading_the_format_of_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a Leveret data directory"):
        read_format(tmp_path)
    with pytest.raises(StoreError, match="is not a Leveret data directory"):
        read_format(tmp_path / "nowhere")
    (tmp_path / "format").mkdir()
    with pytest.raises(StoreError, match=r"cannot use .* as data directory: .*Is a directory.*; set data_dir"):
        read_format(tmp_path)


def test_file_in_the_way_is_refused_with_the_remedy(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    for path in (blocked, blocked / "data"):
        found = refusal(path)
        assert found.startswith(f"cannot use {path} as data directory: ")
        assert "Not a directory" in found
        assert found.endswith("; set data_dir to another one")


def test_full_disk_does_not_keep_the_broker_from_starting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DataDir.open(path).close()

    def write(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "write", write)
    DataDir.open(path).close()


def test_lock_that_the_file_system_does_not_know_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(module.fcntl, "flock", flock)
    before = open_handles()
    assert refusal(path) == (
        f"cannot use {path} as data directory: [Errno 37] No locks available; set data_dir to another one"
    )
    assert open_handles() == before


# ---- looking from outside


def test_who_looks_is_told_who_is_in_and_holds_nobody_up(folder: DataDir, path: Path) -> None:
    with kept_still(path) as owner:
        assert owner == f"in use by a broker (process {os.getpid()})"
    with kept_still(path) as owner:
        assert owner is not None
    folder.close()
    DataDir.open(path).close()


def test_a_broker_stays_out_while_somebody_looks_and_nothing_is_changed(folder: DataDir, path: Path) -> None:
    folder.close()
    before = {file.name: (file.stat().st_mtime_ns, file.stat().st_size) for file in path.iterdir()}
    handles = open_handles()
    with kept_still(path) as owner:
        assert owner is None
        assert "in use" in refusal(path)
    assert {file.name: (file.stat().st_mtime_ns, file.stat().st_size) for file in path.iterdir()} == before
    assert open_handles() == handles
    DataDir.open(path).close()


def test_looking_at_a_folder_without_a_lock_makes_none(tmp_path: Path) -> None:
    with kept_still(tmp_path) as owner:
        assert owner is None
    assert list(tmp_path.iterdir()) == []

"""CWE-732, incorrect permission assignment for critical resource: other users of the machine read neither messages nor
password hashes, in a new data directory and in one that was made with wider permissions."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

import leveret
from tests.support.http_api import QUIET

NOBODY = 65534


@pytest.mark.parametrize("is_open_before", [True, False])
def test_everything_in_the_data_directory_is_for_its_owner(
    tmp_path: Path, is_open_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="leveret")
    folder = tmp_path / "data"
    use(folder)
    if is_open_before:
        folder.chmod(0o755)
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        caplog.clear()
        use(folder)
        assert f"folder={folder}" in caplog.text
    assert (folder / "streams").is_dir()
    assert {oct(mode_of(path)) for path in [folder, *folder.rglob("*")] if path.is_dir()} == {"0o700"}
    assert {oct(mode_of(path)) for path in folder.rglob("*") if path.is_file()} == {"0o600"}


def test_files_behind_symbolic_links_are_left_alone(tmp_path: Path) -> None:
    folder, outside = tmp_path / "data", tmp_path / "outside"
    use(folder)
    outside.write_text("of another program")
    outside.chmod(0o644)
    (folder / "link").symlink_to(outside)
    use(folder)
    assert mode_of(outside) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="kernel: only root can act as another user")
def test_a_folder_of_another_owner_is_used_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The volume of a container often belongs to root and is open to the broker's group."""
    folder = tmp_path / "data"
    use(folder)
    folder.chmod(0o777)
    for path in folder.rglob("*"):
        os.chown(path, NOBODY, NOBODY)
    closed = {each: mode_of(each) for each in folder.parents if mode_of(each) & 0o055 != 0o055}
    for each, mode in closed.items():
        each.chmod(mode | 0o055)
    os.seteuid(NOBODY)
    try:
        use(folder)
    finally:
        os.seteuid(0)
        for each, mode in closed.items():
            each.chmod(mode)
    assert "data directory is readable by other users" in caplog.text


def use(folder: Path) -> None:
    with leveret.Broker(replace(QUIET, data_dir=folder)) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("events", durable=True, arguments={"x-queue-type": "stream"})
        vhost.publish("", "events", b"one")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)

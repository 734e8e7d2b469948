"""What the commands on a data directory show; that they do their work is in tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.cli.data import check, progress_lines, report, run, shown
from leveret.errors import StoreError
from leveret.store.inspection import inspect
from tests.support.synchronous_store import SynchronousStore


def test_progress_is_a_line_now_and_then_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_terminal, lines in ((True, 10), (False, 0)):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        progress = progress_lines("reading segments")
        for done in range(1001):
            progress(done, 1000)
        assert capsys.readouterr().err.count("reading segments: ") == lines


def test_little_work_tells_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress = progress_lines("reading segments")
    for done in range(4):
        progress(done, 3)
    assert capsys.readouterr().err == ""


def test_a_name_cannot_play_with_the_terminal(tmp_path: Path) -> None:
    with SynchronousStore(tmp_path) as kept:
        kept.declare((1, "\x1b[2J\nis sound"), (2, "käse"), (3, ""))
    text = report(tmp_path, inspect(tmp_path))
    assert "\x1b" not in text
    assert r'"\u001b[2J\nis sound"' in text
    assert "käse" in text
    assert shown("") == '""'


@pytest.mark.parametrize("problem", [StoreError("no such thing: make one"), PermissionError(13, "denied", "/data")])
def test_what_goes_wrong_is_one_line_and_exit_code_two(problem: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise problem

    assert run(fail) == 2
    assert capsys.readouterr().err == f"leveret: {problem}\n"


def test_the_exit_code_says_whether_all_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SynchronousStore(tmp_path) as kept:
        kept.declare((1, "q"))
        kept.publish(1, [b"m"])
    assert run(lambda: check(tmp_path, False)) == 0
    (tmp_path / "meta.db").write_bytes(b"no database" * 1000)
    assert run(lambda: check(tmp_path, False)) == 1
    assert "fault: meta.db cannot be read" in capsys.readouterr().out
    assert run(lambda: check(tmp_path / "nowhere", False)) == 2

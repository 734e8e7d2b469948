"""One data directory, one broker; and the error for a directory that it cannot use."""

from __future__ import annotations

from pathlib import Path

from tests.support.forked_broker import ForkedBroker
from tests.support.publishing import bodies_of, declare_at, fill


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """The error is one line that names the directory, and the first broker continues."""
    other = tmp_path / "other"
    other.mkdir()
    data = tmp_path / "data"
    with ForkedBroker(tmp_path) as first:
        declare_at(first.url(), "q")
        fill(first.url(), "q", [b"before"])
        with ForkedBroker(other, "--data-dir", str(data)) as second:
            assert second.exit_code() != 0
            (line,) = second.log().splitlines()
            assert str(data) in line
        fill(first.url(), "q", [b"after"])
        first.process.kill()
    with ForkedBroker(tmp_path) as third:  # the killed one left no lock behind
        assert bodies_of(third.url(), "q") == [b"before", b"after"]


def refusal(folder: Path) -> str:
    """The one line that a broker logs about a directory that it refuses."""
    with ForkedBroker(folder) as serving:
        assert serving.exit_code() != 0
        (line,) = serving.log().splitlines()
    assert str(folder / "data") in line
    return line


def test_data_of_a_newer_format_are_refused_with_the_remedy_and_left_alone(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", [b"m"])
        serving.process.kill()
    named = tmp_path / "data" / "format"
    before = named.read_bytes()
    named.write_bytes(before.replace(b"format 2", b"format 3"))
    assert named.read_bytes() != before
    told = refusal(tmp_path)
    assert "format 3" in told
    assert "upgrade" in told
    named.write_bytes(before)
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == [b"m"]


def test_a_folder_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    letters = tmp_path / "data" / "letters.txt"
    letters.write_text("dear")
    assert "choose" in refusal(tmp_path)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["letters.txt"]
    assert letters.read_text() == "dear"

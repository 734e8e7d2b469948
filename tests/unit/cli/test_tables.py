"""What people see in tables, and what a pipe gets."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.cells import cell_len

from leveret.cli.overview_commands import NODES
from leveret.cli.tables import (
    Column,
    count,
    cut,
    duration,
    fitted,
    name,
    print_facts,
    print_table,
    printable,
    rate,
    size,
    text,
    value_at,
)

COLUMNS = (Column("name", "name"), Column("ready", "ready", count), Column("in", "stats.in.rate", rate))


class Terminal(StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def drawn(
    rows: list[dict[str, object]], out: StringIO | None = None, columns: tuple[Column, ...] = COLUMNS
) -> list[str]:
    out = out or StringIO()
    print_table(columns, rows, "nothing", out)
    return out.getvalue().splitlines()


def test_a_pipe_gets_whole_names_and_nothing_but_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    long = "x" * 300
    lines = drawn([{"name": long, "ready": 7, "stats": {"in": {"rate": 1.25}}}, {"name": "b", "ready": 1234}])
    assert lines[0].split() == ["name", "ready", "in"]
    assert lines[1].split() == [long, "7", "1.2/s"]
    assert lines[2].split() == ["b", "1234", "-"]
    assert "\x1b" not in "".join(lines)


def test_numbers_stand_to_the_right_and_text_to_the_left() -> None:
    lines = drawn([{"name": "a", "ready": 5}, {"name": "bcd", "ready": 12345}])
    assert [line[:12] for line in lines] == ["name  ready ", "a         5 ", "bcd   12345 "]


def test_alarms_of_nodes_are_coloured_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    rows: list[dict[str, object]] = [{"name": "a", "alarms": ["memory", "disk"]}, {"name": "b", "alarms": []}]
    _, alarmed, quiet = drawn(rows, Terminal(), NODES)
    assert alarmed.endswith("  \x1b[1;31mmemory, disk\x1b[0m")
    assert "\x1b" not in quiet
    assert "\x1b" not in "".join(drawn(rows, None, NODES))


@pytest.mark.parametrize("width", [40, 60, 79])
def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows: list[dict[str, object]] = [{"name": "orders." + "é" * 90 + ".retry", "ready": 123456}, {"name": "語" * 50}]
    lines = drawn(rows, Terminal())
    assert lines[0].startswith("\x1b[1mname")
    assert max(map(cell_len, lines[1:])) <= width
    assert lines[1].startswith("orders.")
    assert ".retry  123456" in lines[1]
    assert "…" in lines[1]


def test_what_does_not_fit_at_all_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = drawn([{"name": "x" * 40, "ready": 123456}], Terminal())
    assert lines[1].endswith("  123456")
    assert capsys.readouterr().err == "Columns that do not fit: in\n"


def test_an_empty_table_says_what_to_do_and_leaves_the_pipe_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert drawn([]) == []
    assert capsys.readouterr().err == "nothing\n"


def test_names_of_others_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    evil = "a\x1b[2Jb\r\nc\u202ed"
    for out in (StringIO(), Terminal()):
        lines = drawn([{"name": evil}], out)
        assert len(lines) == 2
        assert lines[1].startswith("a\\x1b[2Jb\\r\\nc\\u202ed")
    out = StringIO()
    print_facts(COLUMNS, {"name": evil}, out)
    assert out.getvalue().splitlines()[0] == "name   a\\x1b[2Jb\\r\\nc\\u202ed"


@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [("short", 5, "short"), ("abcdefghij", 7, "abc…hij"), ("abcdefghij", 6, "abc…ij"), ("語語語語語", 7, "語…語")],
)
def test_a_long_name_loses_its_middle(value: str, width: int, expected: str) -> None:
    assert cut(value, width) == expected
    assert cell_len(cut(value, width)) <= width


def test_the_widest_text_gives_first_and_numbers_never() -> None:
    assert fitted([10, 50, 40, 8], [False, False, False, True], 80) == [10, 28, 28, 8]
    assert fitted([10, 8], [False, True], 80) == [10, 8]
    assert fitted([100, 30, 8], [False, True, True], 40) == [40]
    assert fitted([100, 9, 30], [False, True, True], 40) == [29, 9]
    assert fitted([100], [False], 5) == [20]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (text(None), "-"),
        (text(True), "yes"),
        (text([]), "-"),
        (text(["a", "b"]), "a, b"),
        (text({"x": "ö"}), '{"x": "ö"}'),
        (name(""), "(AMQP default)"),
        (count(0), "0"),
        (rate(0.04), "0.0/s"),
        (size(1023), "1023 B"),
        (size(1536), "1.5 KiB"),
        (size(5 << 40), "5.0 TiB"),
        (duration(59.4), "59 s"),
        (duration(3599), "59 min"),
        (duration(90 * 60), "1 h 30 min"),
        (duration(50 * 3600), "2 d 2 h"),
        (duration(None), "-"),
        (printable("plain ö"), "plain ö"),
    ],
)
def test_values_are_shown_as_people_write_them(shown: str, expected: str) -> None:
    assert shown == expected


def test_a_path_that_leads_nowhere_is_none() -> None:
    assert value_at({"a": {"b": 1}}, "a.b") == 1
    assert value_at({"a": 1}, "a.b.c") is None

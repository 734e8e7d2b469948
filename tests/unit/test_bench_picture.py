"""The picture of the benchmarks: which figures it takes from the results, and that it can be drawn from them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.picture import PICTURE, SHOWN, Pair, main, newest

MACHINE = {"processor": "A <fast> one", "cores": 2, "memory_gb": 24, "system": "Linux"}


def figure(broker: str, scenario: str, rate: float, **more: object) -> dict[str, object]:
    label = f"{broker} {scenario} round 1"
    return {"label": label, "mode": "flow", "recv_rate": rate, "broker_cpu_s_per_M": 1000 / rate, **more}


def write(folder: Path, name: str, date: str, *lines: dict[str, object]) -> None:
    head = {"machine": MACHINE, "date": date}
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)))


def both(rate: float) -> list[dict[str, object]]:
    return [
        figure(broker, scenario, rate * times)
        for scenario in SHOWN
        for broker, times in (("leveret", 4), ("rabbitmq", 1))
    ]


def test_the_newest_file_with_both_brokers_counts(tmp_path: Path) -> None:
    write(tmp_path, "z.jsonl", "2026-01-01T00:00:00", *both(10))
    write(tmp_path, "b.jsonl", "2026-01-02T00:00:00", *both(20))
    write(tmp_path, "a.jsonl", "2026-01-03T00:00:00", *(figure("leveret", scenario, 1) for scenario in SHOWN))
    found = newest(tmp_path)
    assert found is not None
    head, rows = found
    assert head["date"] == "2026-01-02T00:00:00"
    assert [(row.title, row.rate) for row in rows] == [(title, Pair(80, 20, "/s")) for title in SHOWN.values()]


def test_medians_are_of_counted_rounds_of_the_last_run_with_both(tmp_path: Path) -> None:
    spoiled = figure("leveret", "a16", 999, not_counted="not ok")
    later = {"machine": MACHINE, "date": "2026-01-01T01:00:00"}
    ours = [figure("leveret", "a16", rate) for rate in (300, 100, 200)]
    last = [{**later, "date": "2026-01-01T02:00:00"}, figure("leveret", "a16", 7)]
    write(tmp_path, "a.jsonl", "2026-01-01", *both(10), later, *ours, spoiled, figure("rabbitmq", "a16", 50), *last)
    found = newest(tmp_path)
    assert found is not None
    assert found[1][0].rate == Pair(200, 50, "/s")
    assert found[1][1].rate == Pair(40, 10, "/s")


def test_the_picture_is_drawn_and_names_date_and_machine(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "2026-01-02T00:00:00", *both(10))
    target = tmp_path / "picture.svg"
    assert main(["--results", str(tmp_path), "--output", str(target)]) == 0
    words = " ".join(ElementTree.parse(target).getroot().itertext())
    for expected in ("2026-01-02", "A <fast> one", "40.0/s", "25.0 us", *SHOWN.values()):
        assert expected in words


def test_without_results_of_both_there_is_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a.jsonl", "2026-01-02", figure("leveret", "a16", 1))
    assert main(["--results", str(tmp_path), "--output", str(tmp_path / "picture.svg")]) == 2
    assert "run `make bench`" in capsys.readouterr().err


def test_the_committed_picture_can_be_read() -> None:
    assert ElementTree.parse(PICTURE).getroot().tag.endswith("svg")

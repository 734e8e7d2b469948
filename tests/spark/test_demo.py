"""The parts of `make demo` that can be judged without a minute of it."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from examples.demo import chart, orders

REPOSITORY = Path(__file__).parents[2]


def test_a_missing_java_is_told_before_anything_starts(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    command = [sys.executable, "-m", "examples.demo", "--chart", str(tmp_path / "chart.html")]
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("demo: Spark needs Java 17 or newer, but java is not on PATH: install it (Debian")
    assert "openjdk-17-jre-headless" in done.stderr
    assert not (tmp_path / "chart.html").exists()


def test_orders_are_json_and_their_key_is_the_customer() -> None:
    dice = random.Random(1)
    made = [orders.order(dice) for _ in range(500)]
    for key, body in made:
        order = json.loads(body)
        assert key == order["customer"]
        assert order["total"] == pytest.approx(sum(orders.GOODS[line["item"]] * line["n"] for line in order["lines"]))
    assert len({key for key, _ in made}) > 50
    assert orders.rate_at(30, 100) > 2 * orders.rate_at(20, 100)


def test_a_chart_has_a_line_for_each_name_within_its_axes() -> None:
    lines = {"a & b": [(0.0, 0.0), (3.0, 90.0), (6.0, 30.0)], "c": [(3.0, 7.0)]}
    drawn = ElementTree.fromstring(chart.svg(lines))
    found = drawn.findall("polyline")
    assert len(found) == 2
    for line in found:
        for x, y in re.findall(r"([\d.]+),([\d.]+)", line.attrib["points"]):
            assert chart.LEFT <= float(x) <= chart.WIDTH
            assert chart.TOP <= float(y) <= chart.HEIGHT - chart.BOTTOM
    assert "a & b" in [text.text for text in drawn.findall("text")]
    assert "<script" not in chart.page("<script>", {"x": lines}, ["<script>"])


def test_a_chart_of_nothing_is_an_empty_chart() -> None:
    assert ElementTree.fromstring(chart.svg({})).findall("polyline") == []


@pytest.mark.parametrize(("value", "top"), [(0, 1), (0.3, 0.4), (1, 1), (7, 8), (90, 100), (101, 200), (450, 500)])
def test_an_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert chart.nice(value) == pytest.approx(top)

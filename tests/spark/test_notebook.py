"""The notebook of the examples runs as it stands, and its charts show what is in the queue."""

from __future__ import annotations

import json
import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.spark_broker import SparkBroker

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "orders.py"
SVG = "{http://www.w3.org/2000/svg}"


def bars(path: Path) -> list[str]:
    return [str(bar.text) for bar in ElementTree.parse(path).findall(f"{SVG}rect/{SVG}title")]


@pytest.mark.usefixtures("spark")
def test_the_notebook_draws_what_is_in_the_queue(
    broker: SparkBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A classic queue, whose messages have no time of arrival."""
    queue = broker.queue("noted")
    for key, totals in (("order.<paid>", [10, 20, 120]), ("order.open", [70])):
        broker.channel.queue_bind(queue, "amq.topic", key)
        broker.publish(key, [json.dumps({"total": total}) for total in totals], exchange="amq.topic")
    broker.publish(queue, ["no JSON"])
    for name, value in (("ENDPOINT", broker.endpoint), ("QUEUE", queue)):
        monkeypatch.setenv(f"LEVERET_{name}", value)
    monkeypatch.setenv("CHARTS_FOLDER", str(tmp_path))
    runpy.run_path(str(NOTEBOOK))
    assert sorted(bars(tmp_path / "messages.svg")) == sorted([f"{queue} 1", "order.<paid> 3", "order.open 1"])
    assert bars(tmp_path / "totals.svg") == ["orders 2", "orders 1", "orders 1"]
    assert len(broker.bodies(queue)) == 5, "reading does not consume"

"""Spark's side of the sink without Spark: waits are logged, stages are renewed, and the code of the guide runs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest

import leveret
from leveret.clock import FrozenClock
from leveret.config import Settings
from leveret.pipeline.stages import LIFETIME
from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused
from leveret.spark.options import Access, connection_options
from leveret.spark.stage_renewal import StageRenewal
from leveret.spark.upload import answers_to, pieces_of
from tests.support.http_api import HttpApi
from tests.support.raw_client import eventually
from tests.support.sink_requests import STAGES, rows, staged

SETTINGS = Settings(amqp_port=None, http_port=0, stomp_port=None, data_dir=None, shutdown_timeout=2.0)
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "sink.md"
pytestmark = pytest.mark.broker(storage=("memory",), fresh=True)
QUERY = {"exchange": "", "routing_key": "q"}


def access_to(broker: leveret.Broker, **options: str) -> Access:
    return connection_options({"endpoint": broker.http_url, **options})


def test_a_client_tells_how_long_it_waited_and_why(
    broker: leveret.Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.vhost().declare_queue("q", durable=True)
    broker.call(lambda: broker.node.broker.set_alarm("memory", "memory is above its high watermark"))
    with BrokerClient(access_to(broker, retrySeconds="0")) as client:
        with pytest.raises(BrokerRefused, match="publishers are blocked: memory is above its high watermark"):
            client.send_arrow("messages", QUERY, memoryview(rows(1)))
    end_alarm = lambda seconds: broker.call(lambda: broker.node.broker.set_alarm("memory", None))  # noqa: E731
    monkeypatch.setattr("leveret.spark.broker_client.time.sleep", end_alarm)
    with caplog.at_level(logging.WARNING), BrokerClient(access_to(broker)) as client:
        assert client.send_arrow("messages", QUERY, memoryview(rows(1)))["messages"] == 1
    (reason,) = client.waits.seconds
    assert "memory is above its high watermark" in reason
    assert client.waits.seconds[reason] > 0
    told = [record.getMessage() for record in caplog.records if record.name == "leveret.spark.broker_client"]
    assert told[0] == f"waiting for the broker: {reason}"
    assert re.fullmatch(r"waited \d+\.\d s for the broker: .*high watermark.*", told[1])


def test_a_task_renews_the_stages_of_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = 0
    post = BrokerClient.post

    def counted(self: BrokerClient, path: str, value: object, query: object = ()) -> dict[str, object]:
        nonlocal renewed
        answer = post(self, path, value, query)  # type: ignore[arg-type]
        assert answer == {"renewed": 1}
        renewed += 1
        return answer

    monkeypatch.setattr(BrokerClient, "post", counted)
    with leveret.Broker(SETTINGS, clock=FrozenClock()) as broker:
        broker.vhost().declare_queue("q", durable=True)
        api = HttpApi(broker.http_url)
        stage = staged(api, rows(1))
        with StageRenewal(access_to(broker), "T", 0.01):
            for _ in range(3):
                broker.clock.advance(LIFETIME - 1)
                before = renewed
                eventually(lambda before=before: renewed >= before + 2)  # type: ignore[misc]
        assert [each["stage"] for each in api.get(STAGES)[1]["stages"]] == [stage]


def test_the_next_piece_is_made_while_one_is_sent() -> None:
    order: list[str] = []
    batch = pa.record_batch({"body": pa.array([b"a"])})

    def batches() -> object:
        for number in range(3):
            order.append(f"made {number}")
            yield batch

    answers = answers_to(pieces_of(batches(), most_bytes=1), lambda piece: {"n": len(piece)})  # type: ignore[arg-type]
    first = next(answers)
    assert first["n"]
    assert order == ["made 0", "made 1"], "the second piece is there when the first is answered"
    assert len([*answers]) == 2


def test_an_error_of_one_piece_ends_the_upload() -> None:
    def send(piece: memoryview) -> dict[str, object]:
        raise BrokerRefused("POST stages", 409, {"reason": "no"})

    batch = pa.record_batch({"body": pa.array([b"a"])})
    with pytest.raises(BrokerRefused, match="no"):
        [*answers_to(pieces_of(iter([batch, batch]), most_bytes=1), send)]


def test_the_examples_of_the_sink_page_run(broker: leveret.Broker) -> None:
    pytest.importorskip("requests")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        code = block.replace("http://127.0.0.1:15672", broker.http_url.rstrip("/"))
        exec(code, names)  # noqa: S102  the guide is ours
    assert names["stage"]["messages"] == 2  # type: ignore[index]
    assert names["answer"]["unroutable"] == 2  # type: ignore[index]

"""Messages published over HTTP to a queue of another cell, whose answer the test gives."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from leveret import Broker
from tests.support.cell_clients import until
from tests.support.http_objects import ObjectsApi
from tests.support.remote_queues import ManualLog, make_remote

pytestmark = pytest.mark.broker


def refuse(log: ManualLog) -> None:
    log.waiting.pop().receipts[0].refused([0])


def lose_the_link(log: ManualLog) -> None:
    log.waiting.pop().receipts[0].unanswered()


@pytest.mark.parametrize(
    ("answer", "status", "part"),
    [
        (ManualLog.let_in, 200, {"routed": True}),
        (ManualLog.lose, 200, {"routed": False}),
        (refuse, 400, {"error": "bad_request"}),
        (lose_the_link, 503, {"error": "not_confirmed"}),
    ],
)
def test_a_publish_to_another_cell_returns_its_answer(
    broker: Broker, answer: Callable[[ManualLog], None], status: int, part: dict[str, Any]
) -> None:
    api = ObjectsApi(broker.http_url)
    api.declare_queue("far", durable=True)
    log = broker.call(lambda: make_remote(broker.node.broker.vhost("/"), "far"))
    message = {"properties": {}, "routing_key": "far", "payload": "m", "payload_encoding": "string"}
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(api.post, api.at("exchanges", "amq.default", "/publish"), message)
        until(lambda: broker.call(lambda: bool(log.waiting)) or posting.done())
        assert not posting.done()
        broker.call(lambda: answer(log))
        got, body = posting.result(60)
    assert (got, body | part) == (status, body)
    api.delete(api.at("queues", "far"))

"""CWE-770, allocation of resources without limits: names of readers are kept for good, and need no more than read
permission; so they are bounded, and can be deleted."""

from __future__ import annotations

import pytest

import leveret
from leveret.broker import leases, stream_offsets
from leveret.wire.methods import BasicCancel, BasicCancelOk, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk
from leveret.wire.properties import Properties
from tests.support.http_api import HttpApi, vhost_path
from tests.support.raw_client import RawClient

CONSUMERS, LEASES = vhost_path("consumers"), vhost_path("leases")
MOST = 3


pytestmark = pytest.mark.broker(storage="disk", fresh=True)


@pytest.fixture
def broker(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> leveret.Broker:
    monkeypatch.setattr(stream_offsets, "MOST_OF_A_STREAM", MOST)
    monkeypatch.setattr(leases, "MOST_CONSUMERS", MOST)
    broker.vhost().declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    broker.vhost().declare_queue("q", durable=True)
    return broker


def test_names_of_the_readers_of_a_stream_are_bounded_over_http(broker: leveret.Broker) -> None:
    api = HttpApi(broker.http_url)
    names = [{"queue": "s", "consumer": str(number), "offset": 0} for number in range(MOST + 1)]
    assert [api.put(CONSUMERS, name)[0] for name in names] == [200] * MOST + [409]
    assert api.put(CONSUMERS, names[0])[0] == 200, "one that is known"
    assert api.delete(CONSUMERS, queue="s", consumer="0")[0] == 200
    assert api.put(CONSUMERS, names[MOST])[0] == 200


def test_names_of_the_readers_of_a_stream_are_bounded_over_amqp(broker: leveret.Broker) -> None:
    api = HttpApi(broker.http_url)
    for number in range(MOST):
        assert api.put(CONSUMERS, {"queue": "s", "consumer": str(number), "offset": 0})[0] == 200
    with RawClient.open(broker.amqp_url) as client:
        client.call(BasicQos(prefetch_count=1), BasicQosOk)
        known = BasicConsume("s", "tag", arguments={"x-stream-consumer": "0"})
        client.call(known, BasicConsumeOk)
        client.call(BasicCancel("tag"), BasicCancelOk)
        client.send(BasicConsume("s", "tag", arguments={"x-stream-consumer": "new"}))
        closed = client.expect_channel_close(406)
        assert f"stream 's' has stored offsets of {MOST} consumers" in closed.reply_text


def test_names_of_the_consumers_of_leases_are_bounded(broker: leveret.Broker) -> None:
    api, vhost = HttpApi(broker.http_url), broker.vhost()
    for number in range(MOST + 1):
        vhost.publish("", "q", b"message", Properties(delivery_mode=2))
        asked = {"queue": "q", "consumer": str(number), "max_messages": 1}
        status, answer = api.post(LEASES, asked)
        assert status == (200 if number < MOST else 409), answer
        if status == 200:
            commit = {"queue": "q", "consumer": str(number), "through": 1}
            assert api.post(f"{LEASES}/commit", commit) == (200, {"committed": 1, "messages": 1})
    assert api.delete(LEASES, queue="q", consumer="0")[0] == 200
    assert api.post(LEASES, {"queue": "q", "consumer": "new", "max_messages": 1})[1]["messages"] == 1

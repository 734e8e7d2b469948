"""A fetch over HTTP takes no more than it should: of memory, of the loop, of anybody's patience."""

from __future__ import annotations

import gc
import http.client
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import leveret
from leveret.embedded_vhost import EmbeddedVhost
from leveret.pipeline.arrow_streams import StreamFetch
from tests.support.http_api import QUIET, HttpApi, arrow_stream, located, vhost_path
from tests.support.raw_client import eventually

STREAM = {"x-queue-type": "stream"}
MESSAGES = vhost_path("messages")


pytestmark = pytest.mark.broker(fresh=True)


ALL_JOBS = 9  # at least, for 60,000 messages of a kilobyte: two looks for Arrow, then at most 8 MiB each


def big_stream(api: HttpApi, vhost: EmbeddedVhost, number: int) -> None:
    vhost.declare_queue("s", durable=True, arguments=STREAM)
    batch = pa.record_batch({"body": pa.array([bytes(1000)] * 10_000)})
    for _ in range(number // 10_000):
        assert api.post(MESSAGES, arrow_stream(batch), exchange="", routing_key="s")[0] == 200


def counted_jobs(broker: leveret.Broker) -> list[object]:
    """Grows with every job that goes to the threads."""
    jobs: list[object] = []
    harness = broker.node.pipeline
    plain = harness.in_worker

    async def counted(job: Any) -> Any:
        jobs.append(job)
        return await plain(job)

    harness.in_worker = counted  # type: ignore[method-assign]
    return jobs


def test_a_client_that_goes_away_ends_its_fetch(broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost) -> None:
    big_stream(api, vhost, 60_000)
    jobs = counted_jobs(broker)
    connection = api.connect()
    connection.request("GET", located(MESSAGES, {"queue": "s"}), headers=api.headers)
    response = connection.getresponse()
    assert response.read(1000)
    connection.close()
    response.close()
    http_server = broker.node._http
    assert http_server is not None
    assert http_server._connections is not None
    state = http_server._connections.state
    eventually(lambda: not broker.call(lambda: state.tasks))
    assert len(jobs) < ALL_JOBS


def test_a_client_that_reads_nothing_holds_few_batches(
    broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost
) -> None:
    """Building stops until it reads; then it gets all."""
    big_stream(api, vhost, 60_000)
    jobs = counted_jobs(broker)
    connection = api.connect()
    connection.request("GET", located(MESSAGES, {"queue": "s", "columns": "body"}), headers=api.headers)
    harness = broker.node.pipeline
    eventually(lambda: jobs and not broker.call(lambda: harness._jobs))
    assert len(jobs) < ALL_JOBS
    response = connection.getresponse()
    assert pa.ipc.open_stream(response).read_all().num_rows == 60_000
    assert len(jobs) >= ALL_JOBS
    connection.close()


@pytest.fixture
def small_heap() -> Iterator[None]:
    """What earlier tests of the process left is not collected."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("small_heap")
def test_no_callback_of_a_big_fetch_holds_the_loop(broker: leveret.Broker, api: HttpApi, vhost: EmbeddedVhost) -> None:
    """At most 20 ms of the loop's own time in one go, measured between two looks at its clock."""
    big_stream(api, vhost, 50_000)
    api.table(MESSAGES, queue="s", to=10)  # what is loaded once is loaded
    loop = broker._loop
    assert loop is not None
    spent: list[float] = []
    is_over = threading.Event()

    def tick(before: float) -> None:
        now = time.thread_time()
        spent.append(now - before)
        if not is_over.is_set():
            loop.call_soon(tick, now)

    loop.call_soon_threadsafe(lambda: tick(time.thread_time()))
    for query in ({"queue": "s"}, {"queue": "s", "routing_key": "nothing"}):
        assert api.send("GET", located(MESSAGES, query))[0].status == 200
    is_over.set()
    assert len(spent) > 100
    assert max(spent) < 0.02


def test_an_answer_that_breaks_in_the_middle_is_not_taken_for_whole(
    api: HttpApi, vhost: EmbeddedVhost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    big_stream(api, vhost, 30_000)
    whole, calls = StreamFetch.step, []

    def broken(fetch: StreamFetch) -> list[pa.RecordBatch]:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the disk is gone")
        return whole(fetch)

    monkeypatch.setattr(StreamFetch, "step", broken)
    with pytest.raises(http.client.IncompleteRead):
        api.send("GET", located(MESSAGES, {"queue": "s"}))
    assert "internal error while sending a response" in caplog.text


@pytest.mark.parametrize("reads", [True, False])
def test_a_stop_lets_a_fetch_under_way_end_but_not_for_ever(reads: bool) -> None:
    running = leveret.Broker(replace(QUIET, shutdown_timeout=20.0 if reads else 1.0)).start()
    api = HttpApi(running.http_url)
    big_stream(api, running.vhost(), 60_000)
    connection = api.connect()
    connection.request("GET", located(MESSAGES, {"queue": "s", "columns": "body"}), headers=api.headers)
    response = connection.getresponse()
    stopping = threading.Thread(target=running.stop)
    stopping.start()
    try:
        if reads:
            assert pa.ipc.open_stream(response).read_all().num_rows == 60_000
        stopping.join(15)
        assert not stopping.is_alive()
    finally:
        connection.close()
        stopping.join()
    with pytest.raises(ConnectionRefusedError):
        api.get("/")

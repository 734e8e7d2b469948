"""HTTP to brokers that are elsewhere, away, or come back."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from leveret.spark import SCHEMA
from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused, BrokerUnreachable
from leveret.spark.fetch import Fetch, RangePartition, SlicePartition
from leveret.spark.options import Access, connection_options
from leveret.spark.shape import Shape
from tests.support.broker_process import BrokerProcess
from tests.support.cell_ports import free_ports
from tests.support.chaos_proxy import ChaosProxy
from tests.support.spark_broker import SparkBroker, eventually

WHOLE = Shape(SCHEMA, headers=False)


def free_port() -> int:
    return free_ports(1)[0]


def test_endpoints_are_tried_in_turn(broker: SparkBroker) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    access = connection_options({"endpoint": f"{dead},{broker.endpoint}"})
    queue = broker.queue("second")
    with BrokerClient(access) as client:
        for _ in range(2):
            [source] = client.get("sources", {"queue": queue})["sources"]  # type: ignore[misc]
            assert source["queue"] == queue


@contextmanager
def proxied(broker: SparkBroker) -> Iterator[tuple[ChaosProxy, Callable[[], None]]]:
    """A second address of the broker, and a function that takes it away."""
    proxy, loop = ChaosProxy(broker.endpoint), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def end() -> None:
        await proxy.refuse()
        proxy.cut()

    def take_away() -> None:
        asyncio.run_coroutine_threadsafe(end(), loop).result(60)

    try:
        asyncio.run_coroutine_threadsafe(proxy.listen(), loop).result(60)
        yield proxy, take_away
        take_away()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_query_goes_on_with_the_other_endpoint(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> None:
    """The one that the driver, its readers and the tasks have used so far is away from one moment to the next."""
    source, target = broker.queue("in", "ab"), broker.queue("out")
    got: list[bytes] = []

    def arrived(number: int) -> bool:
        got.extend(broker.bodies(target))
        return len(got) >= number

    with proxied(broker) as (proxy, take_away):
        endpoints = f"http://127.0.0.1:{urlsplit(proxy.url).port},{broker.endpoint}"
        read = spark.readStream.format("leveret").options(endpoint=endpoints, queue=source, consumerName="two")
        written = read.load().select("body").writeStream.format("leveret").options(endpoint=endpoints, exchange="")
        query = written.option("routingKey", target).option("checkpointLocation", str(tmp_path)).start()
        try:
            eventually(lambda: arrived(2), 60)
            assert proxy.accepted
            take_away()
            broker.publish(source, "cd")
            eventually(lambda: arrived(4), 60)
            assert query.isActive
        finally:
            query.stop()
    assert sorted(got) == [b"a", b"b", b"c", b"d"]


def test_a_broker_that_is_away_is_named_with_the_remedy() -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    access = connection_options({"endpoint": dead, "retrySeconds": "0"})
    with BrokerClient(access) as client, pytest.raises(BrokerUnreachable) as caught:
        client.get("sources", {"queue": "q"})
    assert f"no answer from {dead} for 0 seconds (ConnectionRefusedError" in str(caught.value)
    assert "timeoutSeconds and retrySeconds" in str(caught.value)


def test_a_broker_that_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        options = {"endpoint": f"http://127.0.0.1:{port}", "retrySeconds": "0", "timeoutSeconds": "1"}
        with (
            BrokerClient(connection_options(options)) as client,
            pytest.raises(BrokerUnreachable, match="TimeoutError"),
        ):
            client.get("sources")


def test_a_wrong_password_is_refused_and_not_shown(broker: SparkBroker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hunter2\n")
    access = connection_options({"endpoint": broker.endpoint, "credentialsFile": str(tmp_path / "file")})
    with BrokerClient(access) as client, pytest.raises(BrokerRefused) as caught:
        client.get("sources", {"queue": "q"})
    assert caught.value.status == 401
    assert "hunter2" not in str(caught.value)


class Restarting:
    """A broker of this test alone, which can be killed and come back at its place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = str(free_port())
        self.serving = self._start()
        self.amqp, self.http = self.serving.url("amqp"), self.serving.url("http")

    @property
    def access(self) -> Access:
        return connection_options({"endpoint": self.http, "retrySeconds": "30"})

    def _start(self) -> BrokerProcess:
        serving = BrokerProcess(self._folder, "--http-port", self._port)
        serving.banner()
        return serving

    def kill_and_restart(self) -> None:
        self.serving.process.send_signal(signal.SIGKILL)
        self.stop()
        self.serving = self._start()

    def stop(self) -> None:
        self.serving.__exit__(None, None, None)


@contextmanager
def restarting(folder: Path) -> Iterator[Restarting]:
    broker = Restarting(folder)
    try:
        yield broker
    finally:
        broker.stop()


def test_a_fetch_goes_on_behind_what_arrived_when_the_broker_is_killed(tmp_path: Path) -> None:
    with restarting(tmp_path) as ours:
        with SparkBroker(ours.amqp, ours.http) as known:
            wanted = [f"{n:03}".encode() for n in range(60)]
            stream = known.stream("long", [name + b"x" * (1 << 20) for name in wanted])
            queue = known.queue("leased", [name + b"x" * (1 << 20) for name in wanted])
            known.ask("POST", "%2F/leases", {"consumer": "c", "queue": queue, "after": 0, "max_messages": 60})
        fetch = Fetch(ours.access, WHOLE)
        for batches in (
            fetch.range(RangePartition(stream, 0, 0, 60, skip_missing=False)),
            fetch.slice(SlicePartition(queue, "c", 1, 0, 1)),
        ):
            first = next(batches)
            assert first.num_rows < 60
            ours.kill_and_restart()
            rows = [body[:3] for batch in (first, *batches) for body in batch.column("body").to_pylist()]
            assert rows == wanted


def test_a_kept_connection_survives_a_restart_of_the_broker(tmp_path: Path) -> None:
    with restarting(tmp_path) as ours, BrokerClient(replace(ours.access, retry_seconds=0)) as client:
        assert client.get("/queries") == {"queries": []}
        ours.kill_and_restart()
        assert client.get("/queries") == {"queries": []}

"""Reads from the home cell of a queue, and what happens when it cannot be reached; endpoints that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from leveret.spark import SCHEMA, broker_client
from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused
from leveret.spark.fetch import Fetch, RangePartition
from leveret.spark.options import Access, Home, connection_options, endpoint_of
from leveret.spark.shape import Shape
from tests.support.spark_broker import SparkBroker


class Stub:
    """An HTTP server with one answer; ``requests`` are the values of the header Leveret-Cell."""

    def __init__(self, status: int, identity: str | None) -> None:
        self.requests: list[str | None] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.requests.append(self.headers.get("Leveret-Cell"))
                self.send_response(status)
                if identity is not None:
                    self.send_header("Leveret-Cell", identity)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def home(self, identity: str = "c2-token") -> Home:
        return Home(endpoint_of(self.url), identity)


@contextmanager
def serving(status: int = 200, identity: str | None = None) -> Iterator[Stub]:
    stub = Stub(status, identity)
    thread = Thread(target=stub.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        stub.server.shutdown()
        thread.join()
        stub.server.server_close()


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    broker_client._preferred.clear()
    broker_client._avoided.clear()


def access_to(*stubs: Stub, **options: str) -> Access:
    return connection_options({"endpoint": ",".join(stub.url for stub in stubs), "retrySeconds": "5", **options})


def test_the_home_cell_is_asked_first_and_by_its_identity() -> None:
    with (
        serving(identity="c2-token") as home,
        serving() as first,
        BrokerClient(access_to(first), home.home()) as client,
    ):
        client.get("sources")
        client.get("sources")
        assert (home.requests, first.requests) == (["c2-token", "c2-token"], [])


@pytest.mark.parametrize(
    ("status", "identity"),
    [(200, None), (200, "c2-other"), (404, None), (421, None), (503, "c2-token"), (410, "c2-token")],
)
def test_whatever_else_answers_at_its_address_the_endpoints_are_asked(status: int, identity: str | None) -> None:
    with serving(status, identity) as other, serving() as first:
        for _ in range(2):
            with BrokerClient(access_to(first), other.home()) as client:
                client.get("sources")
        assert (other.requests, first.requests) == (["c2-token"], [None, None])  # not tried again for a while


def test_a_home_cell_that_does_not_listen_costs_no_retry() -> None:
    with serving() as first:
        with serving() as gone:
            home = gone.home()
        with BrokerClient(replace(access_to(first), retry_seconds=0), home) as client:
            client.get("sources")
        assert first.requests == [None]


def test_the_option_direct_turns_it_off() -> None:
    with serving(identity="c2-token") as home, serving() as first:
        with BrokerClient(access_to(first, direct="false"), home.home()) as client:
            client.get("sources")
        assert (home.requests, first.requests) == ([], [None])


def test_an_error_of_the_endpoint_is_final(broker: SparkBroker) -> None:
    """A single broker refuses what is meant for a cell; asked as an endpoint, it says what is wrong."""
    access = connection_options({"endpoint": broker.endpoint})
    with BrokerClient(access, Home(endpoint_of(broker.endpoint), "c2-token")) as client:
        with pytest.raises(BrokerRefused) as caught:
            client.get("sources", {"queue": "no such queue"})
        assert caught.value.status == 404


def test_a_fetch_goes_by_the_endpoints_if_another_broker_listens_at_the_home(broker: SparkBroker) -> None:
    stream = broker.stream("read", [b"1", b"2"])
    home = Home(endpoint_of(broker.endpoint), "c2-token")
    fetch = Fetch(connection_options({"endpoint": broker.endpoint}), Shape(SCHEMA, headers=False))
    wanted = RangePartition(stream, 0, 0, 2, skip_missing=False, home=home)
    assert [body for batch in fetch.range(wanted) for body in batch.column("body").to_pylist()] == [b"1", b"2"]
    assert home in broker_client._avoided


def test_the_endpoint_that_worked_is_the_first_for_the_next_client() -> None:
    with serving(503) as away, serving() as good:
        for _ in range(3):
            with BrokerClient(access_to(away, good)) as client:
                client.get("sources")
        assert (len(away.requests), len(good.requests)) == (1, 3)


def test_endpoints_without_a_leader_are_retried_in_turn_until_the_time_is_over() -> None:
    with serving(503) as one, serving(503) as other, BrokerClient(access_to(one, other, retrySeconds="1")) as client:
        with pytest.raises(BrokerRefused, match="503"):
            client.get("sources")
        assert len(one.requests) >= 2
        assert len(other.requests) >= 2

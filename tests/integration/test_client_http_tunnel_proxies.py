"""S3-03: a tunnel through a proxy that answers by itself while it does not reach the broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

import leveret
from leveret.client import ConnectionLost, connect, http_tunnel
from tests.support.http_api import QUIET
from tests.support.http_messages import next_message

NOT_REACHED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nno server"
NOT_NOW = b'{"error":"not_now","reason":"later"}'
OWN = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%b" % (len(NOT_NOW), NOT_NOW)


@pytest.fixture(scope="module")
def broker() -> Iterator[leveret.Broker]:
    with leveret.Broker(QUIET) as running:
        yield running


class Proxy:
    """Hands requests on, or gives ``answer`` to all of them."""

    def __init__(self, broker: leveret.Broker) -> None:
        where = urlsplit(broker.http_url)
        self._where = (where.hostname, where.port)
        self.answer = b""
        self.answered = 0
        self.goes_on_after = 0  # so many answers of our own, if it is not 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._where)
        try:
            while request := await next_message(reader):
                if self.answer and b"/api/tunnel/" in request:
                    self.answered += 1
                    writer.write(self.answer)
                    if self.answered == self.goes_on_after:
                        self.answer = b""
                else:
                    up_writer.write(request)
                    writer.write(await next_message(up_reader))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            up_writer.transport.abort()


def play(broker: leveret.Broker, story: Callable[[Proxy, str], Awaitable[None]]) -> None:
    async def work() -> None:
        proxy = Proxy(broker)
        async with proxy.listening() as url, asyncio.timeout(20):
            await story(proxy, url)

    asyncio.run(work())


@pytest.mark.feature("S3-03")
def test_a_proxy_that_does_not_reach_the_broker_is_not_asked_without_a_pause(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And if it stays so, the connection is lost."""
    monkeypatch.setattr(http_tunnel, "PAUSE", 0.02)
    monkeypatch.setattr(http_tunnel, "PATIENCE", 0.2)

    async def story(proxy: Proxy, url: str) -> None:
        connection = await connect(url)
        channel = await connection.channel()
        proxy.answer = NOT_REACHED
        with pytest.raises(ConnectionLost, match=r"(POST|GET) was answered with 503: no server"):
            await channel.declare_queue("never", exclusive=True)
        assert proxy.answered < 60, "two lines, ten times a second and line at most, and a goodbye"

    play(broker, story)


@pytest.mark.feature("S3-03")
def test_a_proxy_that_reaches_the_broker_again_in_time_is_no_loss(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_tunnel, "PAUSE", 0.01)

    async def story(proxy: Proxy, url: str) -> None:
        connection = await connect(url)
        channel = await connection.channel()
        proxy.goes_on_after, proxy.answer = 5, NOT_REACHED
        assert (await channel.declare_queue("q", exclusive=True)).queue == "q"
        await connection.close()

    play(broker, story)


@pytest.mark.feature("S3-03")
def test_a_broker_that_does_not_listen_for_now_is_no_failure(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is so."""
    monkeypatch.setattr(http_tunnel, "PATIENCE", 0.0)

    async def story(proxy: Proxy, url: str) -> None:
        connection = await connect(url)
        channel = await connection.channel()
        proxy.goes_on_after, proxy.answer = 20, OWN
        assert (await channel.declare_queue("q", exclusive=True)).queue == "q"
        await connection.close()

    play(broker, story)

"""Threads that publish while there is no broker, while it does not confirm, and right before their process ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import pytest

import leveret
from leveret.client import ConnectionLost, Happening, blocking, blocking_channel
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import QUICK, run
from tests.support.failover_connection import bodies_in

T = TypeVar("T")
MOMENT = 0.1  # seconds in which what must not happen would have happened


class Threads:
    """A blocking failover: connection through a proxy; the proxy's loop is the test's."""

    def __init__(self, proxy: ChaosProxy, options: str) -> None:
        self.proxy = proxy
        self._loop = asyncio.get_running_loop()
        self._options = options
        self.happened: asyncio.Queue[str] = asyncio.Queue()
        self._pool = ThreadPoolExecutor(2)

    async def open(self) -> None:
        uri = f"failover:({self.proxy.url})?{QUICK}{self._options}"
        self.connection = await self.do(lambda: blocking.connect(uri, listeners=[self._heard]))
        self.channel = await self.do(self.connection.channel)
        await self.do(lambda: self.channel.declare_queue("q"))

    def _heard(self, happening: Happening) -> None:
        self._loop.call_soon_threadsafe(self.happened.put_nowait, happening.kind)

    async def until(self, kind: str) -> None:
        while await self.happened.get() != kind:
            pass

    async def do(self, work: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._pool, work)

    def begin(self, work: Callable[[], T]) -> Future[T]:
        return self._pool.submit(work)

    async def lose(self) -> None:
        await self.proxy.refuse()
        self.proxy.cut()
        await self.until("lost")


async def is_waiting(begun: Future[T]) -> bool:
    done, _ = await asyncio.to_thread(wait, [begun], MOMENT)
    return not done


def play(broker: leveret.Broker, story: Callable[[Threads], object], options: str = "") -> None:
    async def work() -> None:
        async with ChaosProxy(broker.amqp_url) as proxy:
            threads = Threads(proxy, options)
            await threads.open()
            try:
                await story(threads)  # type: ignore[misc]
            finally:
                await threads.do(threads.connection.close)

    run(work)


@pytest.mark.parametrize("call", ["send", "publish"])
def test_without_confirms_a_thread_waits_until_there_is_a_broker(leveret_broker: leveret.Broker, call: str) -> None:
    """Else an outage would fill its memory."""

    async def story(threads: Threads) -> None:
        await threads.lose()
        sending = threads.begin(lambda: getattr(threads.channel, call)(b"a", routing_key="q"))
        assert await is_waiting(sending)
        await threads.proxy.listen()
        assert await asyncio.wrap_future(sending) is None
        await threads.do(lambda: threads.channel.qos(1))

    play(leveret_broker, story)
    assert bodies_in(leveret_broker, "q") == [b"a"]


@pytest.mark.parametrize("confirms", [False, True])
def test_a_thread_is_told_that_there_is_no_broker_for_too_long(leveret_broker: leveret.Broker, confirms: bool) -> None:
    """Nothing is dropped without a word."""

    async def story(threads: Threads) -> None:
        channel = threads.channel
        if confirms:
            await threads.do(channel.confirm_select)
        await threads.lose()
        for _ in range(2):
            with pytest.raises(ConnectionLost, match="check the broker, or raise the option 'timeout' to wait longer"):
                await threads.do(lambda: channel.publish(b"a", routing_key="q"))
        await threads.proxy.listen()
        await threads.until("reconnected")
        await threads.do(lambda: channel.publish(b"b", routing_key="q"))
        await threads.do(lambda: channel.qos(1))

    play(leveret_broker, story, "&timeout=20")
    assert bodies_in(leveret_broker, "q") == [b"b"]


def test_with_confirms_a_thread_waits_when_too_many_are_missing(
    leveret_broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_channel, "MOST_OPEN", 20)
    sent: list[object] = []

    async def story(threads: Threads) -> None:
        channel = threads.channel
        await threads.do(channel.confirm_select)
        await threads.lose()
        sending = threads.begin(lambda: sent.extend(channel.send(b"a", routing_key="q") for _ in range(100)))
        assert await is_waiting(sending)
        assert channel.core.confirms is not None
        assert channel.core.confirms.open <= 20
        await threads.proxy.listen()
        await asyncio.wrap_future(sending)
        assert channel.confirms is not None
        await threads.do(channel.confirms.all_settled)

    play(leveret_broker, story)
    assert len(sent) == 100
    assert bodies_in(leveret_broker, "q") == [b"a"] * 100


SCRIPT = """
import sys
from leveret.client import blocking
channel = blocking.connect(sys.argv[1]).channel()
channel.declare_queue("q")
for number in range(5_000):
    channel.send(b"%d" % number, routing_key="q")
"""


@pytest.mark.parametrize("uri", ["{}", "failover:({})"])
def test_a_process_that_ends_without_a_close_has_sent_everything(leveret_broker: leveret.Broker, uri: str) -> None:
    command = [sys.executable, "-W", "error", "-c", SCRIPT, uri.format(leveret_broker.amqp_url)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    assert bodies_in(leveret_broker, "q") == [b"%d" % number for number in range(5_000)]


def test_a_process_does_not_wait_for_ever_for_a_broker_that_says_nothing(leveret_broker: leveret.Broker) -> None:
    """The proxy stalls: the goodbye is not answered."""
    script = SCRIPT + "print('sent', flush=True)\nsys.stdin.read()\n"

    async def work() -> int | None:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", script, proxy.url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            assert process.stdout is not None
            assert await process.stdout.readline() == b"sent\n"
            proxy.stall()
            await process.communicate(b"")
            return process.returncode

    assert run(work) == 0

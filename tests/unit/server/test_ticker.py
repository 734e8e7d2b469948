"""When the broker's tick runs: once per iteration of the loop, at once after a sync, and after each full read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Self

import pytest

from leveret.server.amqp_protocol import FULL_READ, AmqpProtocol
from leveret.server.ticker import Ticker


class TickedBroker:
    """Counts ticks; each does all work."""

    def __init__(self) -> None:
        self.ticks = 0
        self.has_work = False

    def attach(self, loop: object) -> None: ...

    def tick(self) -> None:
        self.ticks += 1
        self.has_work = False


def woken(broker: TickedBroker, ticker: Ticker) -> None:
    broker.has_work = True
    ticker.wake()


Play = Callable[[TickedBroker, Ticker], None]


def ticks_of(play: Play) -> tuple[int, int]:
    """Ticks when ``play`` has ended, and an iteration of the loop later."""

    async def run() -> tuple[int, int]:
        broker = TickedBroker()
        play(broker, Ticker(asyncio.get_running_loop(), broker))  # type: ignore[arg-type]
        now = broker.ticks
        await asyncio.sleep(0)
        return now, broker.ticks

    return asyncio.run(run())


def test_a_broker_that_is_woken_ticks_once_in_the_next_iteration() -> None:
    assert ticks_of(lambda broker, ticker: [woken(broker, ticker) for _ in range(3)] and None) == (0, 1)


def test_a_call_that_wakes_the_broker_is_followed_by_its_tick_at_once() -> None:
    assert ticks_of(lambda broker, ticker: ticker.run(lambda: woken(broker, ticker))) == (1, 1)


def test_a_call_that_gives_the_broker_no_work_causes_no_tick() -> None:
    assert ticks_of(lambda _, ticker: ticker.run(lambda: None)) == (0, 0)


def test_a_tick_that_is_scheduled_already_serves_the_call_too() -> None:
    def play(broker: TickedBroker, ticker: Ticker) -> None:
        woken(broker, ticker)
        ticker.run(lambda: woken(broker, ticker))

    assert ticks_of(play) == (0, 1)


def test_a_call_that_fails_is_followed_by_its_tick_too() -> None:
    def play(broker: TickedBroker, ticker: Ticker) -> None:
        def fail() -> None:
            woken(broker, ticker)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            ticker.run(fail)

    assert ticks_of(play) == (1, 1)


class ReadingProtocol(AmqpProtocol):
    """Records what it does with its transport, whose socket has received ``waiting`` bytes more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_direct: bool, waiting: int = 0) -> None:
        super().__init__(SimpleNamespace(loop=loop))  # type: ignore[arg-type]
        self.is_direct = is_direct
        self.events: list[str] = []
        self.ours, self.peers = socket.socketpair()
        self.ours.setblocking(False)
        self.peers.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * FULL_READ)
        self.peers.sendall(bytes(waiting))
        self.socket = SimpleNamespace(is_closing=lambda: False, get_extra_info=lambda _: self.ours)
        self._transport = self.socket  # type: ignore[assignment]
        self.paused = SimpleNamespace(
            is_paused=False,
            receive=lambda data: (
                self.events.append(f"{len(data)} bytes"),
                loop.call_soon(self.events.append, "tick"),
            ),
            best_read=lambda: FULL_READ,
        )
        self.session = self.paused  # type: ignore[assignment]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.ours.close()
        self.peers.close()

    def pause_reading(self) -> None:
        self.events.append("pause")

    def resume_reading(self) -> None:
        self.events.append("resume")


FULL = f"{FULL_READ} bytes"


@pytest.mark.parametrize(
    ("size", "is_direct", "waiting", "events"),
    [
        (FULL_READ, True, 0, [FULL, "pause", "tick", "resume"]),
        (FULL_READ, True, 5, [FULL, "pause", "tick", "5 bytes", "resume", "tick"]),
        (
            *(FULL_READ, True, FULL_READ + 5),
            [FULL, "pause", "tick", FULL, "pause", "tick", "5 bytes", "resume", "tick"],
        ),
        (FULL_READ - 1, True, 5, [f"{FULL_READ - 1} bytes", "tick"]),
        (FULL_READ, False, 5, [FULL, "tick"]),  # TLS and WebSockets have buffers of their own
    ],
)
def test_what_a_full_read_publishes_is_delivered_before_the_next_read(
    size: int, is_direct: bool, waiting: int, events: list[str]
) -> None:
    async def run() -> list[str]:
        with ReadingProtocol(asyncio.get_running_loop(), is_direct, waiting) as protocol:
            protocol.data_received(bytes(size))
            for _ in range(4):
                await asyncio.sleep(0)
            return protocol.events

    assert asyncio.run(run()) == events


@pytest.mark.parametrize("change", ["paused", "closed"])
def test_a_connection_that_is_paused_or_closed_meanwhile_is_not_read(change: str) -> None:
    async def run() -> list[str]:
        with ReadingProtocol(asyncio.get_running_loop(), is_direct=True, waiting=5) as protocol:
            protocol.data_received(bytes(FULL_READ))
            if change == "paused":
                protocol.paused.is_paused = True  # by an alarm, which resumes it at its end
            else:
                protocol.socket.is_closing = lambda: True  # another connection may have the same descriptor
            for _ in range(3):
                await asyncio.sleep(0)
            return protocol.events

    assert asyncio.run(run()) == [FULL, "pause", "tick"]

"""S3-03: a tunnel counts the bytes of both ways, so that a request that is sent again takes and gives none twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from leveret.broker.timers import Timers
from leveret.clock import FrozenClock
from leveret.http import tunnels
from leveret.http.errors import Conflict, Gone, ObjectNotFound
from leveret.http.stream_listeners import LARGEST_PIECE, StreamListener, StreamListeners
from leveret.http.tunnels import IDLE, NotReading, TooManyConnections, Tunnel, Tunnels
from leveret.server.admission import ADMITTED, Admission
from leveret.session.limits import UNAUTHENTICATED_BYTES


def never() -> bool:
    return False


class Inside(asyncio.Protocol):
    """A protocol that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.heard = b""
        self.is_known = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Tunnel)
        self.tunnel = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def pause_writing(self) -> None:
        self.told.append("full")

    def resume_writing(self) -> None:
        self.told.append("room")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(exc or "lost")


class Ground:
    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.timers = Timers(self.clock)
        door = StreamListener("amqp", Inside, False, lambda peer: peer.is_known)
        self.tunnels = Tunnels(door, self.timers, Admission(1 << 30, 1_000))

    def open(self) -> tuple[Tunnel, Inside]:
        tunnel = self.tunnels.open("192.0.2.1", {"peername": ("192.0.2.1", 5)})
        assert isinstance(tunnel.inside, Inside)
        return tunnel, tunnel.inside

    def advance(self, seconds: float) -> None:
        self.timers.advance(seconds, lambda: None)


def on_a_loop(test: Callable[[Ground], Awaitable[Any]]) -> Callable[[], None]:
    def run() -> None:
        async def on() -> None:
            async with asyncio.timeout(10):
                await test(Ground())

        asyncio.run(on())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# ---- up


@on_a_loop
async def test_bytes_that_come_twice_are_taken_once(ground: Ground) -> None:
    tunnel, inside = ground.open()
    await tunnel.take(0, b"abc")
    await tunnel.take(0, b"abc")
    await tunnel.take(1, b"bcde")  # begins with what is there already
    await tunnel.take(5, b"")
    assert inside.heard == b"abcde"


@on_a_loop
async def test_a_gap_is_refused_and_names_where_it_begins(ground: Ground) -> None:
    tunnel, inside = ground.open()
    await tunnel.take(0, b"abc")
    with pytest.raises(Conflict, match="received bytes from 4 on, but only 3 before them"):
        await tunnel.take(4, b"x")
    assert inside.heard == b"abc"


@on_a_loop
async def test_while_nobody_listens_bytes_wait_and_are_told_to_come_again(ground: Ground) -> None:
    tunnel, inside = ground.open()
    tunnel.pause_reading()
    with pytest.raises(NotReading):
        await tunnel.take(0, b"abc", patience=0.01)
    waiting = [asyncio.create_task(tunnel.take(0, b"abc")) for _ in range(2)]
    await asyncio.sleep(0)
    assert inside.heard == b""
    tunnel.resume_reading()
    await asyncio.gather(*waiting)
    assert inside.heard == b"abc"


# ---- down


@on_a_loop
async def test_bytes_are_kept_until_what_is_behind_them_is_asked_for(ground: Ground) -> None:
    tunnel, _ = ground.open()
    tunnel.write(b"abc")
    assert await tunnel.give(0, never) == b"abc"
    tunnel.writelines([b"d", b"e"])
    assert await tunnel.give(0, never) == b"abcde"
    assert await tunnel.give(2, never) == b"cde"
    assert tunnel.get_write_buffer_size() == 3
    for at in (1, 6):
        with pytest.raises(Conflict, match=f"'at' is {at}: bytes 2 to 5 can be requested"):
            await tunnel.give(at, never)


@on_a_loop
async def test_who_asks_early_waits_until_there_is_something(ground: Ground) -> None:
    tunnel, _ = ground.open()
    waiting = asyncio.create_task(tunnel.give(0, never))
    await asyncio.sleep(0)
    assert not waiting.done()
    tunnel.write(b"now")
    assert await waiting == b"now"
    assert await tunnel.give(3, never, seconds=0.01) == b""


@on_a_loop
async def test_a_request_that_was_overtaken_gets_nothing(ground: Ground) -> None:
    """Its bytes have arrived by another one; to give it the next ones would be to give them at the wrong place."""
    tunnel, _ = ground.open()
    tunnel.write(b"abc")
    first = asyncio.create_task(tunnel.give(3, never))
    await asyncio.sleep(0)
    tunnel.write(b"d")
    await tunnel.give(3, never)
    second = asyncio.create_task(tunnel.give(4, never))
    with pytest.raises(Conflict, match="this request is obsolete"):
        await asyncio.gather(first, return_exceptions=False)
    tunnel.end(None)
    with pytest.raises(Gone):
        await second


@on_a_loop
async def test_what_waits_is_bounded_as_in_a_socket(ground: Ground) -> None:
    tunnel, inside = ground.open()
    tunnel.set_write_buffer_limits(high=8)
    tunnel.write(b"x" * 8)
    assert inside.told == []
    tunnel.write(b"x")
    tunnel.write(b"x")
    assert inside.told == ["full"]
    await tunnel.give(7, never)
    assert inside.told == ["full"]
    await tunnel.give(8, never)
    assert inside.told == ["full", "room"]


# ---- the end


@on_a_loop
async def test_a_tunnel_closes_when_the_peer_has_got_everything(ground: Ground) -> None:
    tunnel, inside = ground.open()
    tunnel.write(b"last words")
    tunnel.close()
    tunnel.write(b"too late")
    await tunnel.take(0, b"nobody listens")
    assert (tunnel.is_closing(), inside.heard, inside.told) == (True, b"", [])
    assert await tunnel.give(0, never) == b"last words"
    with pytest.raises(Gone, match="open a new tunnel"):
        await tunnel.give(10, never)
    await asyncio.sleep(0)
    assert inside.told == ["lost"]
    with pytest.raises(ObjectNotFound):
        ground.tunnels.found(tunnel.id)


@on_a_loop
async def test_with_nothing_left_to_say_it_closes_at_once_and_whoever_waits_learns_it(ground: Ground) -> None:
    tunnel, inside = ground.open()
    waiting = asyncio.create_task(tunnel.give(0, never))
    await asyncio.sleep(0)
    tunnel.close()
    with pytest.raises(Gone):
        await waiting
    assert inside.told == ["lost"]
    await asyncio.wait_for(ground.tunnels.drained(120), 60)


@on_a_loop
async def test_a_peer_that_asks_for_nothing_is_gone_after_a_while(ground: Ground) -> None:
    tunnel, inside = ground.open()
    ground.advance(IDLE - 1)
    ground.tunnels.mark_used(tunnel)
    ground.advance(IDLE - 1)
    assert ground.tunnels.found(tunnel.id) is tunnel
    ground.advance(IDLE)
    await asyncio.sleep(0)
    assert len(ground.tunnels) == 0
    assert isinstance(inside.told[0], TimeoutError)


@on_a_loop
async def test_one_that_is_being_answered_is_not_idle(ground: Ground) -> None:
    tunnel, _ = ground.open()
    tunnel.waiting += 1
    ground.advance(10 * IDLE)
    assert len(ground.tunnels) == 1


# ---- bounds


@on_a_loop
async def test_ids_are_long_and_no_two_are_alike(ground: Ground) -> None:
    ids = {ground.open()[0].id for _ in range(50)}
    assert len(ids) == 50
    assert min(map(len, ids)) >= 32


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "MOST_TUNNELS", 2)

    async def open_tunnels(ground: Ground) -> None:
        made = [ground.open()[0] for _ in range(2)]
        for tunnel in made:
            tunnel.get_extra_info(ADMITTED).authenticated()
        with pytest.raises(TooManyConnections, match="limit of 2 tunnels"):
            ground.open()
        made[0].abort()
        ground.open()

    on_a_loop(open_tunnels)()


def test_one_that_has_not_logged_in_makes_room_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "MOST_TUNNELS", 2)

    async def open_tunnels(ground: Ground) -> None:
        made = [ground.open()[0] for _ in range(3)]
        assert [tunnel.is_closing() for tunnel in made] == [True, False, False]

    on_a_loop(open_tunnels)()


@on_a_loop
async def test_strangers_may_send_less_at_once(ground: Ground) -> None:
    tunnel, inside = ground.open()
    assert ground.tunnels.most_bytes(tunnel) == UNAUTHENTICATED_BYTES
    inside.is_known = True
    assert ground.tunnels.most_bytes(tunnel) == LARGEST_PIECE


def test_the_first_known_subprotocol_is_chosen() -> None:
    doors = StreamListeners(Admission(1 << 30, 100))
    doors.register("amqp", Inside)
    doors.register("v12.stomp", Inside, is_text=True)
    chosen = {tuple(offered): doors.chosen(offered) for offered in ([], ["mqtt", "v12.stomp", "amqp"], ["mqtt"])}
    assert [door and door.subprotocol for door in chosen.values()] == ["amqp", "v12.stomp", None]
    assert doors.names == ("amqp", "v12.stomp")

"""Many write on one connection at once: what each has to say stays in one piece."""

from __future__ import annotations

import asyncio
import threading

import pytest

import leveret
from leveret.client import connect
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, PROTOCOL_HEADER
from leveret.wire.frames import decode_header, decode_method
from leveret.wire.methods import BasicPublish
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import run
from tests.support.frame_reader import FrameReader

WRITERS = 20
EACH = 10
BODY = 9_000  # bytes: with frames of 4,096 a message has four


def publishes(upstream: bytes) -> list[tuple[int, bytes]]:
    """Channel and body of each publish. Fails where a frame of anybody stands within a message."""
    frames = FrameReader(limit=0).feed(bytes(upstream).removeprefix(PROTOCOL_HEADER))
    found, rest = [], iter(frames)
    for kind, channel, payload in rest:
        if kind != FRAME_METHOD or not isinstance(decode_method(payload), BasicPublish):
            assert kind not in (FRAME_HEADER, FRAME_BODY), "content that belongs to no publish"
            continue
        head = next(rest)
        assert head[:2] == (FRAME_HEADER, channel)
        _, size = decode_header(head[2])
        body = b""
        while len(body) < size:
            part = next(rest)
            assert part[:2] == (FRAME_BODY, channel)
            body += part[2]
        found.append((channel, body))
    return found


@pytest.mark.feature("S3-06")
def test_frames_of_many_tasks_and_threads_never_mix(leveret_broker: leveret.Broker) -> None:
    """Writes are mutually exclusive on a shared connection."""
    bodies = {b"%03d %03d " % (writer, number) + b"x" * BODY for writer in range(WRITERS) for number in range(EACH)}

    async def work() -> list[tuple[int, bytes]]:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            await connect(proxy.url + "?frame_max=4096") as connection,
        ):
            proxy.is_recording = True
            proxy.upstream.clear()
            loop = asyncio.get_running_loop()
            channels = [await connection.channel() for _ in range(4)]
            for channel in channels:
                await channel.confirm_select()
            await channels[0].declare_queue("q")

            async def write(writer: int) -> None:
                mine = sorted(body for body in bodies if body.startswith(b"%03d " % writer))
                for body in mine:
                    await channels[writer % 4].publish(body, routing_key="q")

            def write_from_a_thread(writer: int) -> None:
                asyncio.run_coroutine_threadsafe(write(writer), loop).result(20)

            threads = [threading.Thread(target=write_from_a_thread, args=(each,)) for each in range(WRITERS // 2)]
            for thread in threads:
                thread.start()
            await asyncio.gather(*(write(each) for each in range(WRITERS // 2, WRITERS)))
            for thread in threads:
                await loop.run_in_executor(None, thread.join)
            return publishes(bytes(proxy.upstream))

    seen = run(work)
    assert len(seen) == WRITERS * EACH
    assert {body for _, body in seen} == bodies
    vhost = leveret_broker.vhost()
    assert {got.body for got in iter(lambda: vhost.get("q", auto_ack=True), None)} == bodies
    for channel in {channel for channel, _ in seen}:
        order: dict[bytes, list[bytes]] = {}
        for _, body in (each for each in seen if each[0] == channel):
            order.setdefault(body[:4], []).append(body)
        assert all(own == sorted(own) for own in order.values())

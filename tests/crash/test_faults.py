"""Writes and syncs that fail, fall short or take long, under a running broker: see shim.c."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles

import pytest

from leveret.wire.constants import FRAME_METHOD
from leveret.wire.frames import decode_method
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.fault_shim import EIO, ENOSPC, Shim
from tests.support.forked_broker import ForkedBroker
from tests.support.links import Link
from tests.support.publishing import PERSISTENT, Publishing, bodies_of, count, declare_at, fill
from tests.support.raw_client import RawClient

KEPT = [b"kept %d" % number for number in range(200)]
REFUSED = [b"refused %d" % number for number in range(50)]


@pytest.mark.parametrize(("kind", "times"), [("write", 0), ("sync", 1)])
@pytest.mark.feature("S0-11")
def test_what_could_not_be_made_safe_is_never_confirmed(tmp_path: Path, shim: Shim, kind: str, times: int) -> None:
    """A failed write, and a sync that fails once. Publishers get nacks and wait, consumers go on."""
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        url = serving.url()
        declare_at(url, "q")
        with Publishing(url) as publisher, Publishing(url) as late:
            publisher.publish("q", KEPT)
            publisher.hear_verdicts()
            assert len(publisher.acked) == len(KEPT)
            shim.fail(kind, EIO, times=times)
            publisher.publish("q", REFUSED)
            assert publisher.hear(lambda: not publisher.pending), publisher
            assert len(publisher.nacked) == len(REFUSED), publisher
            publisher.publish("q", [b"too late"])
            assert publisher.hear(lambda: publisher.blocked_at), publisher
            late.publish("q", [b"too late"])
            assert late.hear(lambda: late.blocked_at or late.nacked), late
            assert not late.hear(lambda: late.acked, 0.5), late
            acked = consume_half(url, len(KEPT))
            told_ok = durable_declare_is_answered(url, "new")
        serving.terminate()
        serving.exit_code(15)
        log = serving.log()
    assert any("read-only" in line and "restart" in line for line in log.splitlines()), log
    assert "Traceback" not in log
    assert_not_touched_again(shim)
    with ForkedBroker(tmp_path) as serving:
        found = bodies_of(serving.url(), "q")
        assert [body for body in found if body in KEPT and body not in acked] == [
            body for body in KEPT if body not in acked
        ]
        assert set(found) <= {*KEPT, *REFUSED, b"too late"}
        if told_ok:
            with RawClient.open(serving.url()) as client:
                assert count(client, "new") == 0


def consume_half(url: str, number: int) -> set[bytes]:
    """Take what was there before the fault, in order, ack the first half and leave the rest; what was acked."""
    with RawClient.open(url) as consumer:
        consumer.call(BasicQos(prefetch_count=number), BasicQosOk)
        consumer.call(BasicConsume("q"), BasicConsumeOk)
        found = [consumer.expect_content() for _ in range(number)]
        assert [content.body for content in found] == KEPT
        middle = found[number // 2 - 1]
        consumer.send(BasicAck(middle.method.delivery_tag, multiple=True))
        return {content.body for content in found[: number // 2]}


def durable_declare_is_answered(url: str, queue: str) -> bool:
    """Whether a durable declare gets its ok. An error or silence are right too, on a disk that fails."""
    with RawClient.open(url, timeout=1) as client:
        client.send(QueueDeclare(queue, durable=True))
        try:
            frame = client.next_frame()
        except AssertionError:
            return False
        return frame.kind == FRAME_METHOD and isinstance(decode_method(frame.payload), QueueDeclareOk)


def assert_not_touched_again(shim: Shim) -> None:
    """The file whose call failed was not used again: its content is unknown."""
    calls, failures = shim.calls(), shim.failures()
    assert failures, "the fault never happened"
    path = calls[failures[0]].path
    again = [call for call in calls[failures[0] + 1 :] if call.path == path]
    assert not again, f"after its failure {path} was used again: {again}"


def test_short_writes_lose_nothing(tmp_path: Path, shim: Shim) -> None:
    bodies = [b"%d:" % number + bytes(10_000) for number in range(300)]
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        declare_at(serving.url(), "q")
        shim.shorten()
        fill(serving.url(), "q", bodies)
        declare_at(serving.url(), "another")
        assert sum(call.forged for call in shim.calls()) > 3
        serving.process.kill()
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == bodies
        assert bodies_of(serving.url(), "another") == []


@pytest.mark.quiet
def test_a_full_disk_is_waited_for(tmp_path: Path, shim: Shim) -> None:
    """ENOSPC is no failure of the disk: nothing is refused, publishers wait; once there is room all is confirmed."""
    with ForkedBroker(tmp_path, "--disk-free-limit", "0", environ=shim.environ) as serving:
        url = serving.url()
        declare_at(url, "q")
        fill(url, "q", KEPT)
        with Publishing(url) as publisher:
            shim.fail("write", ENOSPC)
            publisher.publish("q", REFUSED)
            begun, further = time.monotonic(), []
            while not publisher.hear(lambda: publisher.blocked_at, 0.1):  # by the next publish after the alarm
                assert time.monotonic() - begun < 2, publisher
                further.append(b"further %d" % len(further))
                publisher.publish("q", further[-1:])
            assert not publisher.hear(lambda: publisher.acked or publisher.nacked, 0.5), publisher
            shim.clear()
            cleared = time.monotonic()
            assert publisher.hear(lambda: publisher.unblocked_at and not publisher.pending), publisher
            assert publisher.unblocked_at is not None
            assert publisher.unblocked_at - cleared < 2
            assert not publisher.nacked
        assert shim.failures()
        serving.process.kill()
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == KEPT + REFUSED + further


@pytest.mark.slow
@pytest.mark.quiet
def test_a_slow_disk_delays_only_operations_that_wait_for_it(tmp_path: Path, shim: Shim) -> None:
    """A sync of 5 s: heartbeats and transient messages go on, and the confirm comes after it."""
    with ForkedBroker(tmp_path, environ=shim.environ) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", [b"first"])
        shim.slow("sync", 5, times=1)
        waited, trips, heartbeats = asyncio.run(live_with_a_slow_disk(serving.url()))
        serving.process.kill()
    assert 4.9 < waited < 15
    assert all(number >= 2 for number in heartbeats), heartbeats
    assert len(trips) > 100
    assert quantiles(trips, n=100)[98] < 0.2, max(trips)
    with ForkedBroker(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == [b"first", b"slow"]


async def live_with_a_slow_disk(url: str) -> tuple[float, list[float], list[int]]:
    """How long the confirm took, round trips of transient messages meanwhile, and heartbeats of two connections."""
    begun = time.monotonic()
    async with (
        await Link.open(url, heartbeat=2, confirms=True) as slow,
        await Link.open(url, heartbeat=2) as idle,
        await Link.open(url, heartbeat=2) as fast,
    ):
        await fast.call(QueueDeclare("quick", exclusive=True), QueueDeclareOk)
        await fast.call(BasicConsume("quick", no_ack=True), BasicConsumeOk)

        async def wait_for_confirm() -> float:
            slow.publish("", "q", b"slow", PERSISTENT)
            await slow.expect(BasicAck)
            return time.monotonic() - begun

        async def stay() -> None:
            await idle.call(QueueDeclare("idle", exclusive=True), QueueDeclareOk)
            await idle.next(60)

        confirm, staying = asyncio.create_task(wait_for_confirm()), asyncio.create_task(stay())
        trips = []
        while not confirm.done():
            sent = time.monotonic()
            fast.publish("", "quick", b"")
            await fast.expect(BasicDeliver)
            trips.append(time.monotonic() - sent)
            await asyncio.sleep(0.005)  # the pace, or we would only measure ourselves
        waited = await confirm
        await slow.call(QueueDeclare("alive", exclusive=True), QueueDeclareOk)
        assert not staying.done(), "the idle connection ended"
        staying.cancel()
        return waited, trips, [slow.heartbeats, idle.heartbeats]


def test_running_out_of_files_costs_no_confirmed_message(tmp_path: Path) -> None:
    """A crowd takes all descriptors; segments are opened and read all the same, and the broker keeps running."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    bodies = [b"%d:" % number + bytes(4000) for number in range(150)]
    with ForkedBroker(tmp_path, "--segment-size", "64KiB", "--queue-memory", "64KiB", before=few_files) as serving:
        url = serving.url()
        declare_at(url, "q")
        with ExitStack() as stack, Publishing(url) as publisher:
            host, port = publisher.client.socket.getpeername()[:2]
            for _ in range(150):
                stack.enter_context(socket.create_connection((host, port), 5))
            for number in range(0, len(bodies), 10):
                publisher.publish("q", bodies[number : number + 10])
                publisher.hear_verdicts(20)
            assert not publisher.nacked
            assert publisher.blocked_at is None
        assert serving.process.poll() is None
        assert "Traceback" not in serving.log()
        serving.process.kill()
    with ForkedBroker(tmp_path, before=few_files) as serving:
        assert bodies_of(serving.url(), "q") == bodies

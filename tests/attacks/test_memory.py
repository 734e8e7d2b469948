"""CWE-770, allocation of resources without limits or throttling: whatever a client makes the broker keep, its memory
stays within the high watermark and a fifth, other clients are served meanwhile, and no alarm is left afterwards."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leveret.wire.constants import FRAME_BODY, FRAME_HEADER
from leveret.wire.fields import Table
from leveret.wire.frames import CONTENT_HEADER, frame, method_frame
from leveret.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    ChannelOpen,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    TxSelect,
)
from tests.support.attack_target import AttackTarget
from tests.support.raw_client import RawClient, publish_bytes

pytestmark = pytest.mark.quiet
CHANNELS = 2047
SECONDS = 1.5
BODY = bytes(100_000)
ARGUMENTS: Table = {f"x-{number}": "v" * 1_000 for number in range(20)}


def send_all(client: RawClient, pieces: Iterator[bytes]) -> None:
    """As far as the broker takes it: it may close the connection, or stop reading."""
    with contextlib.suppress(OSError):
        for piece in pieces:
            client.send_bytes(piece)


def hold_on(attacked: AttackTarget) -> None:
    """Keep what was sent for some time, in which the bystander is served."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        assert attacked.api.get("/api/whoami")[0] == 200


def channels(number: int) -> bytes:
    return b"".join(method_frame(channel, ChannelOpen()) for channel in range(2, number + 1))


def open_transactions(client: RawClient) -> Iterator[bytes]:
    yield channels(CHANNELS)
    for channel in range(1, CHANNELS + 1):
        publish = publish_bytes(BasicPublish("amq.fanout", ""), BODY, channel=channel)
        yield method_frame(channel, TxSelect()) + publish * 4


def unfinished_bodies(client: RawClient) -> Iterator[bytes]:
    yield channels(150)
    header = CONTENT_HEADER.pack(60, 0, 16 << 20) + b"\0\0"
    for channel in range(1, 151):
        head = method_frame(channel, BasicPublish("amq.fanout", "")) + frame(FRAME_HEADER, channel, header)
        yield head + frame(FRAME_BODY, channel, BODY) * 4


def many(number: int, make: Callable[[int], bytes]) -> Callable[[RawClient], Iterator[bytes]]:
    def pieces(client: RawClient) -> Iterator[bytes]:
        client.call(QueueDeclare(exclusive=True), QueueDeclareOk)  # "" names it from now on
        for first in range(0, number, 100):
            if select.select([client.socket], [], [], 0)[0]:
                return  # nothing here is answered: the broker has refused to go on
            yield b"".join(make(each) for each in range(first, first + 100))

    return pieces


def consumer(number: int) -> bytes:
    return method_frame(1, BasicConsume("", f"{number}", nowait=True))


def consumer_with_arguments(number: int) -> bytes:
    return method_frame(1, BasicConsume("", f"{number}", nowait=True, arguments=ARGUMENTS))


def queue(number: int) -> bytes:
    return method_frame(1, QueueDeclare(exclusive=True, nowait=True))


def queue_of_priorities(number: int) -> bytes:
    return method_frame(1, QueueDeclare(exclusive=True, nowait=True, arguments={"x-max-priority": 255}))


def exchange_with_arguments(number: int) -> bytes:
    declare = ExchangeDeclare(f"eve.{number}", "fanout", auto_delete=True, nowait=True, arguments=ARGUMENTS)
    return method_frame(1, declare)


def binding(number: int) -> bytes:
    key = f"{number}." + ".".join("abcdefghij"[at % 10] for at in range(120))
    return method_frame(1, QueueBind("", "amq.topic", key, nowait=True))


def binding_with_arguments(number: int) -> bytes:
    return method_frame(1, QueueBind("", "amq.headers", f"{number}", nowait=True, arguments=ARGUMENTS))


def remembered_routes(client: RawClient) -> Iterator[bytes]:
    yield channels(200)
    for channel in range(1, 201):
        for first in range(0, 1_000, 250):
            yield b"".join(
                publish_bytes(BasicPublish("amq.direct", f"{number}" + "k" * 200), b"", channel=channel)
                for number in range(first, first + 250)
            )


ATTACKS: dict[str, tuple[int, Callable[[RawClient], Iterator[bytes]]]] = {  # with so many connections
    "open transactions": (2, open_transactions),
    "unfinished bodies": (8, unfinished_bodies),
    "60,000 consumers": (1, many(60_000, consumer)),
    "consumers with arguments": (2, many(10_000, consumer_with_arguments)),
    "30,000 queues": (2, many(30_000, queue)),
    "queues of 255 priorities": (1, many(2_000, queue_of_priorities)),
    "exchanges with arguments": (2, many(10_000, exchange_with_arguments)),
    "topic bindings": (1, many(8_000, binding)),
    "bindings with arguments": (1, many(10_000, binding_with_arguments)),
    "remembered routes": (1, remembered_routes),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_client_makes_the_broker_keep_is_bounded(tmp_path: Path, attack: str) -> None:
    connections, pieces = ATTACKS[attack]
    with AttackTarget(tmp_path) as attacked, contextlib.ExitStack() as clients:
        for _ in range(connections):
            client = clients.enter_context(RawClient.open(attacked.url(), timeout=20.0))
            send_all(client, pieces(client))
        hold_on(attacked)
        clients.close()
        attacked.check()


@pytest.mark.parametrize("size", [8_000, 100_000])
def test_clients_that_do_not_read_cannot_fill_the_memory(tmp_path: Path, size: int) -> None:
    """Each of ten connections fetches 50 MB, requeues it and reads nothing."""
    with AttackTarget(tmp_path) as attacked, contextlib.ExitStack() as clients:
        for _ in range(10):
            client = clients.enter_context(RawClient.open(attacked.url(), timeout=2.0))
            queue = client.call(QueueDeclare(exclusive=True), QueueDeclareOk).queue
            client.publish("", queue, bytes(size))
            asked = [
                method_frame(1, BasicGet("")) + method_frame(1, BasicNack(tag)) for tag in range(1, 50_000_000 // size)
            ]
            send_all(client, iter(asked))
        hold_on(attacked)
        clients.close()
        attacked.check()

"""A disk that is really full: publishers wait, consumers go on, and when there is room again so do the publishers.

Two ways to notice: free space below the mark, or ENOSPC itself with the mark off. Two ways to make room: the messages
are consumed, or other files are removed. The disk is a tmpfs of 48 MiB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest

from leveret.wire.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk
from tests.support.broker_process import BrokerProcess
from tests.support.forked_broker import ForkedBroker
from tests.support.mounts import Mount
from tests.support.publishing import Publishing, bodies_of, declare_at
from tests.support.raw_client import RawClient

SIZE = 64 << 10
MARKS = {"the mark": 16 << 20, "ENOSPC": 0}
BALLAST = 16 << 20


def serve(folder: Path, disk: Mount, mark: int) -> BrokerProcess:
    data = str(disk.place / "data")
    return ForkedBroker(folder, "--data-dir", data, "--segment-size", "4MiB", "--disk-free-limit", str(mark))


def new_bodies() -> Iterator[bytes]:
    """All different, so that one taken for another is noticed."""
    for number in count():
        yield b"%08d" % number * (SIZE // 8)


def numbers(bodies: Iterable[bytes]) -> list[int]:
    """Whole bodies by their numbers, which are shorter to compare and to tell."""
    found = [(int(body[:8]), body == body[:8] * (SIZE // 8)) for body in bodies]
    assert all(is_whole for _, is_whole in found), "an altered body"
    return [number for number, _ in found]


def publish_until_blocked(publisher: Publishing, bodies: Iterator[bytes], disk: Mount, mark: int) -> None:
    """The next publish is answered by connection.blocked when space has been low for 1 s, or one is not confirmed."""
    low_since: float | None = None
    while publisher.blocked_at is None:
        assert len(publisher.sent) * SIZE < 64 << 20, "more was taken than there is room for"
        publisher.publish("q", [next(bodies) for _ in range(4)])
        publisher.hear(lambda: publisher.blocked_at or not publisher.pending, 1)
        assert publisher.blocked_at or low_since is None or time.monotonic() - low_since < 20, publisher
        if publisher.pending or disk.free() < mark:
            low_since = low_since or time.monotonic()
            publisher.hear(lambda: publisher.blocked_at, 1)
    assert not publisher.nacked, publisher
    assert len(publisher.acked) > 100


def consume(url: str, number: int) -> list[int]:
    """Take and ack so many, on a connection of its own; their numbers."""
    taken = []
    with RawClient.open(url) as consumer:
        consumer.call(BasicQos(prefetch_count=20), BasicQosOk)
        consumer.call(BasicConsume("q"), BasicConsumeOk)
        for _ in range(number):
            content = consumer.expect_content()
            taken.append(content.body)
            consumer.send(BasicAck(content.method.delivery_tag))
    return numbers(taken)


def wait_for_unblocked(publisher: Publishing) -> None:
    """Room was made just now."""
    assert publisher.hear(lambda: publisher.unblocked_at, 20), publisher


def assert_owed_are_there(url: str, publisher: Publishing, consumed: list[int]) -> None:
    owed = [number for number in numbers(publisher.confirmed_bodies()) if number not in set(consumed)]
    found = numbers(bodies_of(url, "q"))
    assert [number for number in found if number in set(owed)] == owed, "lost, or not in order"
    assert set(found) <= set(numbers(publisher.sent.values())), "invented"


@pytest.mark.parametrize("room", ["consumers", "other files"])
@pytest.mark.parametrize("alarm", MARKS)
def test_publishers_wait_until_there_is_room(tmp_path: Path, small_disk: Mount, alarm: str, room: str) -> None:
    mark = MARKS[alarm]
    ballast = small_disk.place / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, BALLAST if room == "other files" else 1)
    bodies = new_bodies()
    with serve(tmp_path, small_disk, mark) as serving:
        url = serving.url()
        declare_at(url, "q")
        with Publishing(url) as publisher:
            publish_until_blocked(publisher, bodies, small_disk, mark)
            number = len(publisher.acked) if room == "consumers" else 10
            consumed = consume(url, number)
            assert consumed == list(range(number))
            if room == "other files":
                assert not publisher.hear(lambda: publisher.unblocked_at, 0.5), publisher
                ballast.unlink()
            wait_for_unblocked(publisher)
            publisher.publish("q", [next(bodies) for _ in range(20)])
            publisher.hear_verdicts()
            assert not publisher.nacked
        assert "Traceback" not in serving.log()
        serving.process.kill()
    with serve(tmp_path, small_disk, mark) as serving:
        assert_owed_are_there(serving.url(), publisher, consumed)


@pytest.mark.parametrize("alarm", MARKS)
def test_a_broker_starts_on_a_full_disk_and_is_drained(tmp_path: Path, small_disk: Mount, alarm: str) -> None:
    """Killed while full: it must come up to be emptied, and then works on."""
    mark = MARKS[alarm]
    bodies = new_bodies()
    with serve(tmp_path, small_disk, mark) as serving:
        declare_at(serving.url(), "q")
        with Publishing(serving.url()) as publisher:
            publish_until_blocked(publisher, bodies, small_disk, mark)
        serving.process.kill()
    if alarm == "ENOSPC":
        stuff(small_disk)
    with serve(tmp_path, small_disk, mark) as serving:
        assert_owed_are_there(serving.url(), publisher, [])
        with Publishing(serving.url()) as publisher:
            publisher.publish("q", [next(bodies) for _ in range(20)])
            publisher.hear_verdicts()
            assert not publisher.nacked
        serving.process.kill()
    with serve(tmp_path, small_disk, mark) as serving:
        assert_owed_are_there(serving.url(), publisher, [])


def stuff(disk: Mount) -> None:
    """Not a byte is left, wherever the broker stopped."""
    with (disk.place / "stuffing").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            assert disk.free() == 0

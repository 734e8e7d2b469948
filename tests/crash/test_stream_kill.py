"""kill -9 again and again while streams are published to and read: what is confirmed is there, where it was.

After each start the streams are read from their beginning. Everything confirmed is there, unaltered; what a publisher
sent is in its order; no offset that a client has received belongs to another message now.
"""

from __future__ import annotations

import os
import threading
import time
from hashlib import sha1
from pathlib import Path
from random import Random

import pytest

from leveret.wire.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicDeliver, BasicQos, BasicQosOk
from tests.support.forked_broker import ForkedBroker
from tests.support.publishing import Publishing, declare
from tests.support.raw_client import RawClient, eventually
from tests.support.stream_reading import offset_of, read_stream

CYCLES = int(os.environ.get("LEVERET_CRASH_CYCLES", "4"))
PUBLISHERS = 3
ENOUGH = 50  # confirms in each cycle, or nothing was tested
ARGUMENTS = {"x_queue_type": "stream", "x_stream_max_segment_size_bytes": 256 << 10}
Seen = dict[int, bytes]  # bodies by offset


class Load:
    """Publishers in threads, and one reader that follows the stream, until the broker is gone."""

    def __init__(self, url: str, cycle: int, seed: int) -> None:
        self._url = url
        self._seed = seed
        self.confirmed: list[list[bytes]] = [[] for _ in range(PUBLISHERS)]
        self.followed: Seen = {}
        self._publishing: list[Publishing] = []
        self._threads = [
            threading.Thread(target=self._publish, args=(number, cycle)) for number in range(PUBLISHERS)
        ] + [threading.Thread(target=self._follow)]
        for thread in self._threads:
            thread.start()

    def _publish(self, number: int, cycle: int) -> None:
        random, sent = Random(f"{self._seed}-{cycle}-{number}"), 0
        with Publishing(self._url) as publishing:
            self._publishing.append(publishing)
            try:
                while not publishing.is_over:
                    bodies = []
                    for _ in range(random.randint(1, 40)):
                        sent += 1
                        bodies.append(make_body(random, number, cycle, sent))
                    publishing.publish("s", bodies)
                    publishing.hear(lambda: publishing.pending <= random.randint(0, 60))
            except (OSError, AssertionError):
                pass  # the broker is gone
            self.confirmed[number] = publishing.confirmed_bodies()

    def _follow(self) -> None:
        try:
            with RawClient.open(self._url) as client:
                client.call(BasicQos(0, 200), BasicQosOk)
                client.call(BasicConsume("s", "f", arguments={"x-stream-offset": "next"}), BasicConsumeOk)
                while True:
                    content = client.expect_content(BasicDeliver)
                    self.followed[offset_of(content)] = content.body
                    client.send(BasicAck(content.method.delivery_tag))
        except (OSError, AssertionError):
            pass

    def has_begun(self) -> bool:
        return sum(len(each.acked) for each in self._publishing) > ENOUGH

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def make_body(random: Random, number: int, cycle: int, sent: int) -> bytes:
    head = b"%d/%d/%d/" % (number, cycle, sent) + random.randbytes(random.choice((0, 10, 200, 3000)))
    return sha1(head).digest() + head


def read_all(url: str) -> Seen:
    """Everything, unaltered."""
    seen = read_stream(url)
    for offset, body in seen.items():
        assert sha1(body[20:]).digest() == body[:20], f"offset {offset} is altered"
    return seen


def check_order(seen: Seen) -> None:
    last: dict[tuple[bytes, bytes], int] = {}
    for offset in sorted(seen):
        number, cycle, sent, _ = seen[offset][20:].split(b"/", 3)
        assert int(sent) > last.get((number, cycle), 0), f"offset {offset} is out of order, or there twice"
        last[number, cycle] = int(sent)


@pytest.mark.slow
@pytest.mark.timeout(300 + 12 * CYCLES)
def test_confirmed_messages_of_a_stream_keep_their_offsets_however_often_the_broker_is_killed(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    known: Seen = {}
    confirmed: set[bytes] = set()
    for cycle in range(1, CYCLES + 1):
        with ForkedBroker(tmp_path, "--segment-size", random.choice(("64KiB", "1MiB", "64MiB"))) as serving:
            url = serving.url()
            with RawClient.open(url) as client:
                declare(client, "s", **ARGUMENTS)
            seen = read_all(url)
            assert confirmed <= set(seen.values()), "what was confirmed is lost"
            assert known.items() <= seen.items(), "an offset was used again"
            check_order(seen)
            known = seen
            load = Load(url, cycle, seed)
            time.sleep(random.uniform(0.1, 1.2))  # as long as the load works: any moment will do
            eventually(load.has_begun)
            serving.process.kill()
            serving.exit_code()
            load.join()
            confirmed.update(body for bodies in load.confirmed for body in bodies)
            known = {**known, **load.followed}
            print(f"cycle {cycle} of {CYCLES}: {len(confirmed)} confirmed, {len(load.followed)} followed", flush=True)
    with ForkedBroker(tmp_path) as serving:
        seen = read_all(serving.url())
        assert confirmed <= set(seen.values())
        assert known.items() <= seen.items()
        check_order(seen)
        serving.terminate()
        assert serving.exit_code() == 0
    with ForkedBroker(tmp_path) as serving:
        assert read_all(serving.url()) == seen, "a clean stop and start changes nothing"
    assert len(confirmed) > ENOUGH * CYCLES

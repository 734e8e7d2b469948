"""A load of numbered messages with keys, by publishers with confirms and a consumer that watches the order of each key.

Each key has one publisher, which numbers its messages 1, 2, 3, ... The consumer acks a message only when it is the next
of its key, and sends it back otherwise; now and then it sends one back for no reason. All channels of the consumer are
on one connection, so that it receives everything in the order in which the broker sent it.
"""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from random import Random

from leveret.wire.frames import decode_method, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
)
from leveret.wire.properties import Properties
from tests.support.raw_client import Frame, RawClient, publish_bytes

PERSISTENT = Properties(delivery_mode=2)
WINDOW = 400  # publishes that wait for their confirms


class KeyOrder:
    """What is known of each key. ``found`` lists the violations."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = defaultdict(int)
        self.confirmed: dict[str, set[int]] = defaultdict(set)
        self.acked: dict[str, list[int]] = defaultdict(list)
        self.received = 0  # acked
        self.requeued = 0
        self.duplicates = 0
        self.found: list[str] = []
        self.life = 0
        self._milestones: list[tuple[int, threading.Event, threading.Event | None]] = []
        self._progress = threading.Condition()
        self.begin_life()

    def begin_life(self) -> None:
        """What was not acked comes again, and so may be what was: it is marked then."""
        self.life += 1
        self._first: dict[str, int] = defaultdict(int)  # the latest number of each key that came in this run
        self._done = {key: numbers[-1] for key, numbers in self.acked.items() if numbers}

    def reaches(self, number: int, until: threading.Event | None = None) -> threading.Event:
        """Set when this many were acked; the consumer then waits ``until`` that event is set, with its acks unsent."""
        event = threading.Event()
        self._milestones.append((number, event, until))
        return event

    def delivered(self, key: str, number: int, redelivered: bool) -> bool:
        """Whether it is a duplicate of what was acked before."""
        acked = self.acked[key]
        if acked and number <= acked[-1]:
            self.duplicates += 1
            if not redelivered or number > self._done.get(key, 0):
                self.found.append(f"{key} {number} came again after {acked[-1]}")
            return True
        latest = self._first[key] or self._done.get(key, 0)
        if number > latest:
            if number != latest + 1 and self.life == 1:  # later some may be lost that were never confirmed
                self.found.append(f"{key} {number} came after {latest}")
            self._first[key] = number
        elif not redelivered:
            self.found.append(f"{key} {number} came after {latest}")
        return False

    def ack(self, key: str, number: int) -> None:
        self.acked[key].append(number)
        self.received += 1
        for milestone, event, until in self._milestones:
            if self.received >= milestone and not event.is_set():
                event.set()
                assert until is None or until.wait(120)
        with self._progress:
            self._progress.notify_all()

    def await_confirmed(self, seconds: float) -> None:
        """Until all that was confirmed is acked."""
        with self._progress:
            self._progress.wait_for(lambda: not self.missing(), seconds)

    def missing(self) -> dict[str, list[int]]:
        """What was confirmed and never acked by the consumer."""
        lost = {key: sorted(numbers - set(self.acked[key])) for key, numbers in self.confirmed.items()}
        return {key: numbers for key, numbers in lost.items() if numbers}

    def assert_kept(self) -> None:
        assert not self.found, self.found[:10]
        for key, numbers in self.acked.items():
            assert numbers == sorted(set(numbers)), f"{key} was acked out of order"
        missing = self.missing()
        assert not missing, list(missing.items())[:10]


class KeyPublisher(threading.Thread):
    """Publishes ``number`` messages with its own keys."""

    def __init__(self, url: str, order: KeyOrder, keys: list[str], number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = RawClient.open(url, timeout=30)
        self._client.call(ConfirmSelect(), ConfirmSelectOk)
        self._order = order
        self._keys = keys
        self._number = number
        self._random = Random(seed)
        self._unconfirmed: dict[int, tuple[str, int]] = {}
        self._published = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while self._published < self._number:
                self._publish(min(100, self._number - self._published))
                self._await(WINDOW)
            self._await(0)
        except BaseException as problem:
            self.failure = problem
        finally:
            self._client.cut()

    def _publish(self, number: int) -> None:
        parts = []
        for _ in range(number):
            key = self._random.choice(self._keys)
            self._order.sent[key] += 1
            self._published += 1
            self._unconfirmed[self._published] = (key, self._order.sent[key])
            body = b"%s %d" % (key.encode(), self._order.sent[key])
            parts.append(publish_bytes(BasicPublish("images", key), body, PERSISTENT))
        self._client.send_bytes(b"".join(parts))

    def _await(self, most: int) -> None:
        while len(self._unconfirmed) > most:
            ack = self._client.expect(BasicAck)
            tags = [tag for tag in self._unconfirmed if tag <= ack.delivery_tag] if ack.multiple else [ack.delivery_tag]
            for tag in tags:
                key, number = self._unconfirmed.pop(tag)
                self._order.confirmed[key].add(number)


class KeyConsumer(threading.Thread):
    """Consumes on several channels from the pseudo-queue until so many were acked, or it is stopped."""

    def __init__(
        self,
        url: str,
        order: KeyOrder,
        number: int | None = None,
        *,
        channels: int = 1,
        prefetch: int = 500,
        everything: bool = True,
        requeues: float = 0.002,
    ) -> None:
        super().__init__(daemon=True)
        self._client = RawClient.open(url, channels=channels, timeout=30)
        self._order = order
        self._number = number
        self._requeues = requeues
        self._random = Random(1)
        self._answers: list[bytes] = []
        self._pending: dict[int, BasicDeliver] = {}
        self.failure: BaseException | None = None
        for channel in range(1, channels + 1):
            self._client.call(BasicQos(prefetch_count=prefetch), BasicQosOk, channel)
        for channel in range(1, channels + 1):
            arguments = {"x-shard-all": True} if everything else {}
            self._client.send(BasicConsume("images", f"tag{channel}", nowait=True, arguments=arguments), channel)

    def run(self) -> None:
        try:
            for frame in self._client.frames():
                self._take(frame)
                if not self._client._frames:
                    self._client.send_bytes(b"".join(self._answers))
                    self._answers.clear()
                    if self._order.received == self._number:
                        return
        except BaseException as problem:
            self.failure = problem
        finally:
            self._client.cut()

    def stop(self) -> None:
        self._client.socket.shutdown(socket.SHUT_RDWR)

    def _take(self, frame: Frame) -> None:
        if frame.kind == 1:
            method = decode_method(frame.payload)
            assert isinstance(method, BasicDeliver), method
            self._pending[frame.channel] = method
        elif frame.kind == 3:
            key, number = frame.payload.split()
            method = self._pending.pop(frame.channel)
            self._decide(frame.channel, method, key.decode(), int(number))

    def _decide(self, channel: int, method: BasicDeliver, key: str, number: int) -> None:
        order, tag = self._order, method.delivery_tag
        if order.delivered(key, number, method.redelivered):
            answer = method_frame(channel, BasicAck(tag))
        elif self._is_early(key, number) or self._random.random() < self._requeues:
            order.requeued += 1
            answer = method_frame(channel, BasicNack(tag, requeue=True))
        else:
            order.ack(key, number)
            answer = method_frame(channel, BasicAck(tag))
        self._answers.append(answer)

    def _is_early(self, key: str, number: int) -> bool:
        """An earlier one was sent back and has not come again."""
        acked = self._order.acked[key]
        return self._requeues > 0 and number != (acked[-1] if acked else 0) + 1

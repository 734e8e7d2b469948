"""A TUN device whose packets come back late, or not at all: a slow link inside a router made of a network namespace.

The kernel routes packets to the device, a thread reads them and writes them to it again, and the kernel routes them on.
So it needs neither ``tc netem`` nor its module. Root on Linux only.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import select
import threading
import time
from random import Random
from struct import pack
from typing import NamedTuple

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LARGEST = 1 << 16  # bytes of a packet
MOST_QUEUED = 0.5  # seconds of packets that wait for the rate limit; more are dropped


class Slowness(NamedTuple):
    delay: float  # seconds
    loss: float  # share of packets
    rate: float  # bytes per second


class SlowLink:
    """``name``: of the device, which is made in the network namespace of this thread."""

    def __init__(self, name: str, slowness: Slowness, random: Random) -> None:
        self._slowness = slowness
        self._random = random
        self._device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        try:
            fcntl.ioctl(self._device, TUNSETIFF, pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
        except OSError:
            os.close(self._device)
            raise
        self._end, self._ended = os.pipe()
        self._due: list[tuple[float, int, bytes]] = []
        self._free_at = 0.0  # when the packets before are sent, by the rate limit
        self.passed = self.dropped = 0  # packets
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        os.write(self._ended, b".")
        self._thread.join()
        for descriptor in (self._device, self._end, self._ended):
            os.close(descriptor)

    def _run(self) -> None:
        while True:
            wait = max(self._due[0][0] - time.monotonic(), 0) if self._due else None
            ready, _, _ = select.select([self._device, self._end], [], [], wait)
            if self._end in ready:
                return
            if ready:
                self._take(os.read(self._device, LARGEST))
            while self._due and self._due[0][0] <= time.monotonic():
                os.write(self._device, heapq.heappop(self._due)[2])

    def _take(self, packet: bytes) -> None:
        now, (delay, loss, rate) = time.monotonic(), self._slowness
        free_at = max(self._free_at, now) + len(packet) / rate
        if free_at > now + MOST_QUEUED or self._random.random() < loss:
            self.dropped += 1
            return
        self._free_at = free_at
        self.passed += 1
        heapq.heappush(self._due, (free_at + delay, self.passed, packet))

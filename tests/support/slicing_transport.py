"""A transport wrapper that passes bytes on in small slices, and counts them."""

from __future__ import annotations

from leveret.client.address import Address
from leveret.client.transports import Listener, Transport, open_tcp

SLICE = 7  # bytes


class Slicing:
    """A listener to the transport below, and the transport of the listener above."""

    made: Slicing

    def __init__(self, above: Listener) -> None:
        Slicing.made = self
        self._above = above
        self.below: Transport
        self.up = self.down = 0
        self.close = lambda: self.below.close()
        self.abort = lambda: self.below.abort()
        self.lost = above.lost
        self.congested = above.congested

    def write(self, data: bytes) -> None:
        self.up += len(data)
        for start in range(0, len(data), SLICE):
            self.below.write(data[start : start + SLICE])

    def received(self, data: bytes) -> None:
        self.down += len(data)
        for start in range(0, len(data), SLICE):
            self._above.received(data[start : start + SLICE])


async def open_slicing(address: Address, listener: Listener) -> Slicing:
    link = Slicing(listener)
    link.below = await open_tcp(address, link)
    return link

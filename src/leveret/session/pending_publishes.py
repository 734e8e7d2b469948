"""Publishes of one channel to queues that answer later (delivery/receipts.py): flow control, returns and confirms.

Confirm numbers are given out at once, as always, and confirmed when all receipts of the publish are resolved. While too
many messages have not been received by their queues, the connection is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.delivery.receipts import PendingPublish

if TYPE_CHECKING:
    from leveret.session.channel import Channel

MOST_UNRECEIVED = 2_000  # messages, counted once for each log; what the socket buffers hold comes on top


class PendingPublishes:
    """The flow control of one channel, and what becomes of its pending publishes (delivery.receipts.Publisher)."""

    __slots__ = ("_channel", "_is_closed", "_is_paused", "_reason", "unreceived")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reason = f"flow control of channel {channel.number}"
        self._is_paused = self._is_closed = False
        self.unreceived = 0  # messages

    def spend(self, credits: int) -> None:
        self.unreceived += credits
        if self.unreceived >= MOST_UNRECEIVED and not self._is_paused:
            self._is_paused = True
            self._channel.connection.pause(self._reason)

    def refund(self, credits: int) -> None:
        self.unreceived -= credits
        if self.unreceived <= MOST_UNRECEIVED // 2:
            self._resume()

    def resolved(self, publish: PendingPublish) -> None:
        """Return mandatory messages that no queue received, then confirm: returned messages are confirmed as well."""
        channel = self._channel
        if self._is_closed:
            return
        is_returned = publish.mandatory and not publish.is_received
        if is_returned:
            channel.return_messages(publish.run)
        if channel.confirms is not None and publish.first:
            refused = () if is_returned else {publish.first + place for place in publish.rejected}
            channel.send_confirms(channel.confirms.resolved(publish.first, publish.last, refused))
        channel.connection.broker.wake()

    def close(self) -> None:
        """The channel is closed. What it published still arrives."""
        self._is_closed = True
        self._resume()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._channel.connection.resume(self._reason)

"""A channel that closes while something else is asked."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client.channel import Channel
from leveret.client.errors import Closed
from leveret.client.messages import Delivery
from leveret.wire import methods as m


class Wire:
    """As much of a connection as a channel needs."""

    frame_max = 131_072

    def write(self, data: bytes) -> None:
        pass

    def forget(self, channel: Channel) -> None:
        pass


@pytest.mark.feature("S3-05")
def test_close_ok_may_overtake_the_answer_to_a_cancel() -> None:
    """RabbitMQ's queues answer basic.cancel, and not any more when the channel is gone."""

    async def work() -> None:
        channel = Channel(Wire(), 1)  # type: ignore[arg-type]
        cancelled = asyncio.ensure_future(channel.cancel("t"))
        await asyncio.sleep(0)
        closed = asyncio.ensure_future(channel.close())
        await asyncio.sleep(0)
        channel.heard(m.ChannelCloseOk())
        await closed
        with pytest.raises(Closed):
            await cancelled

    asyncio.run(work())


@pytest.mark.parametrize(("no_ack", "called"), [(False, 0), (True, 1)])
def test_a_delivery_that_crosses_our_close_is_for_nobody_who_would_have_to_ack_it(no_ack: bool, called: int) -> None:
    """It goes back to its queue by the close. What needs no ack is the application's."""

    async def work() -> None:
        channel = Channel(Wire(), 1)  # type: ignore[arg-type]
        taken: list[Delivery] = []
        consuming = asyncio.ensure_future(channel.consume("q", taken.append, no_ack=no_ack))
        await asyncio.sleep(0)
        channel.heard(m.BasicConsumeOk("t"))
        await consuming
        closing = asyncio.ensure_future(channel.close())
        await asyncio.sleep(0)
        channel.deliver(Delivery(channel, "t", 1, False, "", "q", b"", b""))
        channel.heard(m.ChannelCloseOk())
        await closing
        assert len(taken) == called

    asyncio.run(work())

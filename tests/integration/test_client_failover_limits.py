"""What was agreed on with one broker, and what the next one makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import leveret
from leveret.client import Channel, Connection, ConnectionLost, connect
from leveret.errors import NotAllowed
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import QUICK, failing_over, run, taken, told


@pytest.mark.feature("S3-08")
def test_one_channel_is_kept_for_the_client(leveret_broker: leveret.Broker) -> None:
    """It declares queues on channels of its own, and everything once more after a loss."""

    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url, options="&nested.channel_max=3") as (connection, channel, _),
        ):
            await connection.channel()
            with pytest.raises(NotAllowed, match="all 2 channels of the connection are open"):
                await connection.channel()
            await asyncio.gather(*(channel.declare_queue(f"q{number}") for number in range(5)))
            await told(connection, "reconnected", proxy.cut)
            await channel.declare_queue("q")

    run(work)


@pytest.mark.feature("S3-08")
def test_the_channel_that_is_kept_is_used_by_one_after_the_other(leveret_broker: leveret.Broker) -> None:
    """Also after one who gave up, whose channel has to be closed first."""

    async def work() -> None:
        options = "&nested.channel_max=2"
        async with failing_over(leveret_broker.amqp_url, options=options) as (_, channel, kinds):
            for turns in range(12):  # of the loop, until the first one gives up
                first, second = (asyncio.ensure_future(channel.declare_queue(f"{turns}.{each}")) for each in "ab")
                for _ in range(turns):
                    await asyncio.sleep(0)
                first.cancel()
                await asyncio.wait([first])
                assert (await second).queue == f"{turns}.b"
            assert kinds == [], "the connection was never lost"

    run(work)


@pytest.mark.feature("S3-08")
def test_a_new_secret_is_used_by_the_next_connection(leveret_broker: leveret.Broker) -> None:
    """The old one has expired by then."""
    core = leveret_broker.node.broker

    def change(password: str) -> None:
        leveret_broker.call(lambda: core.users.add("ann", password=password))

    change("first")
    leveret_broker.call(lambda: core.permissions.set("ann", "/", ".*", ".*", ".*"))

    async def work() -> None:
        url = leveret_broker.amqp_url.replace(f"guest:{leveret_broker.password}@", "ann:first@")
        async with ChaosProxy(url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            change("second")
            await connection.update_secret("second")
            await told(connection, "reconnected", proxy.cut)
            await channel.qos(1)

    run(work)


@pytest.mark.feature("S3-08")
def test_what_is_sent_again_fits_into_the_frames_of_the_other_broker(leveret_broker: leveret.Broker) -> None:
    """It was put into frames for the first one."""

    async def work(small: leveret.Broker) -> list[bytes]:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            await channel.declare_queue("q")
            await channel.confirm_select()
            proxy.stall()
            confirm = channel.send(b"x" * 50_000, "", "q")
            assert confirm is not None
            proxy.lead_to(small.amqp_url)
            await told(connection, "lost", proxy.cut)
            await told(connection, "reconnected", proxy.resume)
            assert connection.frame_max == 4096
            await confirm
            return await taken(await channel.consume("q"), 1)

    with leveret.Broker(replace(leveret_broker.settings, frame_max=4096)) as small:
        assert run(lambda: work(small)) == [b"x" * 50_000]


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_a_host_that_cannot_be_a_name_is_no_connection(host: str) -> None:
    async def work() -> None:
        with pytest.raises(ConnectionLost, match="no connection to"):
            await connect(f"amqp://{host}")

    run(work)


# ---- fanout


async def fanned(*urls: str, options: str = "") -> tuple[Connection, Channel]:
    connection = await connect(f"fanout:({','.join(urls)})?{QUICK}{options}")
    return connection, await connection.channel()


@pytest.mark.feature("S3-07")
def test_a_broker_with_an_impossible_name_does_not_stop_the_others(leveret_broker: leveret.Broker) -> None:
    """And if too few are left, that is said."""

    async def work() -> None:
        connection, channel = await fanned(leveret_broker.amqp_url, "amqp://a..b", options="&minAckCount=1")
        await channel.confirm_select()
        await channel.publish(b"")
        await connection.close()
        with pytest.raises(ConnectionLost):
            await fanned(leveret_broker.amqp_url, "amqp://a..b", options="&maxReconnectAttempts=1")

    run(work)


@pytest.mark.feature("S3-07")
def test_whoever_publishes_waits_for_the_slowest_broker(leveret_broker: leveret.Broker) -> None:
    """Nothing piles up without a bound for one that does not read."""

    async def work() -> None:
        connection, channel = await fanned(leveret_broker.amqp_url, leveret_broker.amqp_url)
        member = connection.members[1]  # type: ignore[attr-defined]
        member.congested(True)
        assert connection.is_congested
        publishing = asyncio.ensure_future(channel.publish(b""))
        await channel.declare_queue("q")
        assert not publishing.done()
        member.congested(False)
        await publishing
        await connection.close()

    run(work)


@pytest.mark.feature("S3-07")
def test_a_publish_that_is_given_up_does_not_stay_open(leveret_broker: leveret.Broker) -> None:
    """All_settled() waits for the brokers, not for whoever went."""

    async def work() -> None:
        connection, channel = await fanned(leveret_broker.amqp_url, leveret_broker.amqp_url)
        await channel.confirm_select()
        publishing = asyncio.ensure_future(channel.publish(b""))
        await asyncio.sleep(0)
        publishing.cancel()
        assert channel.confirms is not None
        await channel.confirms.all_settled()
        await connection.close()

    run(work)

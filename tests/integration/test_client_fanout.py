"""fanout: addresses: what is published goes to several brokers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

import leveret
from leveret.client import Channel, ClientError, Connection, ConnectionLost, Returned, Unroutable, connect
from leveret.client.fanout import FanoutConnection
from leveret.errors import PreconditionFailed
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import QUICK, run, told

Brokers = tuple[leveret.Broker, leveret.Broker]


@pytest.fixture
def brokers(leveret_broker: leveret.Broker) -> Iterator[Brokers]:
    with leveret.Broker() as other:
        yield leveret_broker, other


@asynccontextmanager
async def fanning_out(*urls: str, options: str = "") -> AsyncIterator[tuple[Connection, Channel]]:
    async with await connect(f"fanout:({','.join(urls)})?{QUICK}{options}") as connection:
        yield connection, await connection.channel()


async def until_all(connection: Connection) -> None:
    assert isinstance(connection, FanoutConnection)
    for member in connection.members:
        await member.until_up()


def bodies_in(broker: leveret.Broker, queue: str = "q") -> list[bytes]:
    vhost = broker.vhost()
    return [got.body for got in iter(lambda: vhost.get(queue, auto_ack=True), None)]


@pytest.mark.feature("S3-07")
def test_a_message_goes_to_all_brokers(brokers: Brokers) -> None:
    """With the same id everywhere; declarations go to all too."""

    async def work() -> None:
        async with fanning_out(*(each.amqp_url for each in brokers)) as (_, channel):
            await channel.declare_exchange("shop", "direct")
            await channel.declare_queue("q")
            await channel.bind_queue("q", "shop", "order")
            await channel.confirm_select()
            for number in range(50):
                channel.send(b"%d" % number, "shop", "order")
            assert channel.confirms is not None
            await channel.confirms.all_settled()
            assert channel.confirms.open == 0

    run(work)
    ids = []
    for broker in brokers:
        first = broker.vhost().get("q", auto_ack=True)
        assert first is not None
        ids.append(first.properties.message_id)
        assert bodies_in(broker) == [b"%d" % number for number in range(1, 50)]
    assert ids[0] is not None
    assert ids[0] == ids[1]


@pytest.mark.feature("S3-07")
def test_a_message_is_confirmed_when_enough_have_it(brokers: Brokers) -> None:
    """MinAckCount=1: one broker is silent and nobody waits for it; with 2 the publisher waits."""

    async def work(needed: int) -> None:
        async with (
            ChaosProxy(brokers[1].amqp_url) as proxy,
            fanning_out(brokers[0].amqp_url, proxy.url, options=f"&minAckCount={needed}") as (connection, channel),
        ):
            await until_all(connection)
            await channel.declare_queue("q")
            await channel.confirm_select()
            proxy.stall()
            confirm = channel.send(b"a", routing_key="q")
            assert confirm is not None
            if needed == 2:
                await asyncio.wait([confirm], timeout=0.1)
                assert not confirm.done()
                proxy.resume()
            await confirm
            proxy.resume()

    run(lambda: work(1))
    run(lambda: work(2))


@pytest.mark.feature("S3-07")
def test_a_broker_that_is_away_is_left_out_if_enough_are_there(brokers: Brokers) -> None:
    """And is back for what comes later, with the topology that was declared meanwhile."""

    async def work() -> None:
        async with (
            ChaosProxy(brokers[1].amqp_url) as proxy,
            fanning_out(brokers[0].amqp_url, proxy.url, options="&minAckCount=1") as (connection, channel),
        ):
            await until_all(connection)
            await channel.confirm_select()
            await proxy.refuse()
            await told(connection, "lost", proxy.cut)
            await channel.declare_queue("q")
            await channel.publish(b"missed", routing_key="q")
            await told(connection, "reconnected", lambda: asyncio.ensure_future(proxy.listen()))
            await channel.declare_queue("q", passive=True)
            confirms = [channel.send(b"for all", routing_key="q")]
            await asyncio.gather(*(each for each in confirms if each is not None))
            await channel.declare_queue("q", passive=True)  # both have taken what was sent before

    run(work)
    assert [bodies_in(each) for each in brokers] == [[b"missed", b"for all"], [b"for all"]]


@pytest.mark.feature("S3-07")
def test_a_message_waits_for_a_broker_that_is_needed(brokers: Brokers) -> None:
    """MinAckCount is 2 unless the address says otherwise."""

    async def work() -> None:
        async with (
            ChaosProxy(brokers[1].amqp_url) as proxy,
            fanning_out(brokers[0].amqp_url, proxy.url) as (connection, channel),
        ):
            await channel.declare_queue("q")
            await channel.confirm_select()
            await proxy.refuse()
            await told(connection, "lost", proxy.cut)
            publishing = asyncio.ensure_future(channel.publish(b"kept", routing_key="q"))
            done, _ = await asyncio.wait([publishing], timeout=0.05)
            assert not done
            await proxy.listen()
            await publishing

    run(work)
    assert [bodies_in(each) for each in brokers] == [[b"kept"], [b"kept"]]


def test_an_error_of_one_broker_is_told(brokers: Brokers) -> None:
    brokers[1].vhost().declare_queue("q", arguments={"x-max-length": 5})

    async def work() -> None:
        async with fanning_out(*(each.amqp_url for each in brokers)) as (_, channel):
            with pytest.raises(PreconditionFailed):
                await channel.declare_queue("q")
            assert channel.is_closed

    run(work)


def test_a_message_that_too_many_return_is_unroutable(brokers: Brokers) -> None:
    async def work() -> None:
        async with fanning_out(*(each.amqp_url for each in brokers)) as (_, channel):
            await channel.confirm_select()
            with pytest.raises(Unroutable):
                await channel.publish(b"a", routing_key="nowhere", mandatory=True)

    run(work)


@pytest.mark.parametrize("is_there", [True, False], ids=["one has the queue", "none has it"])
@pytest.mark.feature("S3-07")
def test_a_broker_that_returns_a_message_has_not_confirmed_it(brokers: Brokers, is_there: bool) -> None:
    """With minAckCount=1 the other one has to."""

    async def work() -> None:
        async with (
            ChaosProxy(brokers[1].amqp_url) as proxy,
            fanning_out(brokers[0].amqp_url, proxy.url, options="&minAckCount=1") as (connection, channel),
        ):
            await until_all(connection)
            await channel.confirm_select()
            assert channel.confirms is not None
            returned: list[Returned] = []
            channel.on_return = returned.append
            if is_there:
                brokers[1].vhost().declare_queue("q")
            proxy.stall()
            confirm = channel.send(b"a", routing_key="q", mandatory=True)
            assert confirm is not None
            await channel._members[0].qos(1)  # type: ignore[attr-defined]  # behind the return and the ack
            assert len(returned) == 1
            assert not confirm.done()
            proxy.resume()
            if is_there:
                await channel.confirms.all_settled()
                assert confirm.result() is None
            else:
                with pytest.raises(Unroutable):
                    await channel.confirms.all_settled()
                assert len(returned) == 2

    run(work)


@pytest.mark.feature("S3-07")
def test_consuming_and_transactions_are_of_one_broker(brokers: Brokers) -> None:
    """A fanout is for publishing."""

    async def work() -> None:
        async with fanning_out(*(each.amqp_url for each in brokers)) as (_, channel):
            for call in (channel.consume("q"), channel.get("q"), channel.select_transactions(), channel.commit()):
                with pytest.raises(
                    ClientError, match="is not supported with fanout: connect to a single broker, or use failover:"
                ):
                    await call
            with pytest.raises(ClientError, match=r"basic\.ack is not supported with fanout"):
                channel.ack(1)
            with pytest.raises(ClientError, match="needs a name"):
                await channel.declare_queue()

    run(work)


def test_too_few_brokers_are_an_error(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        uri = f"fanout:({leveret_broker.amqp_url},amqp://127.0.0.1:1)?{QUICK}&maxReconnectAttempts=2"
        with pytest.raises(ConnectionLost, match=r"fewer than 2 of .* can be reached: no connection to any of"):
            await connect(uri)

    run(work)

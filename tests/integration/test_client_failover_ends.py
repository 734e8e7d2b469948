"""Connections that come back late, differently or not at all; transactions, heartbeats, a broker that restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from leveret.client import Closed, ConnectionLost, Happening, Properties, connect
from leveret.client.errors import TransactionRolledBack
from leveret.errors import ConnectionForced, LoginRefused, NotFound, PreconditionFailed
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import failing_over, run, taken, told


@pytest.fixture
def leveret_broker() -> Iterator[leveret.Broker]:
    """One that refuses a login at once."""
    settings = leveret.Settings(
        amqp_port=0, http_port=None, https_port=None, stomp_port=None, shutdown_timeout=0.5, login_failure_delay=0
    )
    with leveret.Broker(settings) as running:
        yield running


def with_password(url: str, password: str) -> str:
    return url.replace("guest:guest@", f"guest:{password}@")


# ---- waiting


@pytest.mark.feature("S3-08")
def test_publishers_and_calls_wait_while_there_is_no_connection(leveret_broker: leveret.Broker) -> None:
    """They go on when it is back."""

    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
        ):
            await channel.declare_queue("q")
            await proxy.refuse()
            await told(connection, "lost", proxy.cut)
            waiting = [
                asyncio.ensure_future(channel.publish(b"a", routing_key="q")),
                asyncio.ensure_future(channel.declare_queue("other")),
                asyncio.ensure_future(connection.channel()),
                asyncio.ensure_future(channel.delete_queue("other")),
            ]
            done, _ = await asyncio.wait(waiting, timeout=0.02)
            assert not done
            assert not connection.is_closed
            await proxy.listen()
            await asyncio.gather(*waiting)

    run(work)
    assert leveret_broker.vhost().get("q") is not None


def test_the_option_timeout_bounds_the_wait(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url, options="&timeout=20") as (connection, channel, _),
        ):
            await channel.declare_queue("q")
            await channel.confirm_select()
            await proxy.refuse()
            await told(connection, "lost", proxy.cut)
            calls = [channel.publish(b"a", routing_key="q"), channel.purge_queue("q"), connection.channel()]
            for problem in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(problem, ConnectionLost)
                assert "for 0.02 s: check the broker, or raise the option 'timeout'" in str(problem)
            with pytest.raises(ConnectionLost, match="'timeout'"):
                await channel.publish(b"b", routing_key="q")
            await told(connection, "reconnected", lambda: asyncio.ensure_future(proxy.listen()))
            await channel.publish(b"c", routing_key="q")

    run(work)
    got = leveret_broker.vhost().get("q")
    assert got is not None
    assert got.body == b"c"


# ---- ends


def test_after_the_last_attempt_everybody_is_told(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url, options="&maxReconnectAttempts=2") as (connection, channel, kinds),
        ):
            await channel.declare_queue("q")
            await channel.confirm_select()
            consumer = await channel.consume("q")
            await proxy.refuse()
            end = await told(connection, "closed", proxy.cut)
            assert "after 2 attempts" in str(end.problem)
            assert kinds == ["lost", "reconnecting", "attempt failed", "attempt failed", "closed"]
            assert connection.is_closed
            for call in (consumer.next(), channel.publish(b""), channel.declare_queue("p"), connection.channel()):
                with pytest.raises(ConnectionLost, match="after 2 attempts"):
                    await call

    run(work)


def test_without_reconnects_the_loss_is_the_end(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url, options="&maxReconnectAttempts=0") as (connection, _, kinds),
        ):
            await told(connection, "closed", proxy.cut)
            assert kinds == ["lost", "closed"]
            assert connection.is_closed

    run(work)


def test_the_first_connection_has_a_number_of_attempts_of_its_own() -> None:
    async def work() -> None:
        uri = "failover:(amqp://127.0.0.1:1)?initialReconnectDelay=1&startupMaxReconnectAttempts=3"
        with pytest.raises(ConnectionLost, match=r"no connection to any of amqp://guest@127.* after 3 att"):
            await connect(uri)

    run(work)


def test_a_login_that_all_refuse_is_not_tried_for_ever(leveret_broker: leveret.Broker) -> None:
    wrong = with_password(leveret_broker.amqp_url, "wrong")

    async def refused() -> None:
        with pytest.raises(LoginRefused):
            await connect(f"failover:({wrong},{wrong})")

    async def taken_by_one() -> str:
        async with failing_over(wrong, leveret_broker.amqp_url) as (connection, _, _):
            return connection.address.password

    run(refused)
    assert run(taken_by_one) == "guest"


def test_a_login_that_is_refused_later_ends_the_connection(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
        ):
            users = leveret_broker.node.broker.users
            leveret_broker.call(lambda: users.delete("guest"))
            end = await told(connection, "closed", proxy.cut)
            assert isinstance(end.problem, LoginRefused)
            with pytest.raises(LoginRefused):
                await channel.declare_queue("q")

    run(work)


def test_an_error_of_ours_ends_the_connection(leveret_broker: leveret.Broker) -> None:
    """The next connection would end by it too."""

    async def work() -> None:
        async with failing_over(leveret_broker.amqp_url) as (connection, channel, kinds):
            frame = b"\x01\x00\x01\x00\x00\x00\x04\x00\x0a\x00\x0a\xce"  # connection.start on a channel
            end = await told(connection, "closed", lambda: connection.write(frame))
            assert end.problem is not None
            assert kinds == ["lost", "closed"]
            assert channel.is_closed

    run(work)


def test_a_channel_error_ends_the_channel_alone(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
        ):
            other = await connection.channel()
            with pytest.raises(NotFound):
                await channel.declare_queue("none", passive=True)
            await told(connection, "reconnected", proxy.cut)
            await other.declare_queue("q")
            with pytest.raises(NotFound):
                await channel.declare_queue("q")

    run(work)


def test_close_while_there_is_no_connection(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy:
            async with failing_over(proxy.url) as (connection, channel, kinds):
                await proxy.refuse()
                await told(connection, "lost", proxy.cut)
                waiting = asyncio.ensure_future(channel.declare_queue("q"))
                await connection.close()
                with pytest.raises(Closed):
                    await waiting
                with pytest.raises(Closed):
                    await connection.channel()
                assert kinds[-1] == "closed"
            await asyncio.sleep(0)
            assert proxy.accepted == 1

    run(work)


@pytest.mark.feature("S3-08")
def test_topology_that_cannot_be_declared_again_is_told(leveret_broker: leveret.Broker) -> None:
    """The rest is restored; the owner learns what is not."""
    leveret_broker.vhost().declare_queue("q", durable=True, arguments={"x-max-length": 5})

    async def work(first: leveret.Broker) -> None:
        async with failing_over(first.amqp_url, leveret_broker.amqp_url) as (connection, channel, _):
            told_of: list[Happening] = []
            connection.listeners.append(told_of.append)
            await channel.declare_queue("q", durable=True)
            await channel.declare_queue("p")
            loop = asyncio.get_running_loop()
            await told(connection, "reconnected", lambda: loop.run_in_executor(None, first.stop))
            (refused,) = [each for each in told_of if each.kind == "not restored"]
            assert isinstance(refused.problem, PreconditionFailed)
            assert "queue.declare could not be repeated" in refused.text
            assert (await channel.declare_queue("p", passive=True)).queue == "p"

    with leveret.Broker() as first:
        run(lambda: work(first))


# ---- transactions


@pytest.mark.feature("S3-08", "S3-16")
def test_an_open_transaction_is_rolled_back_and_its_commit_raises(leveret_broker: leveret.Broker) -> None:
    """Nothing of it counts; the next one does."""

    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
        ):
            await channel.declare_queue("in")
            await channel.declare_queue("out")
            await channel.select_transactions()
            await channel.publish(b"work", routing_key="in")
            await channel.commit()
            consumer = await channel.consume("in")
            delivery = await consumer.next()
            assert delivery is not None
            delivery.ack()
            await channel.publish(b"lost", routing_key="out")
            await told(connection, "reconnected", proxy.cut)
            await channel.publish(b"lost too", routing_key="out")
            with pytest.raises(TransactionRolledBack, match="counts as rolled back; repeat it"):
                await channel.commit()
            again = await consumer.next()  # the application is to see it again
            assert again is not None
            assert again.redelivered
            again.ack()
            await channel.publish(b"done", routing_key="out")
            await channel.commit()

    run(work)
    vhost = leveret_broker.vhost()
    assert vhost.get("in") is None
    assert [got.body for got in iter(lambda: vhost.get("out", auto_ack=True), None)] == [b"done"]


def test_a_transaction_that_acks_what_came_before_the_loss_cannot_be_committed(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
        ):
            await channel.declare_queue("in")
            await channel.select_transactions()
            await channel.publish(b"work", routing_key="in")
            await channel.commit()
            delivery = await channel.get("in")
            assert delivery is not None
            await told(connection, "reconnected", proxy.cut)
            await channel.commit()  # nothing was done in it
            delivery.ack()
            with pytest.raises(TransactionRolledBack):
                await channel.commit()
            await channel.rollback()

    run(work)
    assert leveret_broker.vhost().get("in") is not None


def test_a_commit_without_an_answer_counts_as_rolled_back(leveret_broker: leveret.Broker) -> None:
    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
        ):
            await channel.declare_queue("q")
            await channel.select_transactions()
            channel.send(b"a", routing_key="q")
            proxy.stall()
            commit = asyncio.ensure_future(channel.commit())
            await told(connection, "lost", lambda: asyncio.get_running_loop().call_soon(proxy.cut))
            proxy.resume()
            with pytest.raises(TransactionRolledBack):
                await commit
            await channel.commit()

    run(work)
    assert leveret_broker.vhost().get("q") is None


# ---- silence, slowness, restarts


@pytest.mark.feature("S3-08", "S3-09")
def test_a_half_closed_connection_is_noticed_by_heartbeats(leveret_broker: leveret.Broker) -> None:
    """Nothing is heard for two intervals; the client goes elsewhere."""

    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url, options="&nested.heartbeat=1") as (connection, channel, kinds),
        ):
            await told(connection, "reconnected", proxy.half_close)
            assert "silent" in kinds
            assert proxy.cuts == 0
            await channel.declare_queue("q")

    run(work)


def test_a_slow_network_changes_nothing(leveret_broker: leveret.Broker) -> None:
    async def work() -> list[bytes]:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, _),
        ):
            await channel.declare_queue("q")
            proxy.delay = 0.01
            await told(connection, "reconnected", proxy.cut)
            for number in range(20):
                channel.send(b"%d" % number, routing_key="q")
            return await taken(await channel.consume("q"), 20)

    assert run(work) == [b"%d" % number for number in range(20)]


@pytest.mark.feature("S3-08")
def test_a_broker_that_restarts_has_its_durable_queues_and_its_client_back(tmp_path: Path) -> None:
    """It knows the ids of its earlier life, and the consumer goes on."""

    def broker() -> leveret.Broker:
        settings = leveret.Settings(
            data_dir=tmp_path / "data", amqp_port=0, http_port=None, https_port=None, stomp_port=None
        )
        return leveret.Broker(settings)

    async def work(first: leveret.Broker, second: leveret.Broker) -> list[bytes]:
        loop = asyncio.get_running_loop()
        async with ChaosProxy(first.amqp_url) as proxy, failing_over(proxy.url) as (connection, channel, kinds):
            await channel.declare_queue("q", durable=True)
            await channel.confirm_select()
            persistent = Properties(delivery_mode=2, message_id="before")
            await channel.publish(b"before", routing_key="q", properties=persistent)
            lost = await told(connection, "lost", lambda: loop.run_in_executor(None, first.stop))
            assert isinstance(lost.problem, ConnectionForced)
            await loop.run_in_executor(None, first.stop)  # returns when it is stopped
            await loop.run_in_executor(None, second.start)
            await told(connection, "reconnected", lambda: proxy.lead_to(second.amqp_url))
            assert [kind for kind in kinds if kind != "attempt failed"] == ["lost", "reconnecting", "reconnected"]
            await channel.publish(b"a duplicate", routing_key="q", properties=persistent)
            await channel.publish(b"after", routing_key="q", properties=Properties(delivery_mode=2))
            return await taken(await channel.consume("q"), 2)

    with broker() as first:
        second = broker()
        try:
            assert run(lambda: work(first, second)) == [b"before", b"after"]
        finally:
            second.stop()

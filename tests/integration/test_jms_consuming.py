"""How messages reach an application of the JMS client, and how that ends, against a broker on a socket."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser, BootstrapVhost
from leveret.client import Cancelled, ConnectionLost
from leveret.client.address import parsed
from leveret.client.jms import AckMode, ConnectionFactory, IllegalState, Message, Queue
from leveret.errors import LoginRefused, NotFound
from tests.support.jms_harness import JmsHarness, body_of, play

Broker = leveret.Broker


# ---- from the factory to the message


@pytest.mark.feature("S3-01", "S3-02")
def test_a_factory_makes_connections_which_make_sessions_which_make_the_rest(leveret_broker: Broker) -> None:
    """What a producer sends is stored, and a consumer of another session gets it."""

    async def scene(world: JmsHarness) -> None:
        sender = await world.session()
        producer = await sender.create_producer(Queue("q"))
        await producer.send(sender.create_text_message("hello"))
        assert await world.counts(sender) == (1, 0)
        message = await (await world.consumer()).receive()
        assert message is not None
        assert message.body == "hello"

    play(leveret_broker, scene)


@pytest.mark.feature("S4-63")
def test_a_factory_takes_a_uri_or_its_parts() -> None:
    bootstrap = Bootstrap(
        vhosts=(BootstrapVhost("red"),),
        users=(BootstrapUser("ann", "secret"),),
        permissions=(BootstrapPermission("ann", "red", ".*", ".*", ".*"),),
    )
    settings = leveret.Settings(
        amqp_port=0, http_port=None, stomp_port=None, login_failure_delay=0.0, bootstrap=bootstrap
    )

    async def vhost_of(factory: ConnectionFactory, *login: str) -> str:
        async with await factory.create_connection(*login) as connection:
            return connection.client.address.vhost

    async def scene(url: str) -> None:
        address = parsed(url)
        parts = ConnectionFactory(host=address.host, port=address.port, vhost="red", user="ann", password="secret")
        assert await vhost_of(parts) == "red"
        whole = ConnectionFactory(f"amqp://ann:secret@{address.host}:{address.port}/red")
        assert await vhost_of(whole) == "red"
        mixed = ConnectionFactory(whole.uri, password="wrong")
        with pytest.raises(LoginRefused):
            await vhost_of(mixed)
        assert await vhost_of(mixed, "ann", "secret") == "red"

    with leveret.Broker(settings) as broker:
        asyncio.run(scene(broker.amqp_url))


# ---- receive and listener


@pytest.mark.feature("S1-01", "S1-04")
def test_messages_come_by_receive_or_by_a_listener(leveret_broker: Broker) -> None:
    """Each consumer has its own line, whatever the others do."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        asked = await session.create_consumer(Queue("asked"))
        plain: list[bytes] = []
        awaited: list[bytes] = []

        async def listen(message: Message) -> None:
            await asyncio.sleep(0)
            awaited.append(body_of(message))

        await session.create_consumer(Queue("plain"), listener=lambda message: plain.append(body_of(message)))
        await session.create_consumer(Queue("awaited"), listener=listen)
        for queue in ("asked", "plain", "awaited"):
            await world.put(f"{queue} 1", f"{queue} 2", queue=queue)
        await world.until(lambda: len(plain) == len(awaited) == 2)
        assert await world.bodies(asked, 2) == [b"asked 1", b"asked 2"]
        assert plain == [b"plain 1", b"plain 2"]
        assert awaited == [b"awaited 1", b"awaited 2"]

    play(leveret_broker, scene)


@pytest.mark.feature("S1-02")
def test_receive_and_listener_exclude_each_other(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        listening = await world.consumer(listener=print)
        with pytest.raises(IllegalState, match="has a listener"):
            await listening.receive(0)
        with pytest.raises(IllegalState, match="has a listener"):
            await listening.receive_no_wait()
        asking = await world.consumer()
        assert await asking.receive_no_wait() is None
        with pytest.raises(IllegalState, match="was used by receive"):
            asking.listener = print

    play(leveret_broker, scene)


def test_only_one_receive_at_a_time(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        consumer = await world.consumer()
        first = asyncio.ensure_future(consumer.receive())
        await asyncio.sleep(0)
        with pytest.raises(IllegalState, match=r"already has a pending receive\(\)"):
            await consumer.receive()
        await world.put("one")
        assert body_of(await first) == b"one"

    play(leveret_broker, scene)


def test_receive_returns_nothing_when_its_time_is_over(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        for prefetch in (10, 0):
            consumer = await world.consumer(prefetch=prefetch)
            asked = asyncio.ensure_future(consumer.receive(5))
            await world.until(lambda: world.clock.pending == [5])
            world.clock.advance(4.9)
            await world.counts(consumer.session)
            assert not asked.done()
            world.clock.advance(0.1)
            assert await asked is None

    play(leveret_broker, scene)


@pytest.mark.feature("S1-03", "S3-12", "S3-13")
def test_nothing_is_dispatched_before_the_connection_is_started(leveret_broker: Broker) -> None:
    """Pushed messages wait in the session's line, then in the line of their consumer."""

    async def scene(world: JmsHarness) -> None:
        await world.connection.stop()
        heard: list[bytes] = []
        await world.put("a", "b")
        await world.put("c", queue="other")
        asking = await world.consumer()
        await world.consumer(queue="other", listener=lambda message: heard.append(body_of(message)))
        asked = asyncio.ensure_future(asking.receive())
        assert await world.counts(asking.session) == (0, 2)  # they are in the client
        assert not asked.done()
        assert not asking.unconsumed
        assert not heard
        await world.connection.start()
        assert body_of(await asked) == b"a"
        assert [entry.delivery.body for entry in asking.unconsumed] == [b"b"]
        await world.until(lambda: heard == [b"c"])
        await world.connection.stop()
        assert await asking.receive_no_wait() is None  # b is there, but not to be had
        await world.connection.start()
        assert body_of(await asking.receive()) == b"b"

    play(leveret_broker, scene)


def test_stop_waits_for_the_listener_that_runs(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        entered, leave = asyncio.Event(), asyncio.Event()
        left: list[bytes] = []

        async def listen(message: Message) -> None:
            entered.set()
            await leave.wait()
            left.append(body_of(message))

        await world.put("a", "b")
        await world.consumer(listener=listen)
        await entered.wait()
        stopping = asyncio.ensure_future(world.connection.stop())
        await world.channel.declare_queue("q", passive=True)
        assert not stopping.done()
        leave.set()
        await stopping
        assert left == [b"a"]

    play(leveret_broker, scene)


# ---- ends


@pytest.mark.feature("S3-17")
def test_an_idle_session_keeps_its_messages_and_a_closed_one_gives_them_back(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b", "c")
        idle = await world.consumer(AckMode.CLIENT)
        assert await world.bodies(idle, 1) == [b"a"]
        other = await world.consumer()
        assert await other.receive_no_wait() is None
        assert await world.counts(other.session) == (0, 3)
        await idle.session.close()
        assert await world.bodies(other, 3) == [b"a", b"b", b"c"]

    play(leveret_broker, scene)


def test_a_closed_consumer_gives_back_what_it_did_not_hand_over(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b", "c")
        consumer = await world.consumer(AckMode.CLIENT)
        await world.bodies(consumer, 1)
        await consumer.close()
        assert await world.counts(consumer.session) == (2, 1)
        consumer.session.acknowledge()
        assert await world.counts(consumer.session) == (2, 0)
        with pytest.raises(IllegalState, match="closed"):
            await consumer.receive()

    play(leveret_broker, scene)


@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
@pytest.mark.feature("S1-08")
def test_a_close_waits_for_the_listener_that_runs(leveret_broker: Broker, what: str) -> None:
    """Its message is acked, since it returns; the next one is not handed over."""

    async def scene(world: JmsHarness) -> None:
        entered, leave = asyncio.Event(), asyncio.Event()
        left: list[bytes] = []

        async def listen(message: Message) -> None:
            entered.set()
            await leave.wait()
            left.append(body_of(message))

        await world.put("a", "b")
        consumer = await world.consumer(listener=listen)
        closable = {"consumer": consumer, "session": consumer.session, "connection": world.connection}
        await entered.wait()
        closing = asyncio.ensure_future(closable[what].close())  # type: ignore[attr-defined]
        await world.channel.declare_queue("q", passive=True)
        assert not closing.done()
        leave.set()
        await closing
        assert left == [b"a"]
        assert world.acks == [("STANDARD", [b"a"])]

    play(leveret_broker, scene)
    assert leveret_broker.vhost().message_count("q") == 1


def test_a_consumer_closed_while_the_connection_is_stopped_gives_everything_back(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b")
        await world.connection.stop()
        consumer = await world.consumer()
        assert await world.counts(consumer.session) == (0, 2)
        await consumer.close()
        assert await world.counts(consumer.session) == (2, 0)

    play(leveret_broker, scene)


@pytest.mark.feature("S3-23")
def test_sessions_of_one_connection_do_not_interfere(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a", queue="a")
        await world.put("b", queue="b")
        first = await world.consumer(AckMode.CLIENT, "a")
        second = await world.consumer(AckMode.CLIENT, "b")
        assert await world.bodies(first, 1) + await world.bodies(second, 1) == [b"a", b"b"]
        second.session.acknowledge()
        with pytest.raises(NotFound):
            await first.session.channel.declare_queue("nowhere", passive=True)  # which ends the first session
        with pytest.raises(NotFound):
            await first.receive()
        await world.put("more", queue="b")
        assert await world.bodies(second, 1) == [b"more"]
        assert await world.counts(second.session, "a") == (1, 0)
        assert await world.counts(second.session, "b") == (0, 1)

    play(leveret_broker, scene)


def test_a_close_ends_a_receive_that_waits(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        for prefetch in (10, 0):
            consumer = await world.consumer(prefetch=prefetch)
            asked = asyncio.ensure_future(consumer.receive())
            await asyncio.sleep(0)
            await consumer.session.close()
            assert await asked is None

    play(leveret_broker, scene)


def test_a_session_closes_itself_from_its_listener(leveret_broker: Broker) -> None:
    """Its message was not acked at that time, and comes again elsewhere."""

    async def scene(world: JmsHarness) -> None:
        session = await world.session()
        closed = asyncio.Event()

        async def listen(message: Message) -> None:
            await session.close()
            closed.set()

        await world.put("a", "b")
        await session.create_consumer(Queue("q"), listener=listen)
        await closed.wait()
        other = await world.consumer()
        assert await world.bodies(other, 2) == [b"a", b"b"]

    play(leveret_broker, scene)


def test_a_queue_that_is_deleted_ends_its_consumers(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        told: list[Exception] = []
        world.connection.exception_listener = told.append
        for prefetch in (10, 0):
            consumer = await world.consumer(queue=f"gone{prefetch}", prefetch=prefetch)
            asked = asyncio.ensure_future(consumer.receive())
            await world.subscribed(queue=f"gone{prefetch}")
            await world.channel.delete_queue(f"gone{prefetch}")
            with pytest.raises(Cancelled):
                await asked
        assert len(told) == 2

    play(leveret_broker, scene)


def test_a_lost_connection_is_told_once_and_ends_every_receive(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        told: list[Exception] = []
        world.connection.exception_listener = told.append
        consumers = [await world.consumer(), await world.consumer()]
        asked = [asyncio.ensure_future(consumer.receive()) for consumer in consumers]
        await asyncio.sleep(0)
        world.connection.client._transport.abort()  # type: ignore[union-attr]
        for task in asked:
            with pytest.raises(ConnectionLost):
                await task
        assert len(told) == 1

    play(leveret_broker, scene)

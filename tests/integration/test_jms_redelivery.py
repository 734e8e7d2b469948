"""Second chances: recover, listeners that raise, the policy of redelivery and what is given up, against a broker."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest

import leveret
from leveret.client.jms import AckMode, IllegalState, Message, Queue, RedeliveryPolicy
from leveret.wire.fields import Table
from tests.support.jms_harness import JmsHarness, play

Broker = leveret.Broker
AT_ONCE = RedeliveryPolicy(initial_delay=0)
DEAD: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "leveret.client.jms")


class Stumbler:
    """A listener that keeps what it gets, and raises at some of it."""

    def __init__(self, *stumbles: str, times: int = 1) -> None:
        self.got: list[str] = []
        self.counts: list[int] = []
        self._left = dict.fromkeys(stumbles, times)

    def __call__(self, message: Message) -> None:
        assert message.delivery is not None
        body = message.delivery.body.decode()
        self.got.append(body)
        self.counts.append(message.delivery_count)
        if self._left.get(body, 0):
            self._left[body] -= 1
            raise RuntimeError(f"stumbled over {body}")


@pytest.mark.feature("S1-14", "S1-19", "S3-15")
def test_recover_brings_back_what_was_not_acknowledged_in_its_order(leveret_broker: Broker) -> None:
    """REDELIVERED; the whole delivered list, before what was behind it."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abcd")
        consumer = await world.consumer(AckMode.CLIENT)
        first = await consumer.receive()
        assert first is not None
        first.acknowledge()
        assert await world.bodies(consumer, 2) == [b"b", b"c"]
        await consumer.session.recover()
        again = await consumer.receive()
        assert again is not None
        assert again.delivery is not None
        assert (again.delivery.body, again.redelivered, again.delivery_count) == (b"b", True, 2)
        assert await world.bodies(consumer, 2) == [b"c", b"d"]
        assert world.acks == [("STANDARD", [b"a"]), ("REDELIVERED", [b"b", b"c"])]
        assert await world.counts(consumer.session) == (0, 3)

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.feature("S1-19")
def test_what_was_never_acknowledged_comes_again_elsewhere(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a")
        consumer = await world.consumer(AckMode.CLIENT)
        await world.bodies(consumer, 1)
        await consumer.session.close()
        other = await (await world.consumer()).receive()
        assert other is not None
        assert other.redelivered

    play(leveret_broker, scene)


@pytest.mark.feature("S3-22")
def test_the_clients_count_starts_anew_and_the_brokers_does_not(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.channel.declare_queue("q", durable=True, arguments={"x-delivery-limit": 10})
        await world.channel.publish(b"a", "", "q")
        consumer = await world.consumer(AckMode.CLIENT)
        for count in range(3):
            message = await consumer.receive()
            assert message is not None
            assert (message.redeliveries, message.broker_redeliveries) == (count, 0)
            await consumer.session.recover()
        await consumer.session.close()
        message = await (await world.consumer(AckMode.CLIENT)).receive()
        assert message is not None
        assert (message.redeliveries, message.broker_redeliveries) == (0, 1)

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.feature("S3-15", "S3-21")
def test_a_listener_that_raises_gets_its_message_again_first(leveret_broker: Broker) -> None:
    """Counted; nothing is acked before it succeeds, and the order stays."""

    async def scene(world: JmsHarness) -> None:
        await world.put(*"abc")
        listener = Stumbler("b", times=2)
        await world.consumer(AckMode.AUTO, listener=listener)
        await world.until(lambda: listener.got[-1:] == ["c"])
        assert listener.got == ["a", "b", "b", "b", "c"]
        assert listener.counts == [1, 1, 2, 3, 1]
        await world.until(lambda: len(world.acks) == 5)
        assert world.acks == [
            ("STANDARD", [b"a"]),
            ("REDELIVERED", [b"b"]),
            ("REDELIVERED", [b"b"]),
            ("STANDARD", [b"b"]),
            ("STANDARD", [b"c"]),
        ]

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.feature("S3-15", "S3-21")
def test_retries_wait_longer_and_longer_and_hold_up_what_is_behind(leveret_broker: Broker) -> None:
    """The delays of the policy, by the scheduler."""

    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b")
        listener = Stumbler("a", times=4)
        await world.consumer(AckMode.AUTO, listener=listener)

        def tried(times: int) -> bool:
            return len(listener.got) == times and bool(world.clock.pending)

        for tries, delay in enumerate((1, 3, 5, 5), start=1):
            await world.until(partial(tried, tries))
            assert world.clock.pending == [delay]
            world.clock.advance(delay - 0.1)
            await world.until(lambda: True)
            assert listener.got == ["a"] * tries
            world.clock.advance(0.1)
        await world.until(lambda: listener.got == ["a", "a", "a", "a", "a", "b"])

    policy = RedeliveryPolicy(use_exponential_backoff=True, multiplier=3, maximum_delay=5)
    play(leveret_broker, scene, redelivery=policy)


def test_a_retry_that_does_not_block_lets_others_pass(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put(*"abc")
        listener = Stumbler("a")
        await world.consumer(AckMode.AUTO, listener=listener)
        await world.until(lambda: listener.got == ["a", "b", "c"])
        world.clock.advance(1)
        await world.until(lambda: listener.got == ["a", "b", "c", "a"])

    play(leveret_broker, scene, redelivery=RedeliveryPolicy(non_blocking=True))


@pytest.mark.feature("S1-12", "S1-20")
def test_after_six_redeliveries_a_message_is_poison(leveret_broker: Broker) -> None:
    """Seven deliveries; then it is rejected, so that the broker's dead letters have it."""

    async def scene(world: JmsHarness) -> None:
        await world.channel.declare_queue("dead")
        await world.channel.declare_queue("q", durable=True, arguments=DEAD)
        world.channel.send(b"bad", "", "q")
        world.channel.send(b"good", "", "q")
        listener = Stumbler("bad", times=100)
        consumer = await world.consumer(AckMode.AUTO, listener=listener)
        await world.until(lambda: listener.got[-1:] == ["good"])
        assert listener.got == ["bad"] * 7 + ["good"]
        assert [kind for kind, bodies in world.acks if bodies == [b"bad"]] == ["REDELIVERED"] * 6 + ["POISON"]
        assert await world.counts(consumer.session) == (0, 0)
        fetched = await world.channel.get("dead", no_ack=True)
        assert fetched is not None
        assert fetched.headers["x-first-death-reason"] == "rejected"

    play(leveret_broker, scene, redelivery=AT_ONCE)


def test_only_what_failed_too_often_is_given_up(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("old", "new")
        consumer = await world.consumer(AckMode.CLIENT)
        await world.bodies(consumer, 1)
        await consumer.session.recover()
        await world.bodies(consumer, 2)
        await consumer.session.recover()
        assert world.acks[1:] == [("POISON", [b"old"]), ("REDELIVERED", [b"new"])]
        assert await world.bodies(consumer, 1) == [b"new"]

    play(leveret_broker, scene, redelivery=RedeliveryPolicy(initial_delay=0, maximum_redeliveries=1))


def test_individual_retries_the_one_that_failed(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put(*"abc")
        listener = Stumbler("b")
        await world.consumer(AckMode.INDIVIDUAL, listener=listener)
        await world.until(lambda: len(listener.got) == 4)
        assert listener.got == ["a", "b", "b", "c"]

    play(leveret_broker, scene, redelivery=AT_ONCE)


def test_client_goes_on_after_a_listener_that_raised_and_recover_has_it(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put(*"ab")
        listener = Stumbler("a")
        consumer = await world.consumer(AckMode.CLIENT, listener=listener)
        await world.until(lambda: listener.got == ["a", "b"])
        await consumer.session.recover()
        await world.until(lambda: listener.got == ["a", "b", "a", "b"])

    play(leveret_broker, scene, redelivery=AT_ONCE)


def test_dups_ok_retries_only_what_failed(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put(*"abc")
        listener = Stumbler("b")
        await world.consumer(AckMode.DUPS_OK, listener=listener)
        await world.until(lambda: len(listener.got) == 4)
        assert listener.got == ["a", "b", "b", "c"]
        assert world.acks == [("STANDARD", [b"a"]), ("REDELIVERED", [b"b"])]

    play(leveret_broker, scene, redelivery=AT_ONCE)


def test_recover_within_a_listener_keeps_its_message_unacked(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.AUTO)
        got: list[int] = []

        async def listen(message: Message) -> None:
            got.append(message.delivery_count)
            if len(got) == 1:
                await session.recover()

        await world.put("a")
        await session.create_consumer(Queue("q"), listener=listen)
        await world.until(lambda: world.acks == [("REDELIVERED", [b"a"]), ("STANDARD", [b"a"])])
        assert got == [1, 2]

    play(leveret_broker, scene, redelivery=AT_ONCE)


@pytest.mark.parametrize("non_blocking", [False, True])
def test_closing_gives_back_what_waits_for_its_retry(leveret_broker: Broker, non_blocking: bool) -> None:
    async def scene(world: JmsHarness) -> None:
        await world.put("a", "b")
        listener = Stumbler("a", "b")
        consumer = await world.consumer(AckMode.AUTO, listener=listener)
        await world.until(lambda: world.acks[:1] == [("REDELIVERED", [b"a"])])
        await world.until(lambda: len(listener.got) == (2 if non_blocking else 1))
        await consumer.close()
        assert world.clock.pending == []
        assert await world.counts(consumer.session) == (2, 0)
        other = await world.consumer()
        assert await world.bodies(other, 2) == [b"a", b"b"]

    play(leveret_broker, scene, redelivery=RedeliveryPolicy(non_blocking=non_blocking))


@pytest.mark.feature("S1-12")
def test_a_message_that_cannot_be_read_is_poison(leveret_broker: Broker) -> None:
    """Whose headers are no table; nobody could ever consume it, and it must not stand in the way."""

    async def scene(world: JmsHarness) -> None:
        await world.put("first")
        broken = b"\x20\x00" + b"\x00\x00\x00\x04" + b"\x02ab!"
        send_raw(world, broken)
        await world.put("last")
        consumer = await world.consumer(AckMode.AUTO)
        assert await world.bodies(consumer, 2) == [b"first", b"last"]
        assert ("POISON", [b"broken"]) in world.acks

    play(leveret_broker, scene)


def send_raw(world: JmsHarness, properties: bytes) -> None:
    from leveret.wire.frames import content_frames, method_frame
    from leveret.wire.methods import BasicPublish

    number = world.channel.number
    assert world.channel.confirms is not None
    world.channel.confirms.track(world.channel.confirms.new_future())
    publish = method_frame(number, BasicPublish("", "q", False, False))
    world.channel.connection.write(publish + content_frames(number, properties, b"broken", 1 << 17))


def test_recover_is_not_for_transactions(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        session = await world.session(AckMode.SESSION_TRANSACTED)
        with pytest.raises(IllegalState, match="rollback"):
            await session.recover()

    play(leveret_broker, scene)


def test_a_listener_whose_work_was_cancelled_has_failed(leveret_broker: Broker) -> None:
    async def scene(world: JmsHarness) -> None:
        counts: list[int] = []

        async def listen(message: Message) -> None:
            counts.append(message.delivery_count)
            if len(counts) == 1:
                work = asyncio.ensure_future(asyncio.Event().wait())
                asyncio.get_running_loop().call_soon(work.cancel)
                await work

        await world.put("a")
        await world.consumer(AckMode.AUTO, listener=listen)
        await world.until(lambda: ("STANDARD", [b"a"]) in world.acks)
        assert counts == [1, 2]

    play(leveret_broker, scene, redelivery=AT_ONCE)

"""The blocking face, the face of JMS and the example over failover: and fanout: addresses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import leveret
from leveret.client import blocking
from leveret.client.jms import AckMode, ConnectionFactory
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import QUICK, run, told

EXAMPLE = Path(__file__).parents[2] / "examples" / "failover.py"
PARCELS = [f"parcel {number}" for number in range(1, 7)]


def printed(*arguments: str) -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.feature("S3-08")
def test_the_example_goes_on_at_the_other_broker() -> None:
    assert printed() == [*PARCELS[:3], "the connection is lost", "the connection is back", *PARCELS[3:]]


def test_the_example_runs_with_brokers_that_are_there(leveret_broker: leveret.Broker) -> None:
    assert printed(leveret_broker.amqp_url, "amqp://127.0.0.1:1") == PARCELS
    assert leveret_broker.call(lambda: list(leveret_broker.node.broker.vhost("/").queues)) == []


@pytest.mark.feature("S3-08")
def test_threads_publish_and_consume_over_cuts(leveret_broker: leveret.Broker) -> None:
    """The blocking face over a connection that is cut."""

    def publish_and_consume(uri: str) -> list[bytes]:
        with blocking.connect(uri) as connection:
            channel = connection.channel()
            channel.declare_queue("q")
            channel.confirm_select()
            confirms = [channel.send(b"%d" % number, routing_key="q") for number in range(500)]
            for confirm in confirms:
                assert confirm is not None
                confirm.result(20)
            consumer = channel.consume("q")
            bodies: list[bytes] = []
            while len(bodies) < 500:
                delivery = consumer.next(timeout=20)
                assert delivery is not None
                delivery.ack()
                bodies.append(delivery.body)
            return bodies

    async def work() -> tuple[list[bytes], int]:
        async with ChaosProxy(leveret_broker.amqp_url, cut_plan=[20_000, 30_000, 25_000, 25_000]) as proxy:
            uri = f"failover:({proxy.url})?{QUICK}"
            return await asyncio.get_running_loop().run_in_executor(None, publish_and_consume, uri), proxy.cuts

    bodies, cuts = run(work)
    assert cuts == 4
    assert bodies == [b"%d" % number for number in range(500)]


@pytest.mark.feature("S3-07")
def test_threads_publish_to_several_brokers(leveret_broker: leveret.Broker) -> None:
    """The blocking face over a fanout, with messages of several frames."""
    with leveret.Broker() as other:
        with blocking.connect(f"fanout:({leveret_broker.amqp_url},{other.amqp_url}?frame_max=4096)") as connection:
            connection.channel()  # so that the numbers of channels are not all 1
            channel = connection.channel()
            channel.declare_queue("q")
            channel.confirm_select()
            for number in range(10):
                channel.publish(b"%d" % number + b"x" * 10_000, routing_key="q")
        for vhost in (leveret_broker.vhost(), other.vhost()):
            got = [vhost.get("q", auto_ack=True) for _ in range(11)]
            assert [each.body[:1] for each in got if each] == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.CLIENT, AckMode.DUPS_OK, AckMode.SESSION_TRANSACTED])
@pytest.mark.feature("S3-02", "S3-08")
def test_a_session_of_jms_lives_on(leveret_broker: leveret.Broker, mode: AckMode) -> None:
    """Messages reach the consumer once and in order in all ack modes."""

    async def work() -> list[str]:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy:
            factory = ConnectionFactory(f"failover:({proxy.url})?{QUICK}")
            connection = await factory.create_connection()
            await connection.start()
            session = await connection.create_session(mode)
            queue = session.create_queue("orders")
            producer, consumer = await session.create_producer(queue), await session.create_consumer(queue)
            texts = []
            for number in range(6):
                await producer.send(session.create_text_message(f"order {number}"))
                if mode is AckMode.SESSION_TRANSACTED:
                    await session.commit()
                message = await consumer.receive(timeout=20)
                assert message is not None
                texts.append(str(message.body))
                if mode is AckMode.SESSION_TRANSACTED:
                    await session.commit()
                elif mode is AckMode.CLIENT:
                    message.acknowledge()
                if number in (1, 3):
                    await told(connection.client, "reconnected", proxy.cut)
            await connection.close()
            return texts

    assert run(work) == [f"order {number}" for number in range(6)]
    assert leveret_broker.vhost().get("orders") is None

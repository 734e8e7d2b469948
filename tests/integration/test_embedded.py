"""A broker in your own process: how it starts and stops, and that it is a real one meanwhile."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Coroutine
from pathlib import Path

import aio_pika
import pika
import pytest

import leveret
from leveret.errors import BrokerStopped, ChannelFault, ConfigError
from tests.support.peers import LocalPeer, NetworkPeer

QUIET = {"http_port": None, "stomp_port": None}


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("leveret")]


# ---- starting and stopping


@pytest.mark.feature("S4-62")
def test_a_with_statement_gives_a_running_broker_and_takes_it_away() -> None:
    with leveret.Broker() as broker:
        url = broker.amqp_url
        assert url.startswith(f"amqp://guest:{broker.password}@127.0.0.1:")
        peer = NetworkPeer(url)
        peer.declare_queue("q")
        assert broker.vhost().publish("", "q", b"m")
        assert peer.get("q").body == b"m"  # type: ignore[union-attr]
        peer.close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(url))
    assert our_threads() == []


@pytest.mark.feature("S4-62")
def test_start_and_stop_may_be_called_by_hand_and_twice() -> None:
    """Each start is a fresh broker."""
    broker = leveret.Broker()
    broker.stop()
    assert broker.start() is broker
    url = broker.amqp_url
    assert broker.start().amqp_url == url
    broker.vhost().declare_queue("q")
    broker.stop()
    broker.stop()
    with broker:
        assert broker.amqp_url
        with pytest.raises(leveret.errors.NotFound):
            broker.vhost().message_count("q")


@pytest.mark.feature("S4-62")
def test_a_broker_stops_when_its_block_raises() -> None:
    with pytest.raises(ZeroDivisionError), leveret.Broker():
        _ = 1 / 0
    assert our_threads() == []


@pytest.mark.quiet
@pytest.mark.feature("S4-62")
def test_start_and_stop_together_take_less_than_a_tenth_of_a_second() -> None:
    """Best of five."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        with leveret.Broker() as broker:
            assert broker.amqp_url
        times.append(time.perf_counter() - began)
    assert min(times) < 0.1, times


@pytest.mark.feature("S4-62", "S4-81")
def test_every_use_of_a_stopped_broker_says_what_to_do() -> None:
    broker = leveret.Broker()
    with broker:
        local = broker.vhost()
    for use in (
        lambda: broker.amqp_url,
        lambda: broker.vhost(),
        lambda: broker.call(lambda: None),
        lambda: local.publish("", "q", b""),
        lambda: local.declare_queue("q"),
        lambda: local.ack(1),
        lambda: local.close(),
    ):
        with pytest.raises(BrokerStopped, match=r"not running: call start\(\) or use it in a with statement"):
            use()


@pytest.mark.feature("S4-81")
def test_a_session_of_an_earlier_run_does_not_reach_into_the_next() -> None:
    """It would speak to a broker that nobody else sees."""
    broker = leveret.Broker()
    with broker:
        old = broker.vhost()
    with broker:
        with pytest.raises(ChannelFault, match=r"closed: open another with broker.vhost\(\)"):
            old.declare_queue("q")
        broker.vhost().declare_queue("q")


@pytest.mark.feature("S4-81")
def test_a_taken_port_is_an_error_that_names_the_setting_and_leaves_nothing_running() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = leveret.Broker(leveret.Settings(amqp_port=port, **QUIET))  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use: set amqp_port to another one"):
            broker.start()
        assert our_threads() == []
        with pytest.raises(BrokerStopped):
            _ = broker.amqp_url
    with broker:
        assert f":{port}/" in broker.amqp_url


@pytest.mark.feature("S4-62")
def test_a_broker_can_be_without_a_network() -> None:
    """The calls in the process need none."""
    with leveret.Broker(leveret.Settings(amqp_port=None, **QUIET)) as broker:  # type: ignore[arg-type]
        local = LocalPeer(broker)
        local.declare_queue("q")
        assert local.publish("", "q", b"m")
        with pytest.raises(ConfigError, match="no amqp listener"):
            _ = broker.amqp_url


@pytest.mark.feature("S4-62")
def test_threads_that_start_and_stop_one_broker_at_once_do_not_hang() -> None:
    broker = leveret.Broker()

    def worry() -> None:
        for _ in range(10):
            broker.start()
            broker.stop()

    threads = [threading.Thread(target=worry) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert our_threads() == []


@pytest.mark.feature("S4-62")
def test_a_call_that_races_with_stop_is_answered_or_refused_but_never_left_waiting() -> None:
    """Eight threads publish while the broker is stopped under them."""
    for _ in range(5):
        broker = leveret.Broker().start()
        broker.vhost().declare_queue("q")
        ready, ends = threading.Barrier(9), []

        def publish(broker: leveret.Broker = broker, ready: threading.Barrier = ready, ends: list[str] = ends) -> None:
            local = broker.vhost()
            ready.wait()
            try:
                while True:
                    local.publish("", "q", b"m")
            except BrokerStopped:
                ends.append("refused")

        threads = [threading.Thread(target=publish) for _ in range(8)]
        for thread in threads:
            thread.start()
        ready.wait()
        broker.stop()
        for thread in threads:
            thread.join(5)
        assert ends == ["refused"] * 8


# ---- clients at the end


@pytest.mark.feature("S4-62")
def test_connected_clients_are_told_320_when_the_broker_stops() -> None:
    with leveret.Broker() as broker:
        peers = [NetworkPeer(broker.amqp_url) for _ in range(3)]
    for peer in peers:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            peer.connection.process_data_events(5)
        assert caught.value.reply_code == 320
        assert caught.value.reply_text.startswith("CONNECTION_FORCED")


@pytest.mark.quiet
@pytest.mark.feature("S4-62")
def test_a_client_that_never_reads_again_does_not_hold_up_the_end() -> None:
    """An idle client in the same test is the rule, not the exception."""
    with leveret.Broker() as broker:
        peer = NetworkPeer(broker.amqp_url)
        half = socket.create_connection(("127.0.0.1", int(broker.amqp_url.rpartition(":")[2].partition("/")[0])))
        began = time.monotonic()
    assert time.monotonic() - began < 1.5
    half.close()
    peer.close()


# ---- inside an event loop


class Patient(leveret.Broker):
    """Starts and stops only when somebody lets it: a blocked loop could not, and the test would fail."""

    let = threading.Event()

    def start(self) -> Patient:
        assert self.let.wait(60), "nobody else got a turn while the broker started"
        return super().start()

    def stop(self) -> None:
        assert self.let.wait(60), "nobody else got a turn while the broker stopped"
        super().stop()


async def while_another_ticks(broker: Patient, work: Coroutine[object, object, object]) -> None:
    broker.let.clear()

    async def tick() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        broker.let.set()

    await asyncio.gather(work, tick())


@pytest.mark.feature("S4-62")
def test_async_with_starts_and_stops_without_blocking_the_loop() -> None:
    """Another task goes on all the while, and an asyncio client uses the broker from the same loop."""

    async def main() -> bytes:
        broker = Patient()
        await while_another_ticks(broker, broker.__aenter__())
        connection = await aio_pika.connect(broker.amqp_url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("q")
            await channel.default_exchange.publish(aio_pika.Message(b"m"), "q")
            message = await queue.get(timeout=5)
            await message.ack()
        await while_another_ticks(broker, broker.__aexit__(None, None, None))
        return message.body

    assert asyncio.run(main()) == b"m"
    assert our_threads() == []


@pytest.mark.feature("S4-62")
def test_async_with_leaves_when_its_block_raises() -> None:

    async def main() -> None:
        async with leveret.Broker() as broker:
            assert broker.amqp_url
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert our_threads() == []


# ---- the fixture


@pytest.mark.feature("S4-62")
def test_the_fixture_gives_each_test_a_broker_of_its_own(tmp_path: Path) -> None:
    """In somebody else's project, with nothing but the plugin that comes with the package."""
    (tmp_path / "test_shop.py").write_text(
        textwrap.dedent(
            """
            seen = []

            def test_one(leveret_broker):
                leveret_broker.vhost().declare_queue("q")
                seen.append(leveret_broker.amqp_url)

            def test_two(leveret_broker):
                import pika

                with pika.BlockingConnection(pika.URLParameters(leveret_broker.amqp_url)) as connection:
                    channel = connection.channel()
                    channel.queue_declare("q", durable=True)  # would be refused if the other one were still there
                    channel.basic_publish("", "q", b"m")
                    assert channel.basic_get("q", auto_ack=True)[2] == b"m"

            def test_without():
                pass
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.feature("S4-62")
def test_the_plugin_costs_a_project_that_does_not_use_it_nothing() -> None:
    """Naming the fixture imports no broker."""
    code = "import sys, leveret.pytest_plugin; print([m for m in sys.modules if m.startswith('leveret.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.strip() == "['leveret.version', 'leveret.pytest_plugin']"

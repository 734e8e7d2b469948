"""Space is given back while the same messages are read and the disk is slow: nothing falls between the two."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from leveret.wire.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk
from tests.support.broker_process import BrokerProcess
from tests.support.fault_shim import Shim
from tests.support.forked_broker import ForkedBroker
from tests.support.publishing import Publishing, bodies_of, declare_at
from tests.support.raw_client import RawClient, eventually

FLAGS = ("--segment-size", "1MiB", "--queue-memory", "64KiB")
QUEUES = [f"kept {number}" for number in range(6)]  # each of them more than is loaded at a start
BODIES = [b"%08d" % number * 500 for number in range(650)]
EATEN = len(BODIES) * len(QUEUES) * 2


def fill_all(url: str) -> None:
    """The queues take turns, so that acking all of one leaves a third of each segment."""
    declare_at(url, "eaten", *QUEUES)
    with Publishing(url) as publisher:
        for start in range(0, len(BODIES), 10):
            for queue in QUEUES:
                for target in (queue, "eaten", "eaten"):
                    publisher.publish(target, BODIES[start : start + 10])
                publisher.hear_verdicts()
        assert not publisher.nacked


def eat(consumer: RawClient, number: int) -> None:
    """Take and ack so many; goes on where it stopped."""
    for _ in range(number):
        tag = consumer.expect_content().method.delivery_tag
    consumer.send(BasicAck(tag, multiple=True))


def begin_to_eat(url: str) -> RawClient:
    consumer = RawClient.open(url, timeout=20)
    consumer.call(BasicQos(prefetch_count=500), BasicQosOk)
    consumer.call(BasicConsume("eaten"), BasicConsumeOk)
    return consumer


@pytest.mark.parametrize("slow", ["write", "sync"])
@pytest.mark.feature("S4-22", "S4-23")
def test_messages_are_read_while_they_are_carried_to_another_segment(tmp_path: Path, shim: Shim, slow: str) -> None:
    """They are read from where they lie, not from where they are on their way to."""
    with ForkedBroker(tmp_path, *FLAGS) as serving:
        fill_all(serving.url())
        serving.process.kill()
    with ForkedBroker(tmp_path, *FLAGS, environ=shim.environ) as serving:
        url = serving.url()
        shim.slow(slow, 0.2)
        with begin_to_eat(url) as consumer:
            for _ in range(20):
                eat(consumer, EATEN // 20)
            for queue in QUEUES:
                wait_for_a_write(shim, consumer)  # and then the next one begins, with what is carried
                found = [body[:8] for body in bodies_of(url, queue)]
                assert (len(found), troubles(serving)) == (len(BODIES), [])
                assert found == [body[:8] for body in BODIES]
        shim.clear()


def wait_for_a_write(shim: Shim, client: RawClient) -> None:
    before = len(shim.calls())

    def is_over() -> bool:
        client.is_alive()
        return len(shim.calls()) > before

    eventually(is_over)


@pytest.mark.feature("S4-22", "S4-24")
def test_space_is_given_back_and_what_is_kept_survives_a_kill(tmp_path: Path) -> None:
    """With most of each segment dead the files shrink, and a kill amid that costs nothing."""
    journal = tmp_path / "data" / "journal"

    def size() -> int:
        found = 0
        for path in journal.glob("*.seg"):
            with suppress(FileNotFoundError):  # given back just now
                found += path.stat().st_size
        return found

    with ForkedBroker(tmp_path, *FLAGS) as serving:
        fill_all(serving.url())
        full = size()
        with begin_to_eat(serving.url()) as consumer:
            for _ in range(20):
                eat(consumer, EATEN // 20)
            consumer.close()
        with RawClient.open(serving.url()) as client:

            def has_shrunk() -> bool:
                client.is_alive()
                return size() < full * 0.6

            eventually(has_shrunk, 10)
        serving.process.kill()
    with ForkedBroker(tmp_path, *FLAGS) as serving:
        for queue in QUEUES:
            assert [body[:8] for body in bodies_of(serving.url(), queue)] == [body[:8] for body in BODIES]
        assert not troubles(serving)


def troubles(serving: BrokerProcess) -> list[str]:
    return [line for line in serving.log().splitlines() if " error " in line or "Traceback" in line][:10]

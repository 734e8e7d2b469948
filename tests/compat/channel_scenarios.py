"""Scenarios about one channel: prefetch, cancelling, transactions. Played by test_same_as_rabbitmq.py."""

from __future__ import annotations

from collections import Counter

from pika import BasicProperties
from pika.spec import Basic

from tests.compat.both_brokers import Scenario, Stage

SCENARIOS: list[Scenario] = []


def scenario(play: Scenario) -> Scenario:
    SCENARIOS.append(play)
    return play


class Deliveries:
    """What the consumers of a channel get, as (queue, body), in order."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.seen: list[tuple[str, bytes]] = []
        self.tags: list[int] = []

    def consume(self, queue: str, *, auto_ack: bool = False, priority: int = 0) -> str:
        def take(_channel: object, method: Basic.Deliver, _properties: BasicProperties, body: bytes) -> None:
            self.seen.append((queue, body))
            self.tags.append(method.delivery_tag)

        arguments = {"x-priority": priority} if priority else None
        return str(self._stage.channel.basic_consume(self._stage.name(queue), take, auto_ack, arguments=arguments))

    def wait(self, number: int) -> list[tuple[str, bytes]]:
        """All deliveries, once there are ``number``; fewer if no more follow within the stage's patience."""
        self._stage.until(lambda: len(self.seen) >= number)
        return self.seen

    def ack_last(self) -> None:
        self._stage.channel.basic_ack(self.tags[-1])


@scenario
def queues_share_the_prefetch_of_a_channel(stage: Stage) -> object:
    """While the first queue has messages, the others get their share."""
    queues = ("one", "two", "three")
    for queue in queues:
        stage.queue(queue)
        for number in range(20):
            stage.publish(queue, b"%d" % number)
    stage.channel.basic_qos(prefetch_count=1, global_qos=True)
    deliveries = Deliveries(stage)
    for queue in queues:
        deliveries.consume(queue)
    for number in range(1, 31):
        deliveries.wait(number)
        deliveries.ack_last()
    return {queue: number >= 5 for queue, number in sorted(Counter(queue for queue, _ in deliveries.seen).items())}


@scenario
def a_used_up_prefetch_holds_back_consumers_without_acks(stage: Stage) -> object:
    stage.queue("acked")
    stage.queue("unacked")
    stage.channel.basic_qos(prefetch_count=1, global_qos=True)
    deliveries = Deliveries(stage)
    deliveries.consume("acked")
    stage.publish("acked", b"a")
    deliveries.wait(1)
    deliveries.consume("unacked", auto_ack=True)
    stage.publish("unacked", b"b")
    stage.publish("unacked", b"c")
    held = stage.count("unacked"), list(deliveries.seen)
    deliveries.ack_last()
    return held, deliveries.wait(3)


@scenario
def a_consumer_gets_what_arrived_before_its_cancel(stage: Stage) -> object:
    """Ten publishes and the cancel of the preferred consumer, in one write."""
    stage.queue("q")
    preferred, other = Deliveries(stage), Deliveries(stage)
    tag = preferred.consume("q", auto_ack=True, priority=5)
    other.consume("q", auto_ack=True)
    for number in range(10):
        stage.publish("q", b"%d" % number)
    stage.channel.basic_cancel(tag)
    stage.publish("q", b"last")
    return other.wait(1)


@scenario
def recover_leaves_out_what_the_transaction_acknowledged(stage: Stage) -> object:
    stage.queue("q")
    for body in (b"a", b"b", b"c"):
        stage.publish("q", body)
    stage.channel.tx_select()
    for _ in range(3):
        stage.wait("q", auto_ack=False)
        if stage.tag == 2:
            stage.channel.basic_ack(stage.tag)
    stage.channel.basic_recover(requeue=True)
    again = stage.drained("q")
    stage.channel.tx_commit()
    return again, stage.count("q")


@scenario
def a_rollback_after_recover_restores_the_acknowledged_message(stage: Stage) -> object:
    stage.queue("q")
    stage.publish("q", b"a")
    stage.channel.tx_select()
    stage.wait("q", auto_ack=False)
    stage.channel.basic_ack(stage.tag)
    stage.channel.basic_recover(requeue=True)
    stage.channel.tx_rollback()
    before = stage.count("q")
    stage.channel.basic_recover(requeue=True)
    return before, stage.wait("q")


@scenario
def the_expiration_of_a_message_counts_from_the_commit(stage: Stage) -> object:
    """The transaction is open for longer than the message may live."""
    stage.queue("over")
    stage.queue("hourglass", message_ttl=300, dead_letter_exchange="", dead_letter_routing_key="over")
    stage.queue("q")
    stage.channel.tx_select()
    stage.publish("q", b"m", expiration="150")
    stage.connection.channel().basic_publish("", stage.name("hourglass"), b"sand")
    stage.wait("over")
    stage.channel.tx_commit()
    return stage.get("q")

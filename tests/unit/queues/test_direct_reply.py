"""The queue behind amq.rabbitmq.reply-to: straight to the requester, or nowhere."""

from __future__ import annotations

import pytest

from leveret.backlog.context import MemoryGauge
from leveret.delivery.delivery_pause import DeliveryPause
from leveret.queues.direct_reply import MOST_WAITING, ReplyQueue
from leveret.queues.queue import Queue
from tests.support.spies import SpyConsumer, message, messages, size_of


class Desk:
    """A reply queue with its consumer."""

    def __init__(self) -> None:
        self.gauge = MemoryGauge()
        self.dirty: list[Queue] = []
        self.queue = ReplyQueue("replies", self.gauge, self.dirty, DeliveryPause())
        self.consumer = SpyConsumer(queue=self.queue, no_ack=True)
        self.queue.consumer = self.consumer

    def publish(self, *bodies: bytes) -> None:
        run = messages(*bodies)
        self.queue.publish(run, size_of(run), False)

    def turn(self) -> None:
        while self.dirty:
            self.dirty.pop().drain()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_replies_go_straight_to_the_requester(desk: Desk) -> None:
    desk.publish(b"a", b"b")
    desk.publish(b"c")
    assert len(desk.dirty) == 1
    desk.turn()
    assert desk.consumer.bodies == [b"a", b"b", b"c"]
    assert [given.sequence for given in desk.consumer.given] == [1, 2, 3]
    assert desk.gauge.used == 0


def test_replies_wait_for_a_requester_that_cannot_be_written_to(desk: Desk) -> None:
    desk.consumer.credit = 0
    desk.publish(b"a")
    desk.turn()
    assert desk.gauge.used > 0
    desk.consumer.credit = 1
    desk.queue.touch()
    desk.turn()
    assert (desk.consumer.bodies, desk.gauge.used) == ([b"a"], 0)


def test_only_so_many_replies_may_wait(desk: Desk) -> None:
    desk.consumer.credit = 0
    desk.queue.publish([message()] * (MOST_WAITING + 5), 0, False)
    desk.publish(b"one too many")
    desk.consumer.credit = 1
    desk.turn()
    assert len(desk.consumer.given) == MOST_WAITING
    assert desk.gauge.used == 0


def test_nothing_of_it_is_ever_logged(desk: Desk) -> None:
    assert desk.queue.place(messages(b"a"), 10, False) == []
    desk.turn()
    assert desk.consumer.bodies == [b"a"]


def test_answers_of_the_requester_mean_nothing(desk: Desk) -> None:
    run = messages(b"a")
    desk.queue.settle(0, 1, run)
    desk.queue.requeue(0, 1, run, 1)
    desk.queue.drop(0, 1, run)
    desk.turn()
    assert desk.consumer.given == []


def test_a_dead_requester_gets_nothing_and_costs_nothing(desk: Desk) -> None:
    desk.consumer.credit = 0
    desk.publish(b"a")
    desk.queue.remove_consumer(desk.consumer)
    desk.publish(b"late")
    desk.turn()
    assert (desk.queue.alive, desk.gauge.used, desk.consumer.given) == (False, 0, [])
    desk.queue.touch()
    assert desk.dirty == []

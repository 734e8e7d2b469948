"""Walking through a queue that others change meanwhile: one by one, or by a glance at many."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from leveret.backlog import walk
from leveret.backlog.lane import Waiting
from leveret.backlog.walk import Walk
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.wire.content import body_of
from tests.support.manual_store import DiskHarness
from tests.support.memory_pages import SIZE, consumer_of, kept, paged, shrink_steps


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_steps(monkeypatch)
    monkeypatch.setattr(walk, "COPIED", 5)


class Walker:
    """What was met, as (sequence, number of the message)."""

    def __init__(self, queue: ClassicQueue, *, glances: bool, first: int = 0, stop: int | None = None) -> None:
        self.met: list[tuple[int, int]] = []
        self.glances = self.visits = 0
        glance = self.glance if glances else None
        self.walk = Walk(queue, self.visit, glance=glance, first=first, stop=stop)

    def visit(self, lane: int, waiting: Waiting) -> bool:
        self.visits += 1
        self.met.append((waiting[0], int(body_of(waiting[2][0]))))
        return False

    def glance(self, sequences: Sequence[int], messages: list[Message]) -> None:
        self.glances += 1
        self.met += [(sequence, int(body_of(each[0]))) for sequence, each in zip(sequences, messages, strict=True)]

    def finish(self, harness: DiskHarness, most: int = 3) -> list[int]:
        while not self.walk.is_over:
            if not self.walk.step(most):
                harness.read_all()
        return [number for _, number in self.met]


def backlog(harness: DiskHarness, number: int) -> ClassicQueue:
    queue = harness.queue(durable=True)
    for each in kept(*range(number)):
        harness.put(queue, each)
    return queue


@pytest.mark.parametrize("glances", [False, True])
@pytest.mark.parametrize("on_disk", [False, True])
def test_every_message_is_met_in_order(glances: bool, on_disk: bool) -> None:
    harness = DiskHarness(4 * SIZE if on_disk else 1 << 20)
    queue = backlog(harness, 33)
    harness.sync(queue)
    assert (paged(queue) > 0) is on_disk
    walker = Walker(queue, glances=glances)
    assert walker.finish(harness, 7) == list(range(33))
    assert [sequence for sequence, _ in walker.met] == list(range(1, 34))
    assert (walker.glances > 0) is glances


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize(("first", "stop"), [(0, 11), (11, 22), (22, None), (30, 30), (40, 50)])
def test_what_was_not_asked_for_is_left_out(on_disk: bool, first: int, stop: int | None) -> None:
    harness = DiskHarness(4 * SIZE if on_disk else 1 << 20)
    queue = backlog(harness, 33)
    harness.sync(queue)
    for glances in (True, False):
        walker = Walker(queue, glances=glances, first=first, stop=stop)
        walker.finish(harness)
        assert [sequence for sequence, _ in walker.met] == list(range(max(first, 1), min(stop or 34, 34)))


def test_messages_that_came_back_are_met_one_by_one() -> None:
    """A glance is at messages that were never delivered; of the others the number of tries counts."""
    harness = DiskHarness(1 << 20)
    queue = backlog(harness, 12)
    consumer = consumer_of(queue, credit=4)
    queue.drain()
    queue.remove_consumer(consumer)
    for body in consumer.bodies:
        consumer.requeue(body)
    walker = Walker(queue, glances=True)
    assert walker.finish(harness) == list(range(12))
    assert walker.visits == 4


@pytest.mark.parametrize("glances", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_others_do_what_stays_is_met_once_and_what_has_gone_is_not(seed: int, glances: bool) -> None:
    random = Random(seed)
    harness = DiskHarness(random.choice([4 * SIZE, 1 << 20]))
    queue = backlog(harness, 40)
    harness.sync(queue)
    gone: set[int] = set()
    walker, number = Walker(queue, glances=glances), 40

    def some_consumed() -> None:
        consumer = consumer_of(queue, credit=random.randrange(1, 5))
        queue.drain()
        harness.read_all()
        queue.remove_consumer(consumer)
        for body in consumer.bodies:
            consumer.ack(body)
            gone.add(int(body))

    def one_dies() -> None:
        lane = queue.lane
        if (sequence := random.randrange(lane.head, lane.tail + 1)) >= lane.tail or lane.is_paged(sequence):
            return
        cut = lane.cut_out(sequence)
        if cut is not None:
            gone.add(int(body_of(cut[2][0])))

    def some_come() -> None:
        nonlocal number
        for each in kept(*range(number, number + 3)):
            harness.put(queue, each)
        number += 3
        if random.random() < 0.5:
            harness.sync(queue)

    while not walker.walk.is_over:
        before = len(walker.met)
        if not walker.walk.step(random.randrange(1, 9)):
            harness.read_all()
        assert gone.isdisjoint(each for _, each in walker.met[before:]), "somebody met what had gone"
        random.choice([some_consumed, one_dies, some_come])()
    met = [each for _, each in walker.met]
    assert sorted(set(met)) == sorted(met), "met twice"
    assert set(range(40)) - gone <= set(met), "missed"

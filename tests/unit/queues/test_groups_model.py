"""Message groups under any sequence of events: never two consumers at a group, never out of order, nothing lost."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.message import Message
from leveret.wire.content import body_of
from tests.support.selector_consumers import consumer_of, die, message
from tests.support.spies import Given, QueueHarness, SpyConsumer

GROUPS = "aabc-"
COLOURS = ("", "colour = 'red'", "colour = 'blue'")

EVENTS = ["publish", "publish", "join", "ack", "ack", "requeue", "drop", "die", "cancel", "get", "wait"]

steps = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 1 << 16)), min_size=15, max_size=60)


def group_of(message: Message) -> bytes:
    return body_of(message[0])[:1]


class Model:
    """A queue with groups, and what was given to whom."""

    def __init__(self, *, selectors: bool, retry: bool, no_ack: bool) -> None:
        self.harness = QueueHarness()
        more = {"retry_delays": [1_000] * 100} if retry else {}
        self.queue = self.harness.queue(message_groups=True, max_priority=1, **more)
        self.selectors = selectors
        self.no_ack = no_ack
        self.here: list[SpyConsumer] = []
        self.gone: list[SpyConsumer] = []  # cancelled, and still holding messages
        self.published = 0
        self.settled = 0

    @property
    def holding(self) -> list[SpyConsumer]:
        return [each for each in (*self.here, *self.gone) if each.given]

    def do(self, what: str, dice: int) -> None:
        getattr(self, what)(dice)
        before = {id(each): len(each.given) for each in self.here}
        self.harness.turn()
        for each in self.here:
            self.check_order(each.given[before.get(id(each), 0) :])
        self.check_holders()
        if self.no_ack:
            for each in self.here:
                self.settled += len(each.given)
                each.given.clear()

    def publish(self, dice: int) -> None:
        group, colour = GROUPS[dice % 5], ("red", "blue")[dice // 5 % 2]
        headers = {} if group == "-" else {"group": group}
        body = f"{group}{self.published:04}".encode()
        self.published += 1
        self.harness.publish(self.queue, message(body, priority=dice // 10 % 2, colour=colour, **headers))

    def join(self, dice: int) -> None:
        if len(self.here) < 4:
            selector = COLOURS[dice % 3] if self.selectors else ""
            credit, priority = 1 + dice // 3 % 3, dice // 9 % 2
            made = consumer_of(self.queue, credit, selector=selector, priority=priority, no_ack=self.no_ack)
            self.here.append(made)

    def _one(self, dice: int) -> tuple[SpyConsumer, bytes] | None:
        holding = self.holding
        if not holding:
            return None
        consumer = holding[dice % len(holding)]
        return consumer, consumer.bodies[dice // 7 % len(consumer.given)]

    def ack(self, dice: int) -> None:
        if found := self._one(dice):
            found[0].ack(found[1])
            self.settled += 1

    def drop(self, dice: int) -> None:
        if found := self._one(dice):
            found[0].drop(found[1])
            self.settled += 1

    def requeue(self, dice: int) -> None:
        if found := self._one(dice):
            found[0].requeue(found[1])

    def die(self, dice: int) -> None:
        if self.here:
            die(self.here.pop(dice % len(self.here)))

    def cancel(self, dice: int) -> None:
        if self.here:
            consumer = self.here.pop(dice % len(self.here))
            self.queue.remove_consumer(consumer)
            self.gone.append(consumer)

    def get(self, dice: int) -> None:
        taken = self.queue.get(True)
        self.settled += taken is not None

    def wait(self, dice: int) -> None:
        self.harness.advance(dice % 3)

    # ---- what must hold

    def check_holders(self) -> None:
        holders: dict[bytes, int] = {}
        for consumer in self.holding:
            for body in consumer.bodies:
                group = body[:1]
                if group != b"-":
                    assert holders.setdefault(group, id(consumer)) == id(consumer), f"two hold {group!r}"

    def check_order(self, new: list[Given]) -> None:
        """What was given in this turn was, of its group, the first that somebody here could want."""
        for each in new:
            group = each.body[:1]
            later = [other for other in new if other.body[:1] == group and other.lane == each.lane]
            assert [other.sequence for other in later] == sorted(other.sequence for other in later)
            if group == b"-" or self.selectors:
                continue
            for lane in self.queue.lanes[each.lane :]:
                for sequence, _, waiting in lane:
                    same = group_of(waiting) == group
                    assert not same or lane.number > each.lane or sequence > each.sequence, "overtaken"
            for number, sequence, delayed in self.queue.delayed or ():
                assert group_of(delayed) != group or number != each.lane or sequence > each.sequence, "not waited for"

    def finish(self) -> None:
        """With somebody who takes everything, everything is given once."""
        for consumer in (*self.here, *self.gone):
            die(consumer)
        self.here, self.gone = [], []
        last = consumer_of(self.queue)
        for _ in range(3):
            self.harness.turn()
            self.harness.advance(2)
        assert len(last.given) + self.settled == self.published
        for body in list(last.bodies):
            last.ack(body)
        self.harness.turn()
        assert self.queue.selection is not None
        assert (self.queue.ready, self.queue.unacked, len(self.queue.selection.groups)) == (0, 0, 0)


@settings(max_examples=150, deadline=None)
@given(steps, st.booleans(), st.booleans(), st.booleans())
def test_groups_hold_under_any_events(
    events: list[tuple[str, int]], selectors: bool, retry: bool, no_ack: bool
) -> None:
    live(Model(selectors=selectors, retry=retry, no_ack=no_ack), events)


@pytest.mark.parametrize("seed", range(60))
def test_groups_hold_in_a_long_life(seed: int) -> None:
    dice = Random(seed)
    model = Model(selectors=seed % 2 == 0, retry=seed % 3 == 0, no_ack=seed % 5 == 0)
    live(model, [(dice.choice(EVENTS), dice.randrange(1 << 16)) for _ in range(200)])


def live(model: Model, events: list[tuple[str, int]]) -> None:
    for dice in (3, 6, 1):
        model.do("join", dice)
    for what, dice in events:
        model.do(what, dice)
    model.finish()

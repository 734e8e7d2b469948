"""TTL, limits, priorities, dead letters, delivery limits, retries and ack timeouts together, over restarts, against a
simple model.

A broker with a store on a virtual disk, spoken to in AMQP frames. Its backlog is paged out as soon as it is longer than
a few messages. Runs end by a clean stop or by a crash.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.backlog import pager
from leveret.wire.methods import BasicAck, BasicCancel, BasicNack, ConfirmSelect, QueuePurge, QueuePurgeOk
from tests.support.options_model import Holding, OptionsModel, Rules
from tests.support.peer_pair import Client, Content
from tests.support.stored_harness import StoredHarness, StoredLife

SECONDS = st.sampled_from([0, 1, 2, 3, 5, 8, 10, 30])
RULES = st.builds(
    Rules,
    ttl=st.sampled_from([None] * 6 + [0.0, 2.0, 10.0]),
    lanes=st.sampled_from([1, 1, 3]),
    max_length=st.sampled_from([None] * 4 + [0, 1, 3, 8]),
    overflow=st.sampled_from(["drop-head", "drop-head", "reject-publish", "reject-publish-dlx"]),
    body_size=st.sampled_from([0, 0, 6]),
    delivery_limit=st.sampled_from([None, None, None, 0, 1, 3]),
    delays=st.sampled_from([(), (), (1.0,), (2.0, 0.0, 5.0), (30.0, 30.0), (3.0,) * 9]),
    timeout=st.sampled_from([None, 7.25]),
    has_exchange=st.sampled_from([True, True, False]),
)
MESSAGE = st.tuples(
    st.integers(0, 3), st.sampled_from([None] * 6 + [0, 1, 5, 60]), st.sampled_from([True, True, False])
)


class OptionsMachine(RuleBasedStateMachine):
    @initialize(rules=RULES, memory=st.sampled_from([150, 1 << 20]))
    def start(self, rules: Rules, memory: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.is_small = memory < 1000
        if self.is_small:
            for name, value in (("WORTH_IT", 2), ("LOOK_AGAIN", 1), ("SMALL_GAP", 2), ("LOAD_BYTES", 150)):
                self.patch.setattr(pager, name, value)
        self.harness = StoredHarness(queue_memory=memory)
        # A head that has to be read before it can be sent on leaves the queue a moment later. What expires in that
        # moment makes room too: that is right, and nothing that this model knows. Nor does it know that bytes on disk
        # are counted too low when some of them expire unread, or were left by the previous run.
        in_turn = rules.has_exchange or rules.body_size
        self.is_ageless = bool(self.is_small and in_turn and rules.max_length is not None)
        if self.is_ageless:
            rules = replace(rules, ttl=None)
        self.model = OptionsModel(rules)
        self.tags: dict[tuple[int, int], Holding] = {}  # by channel (1: got, 2: consumed) and tag
        self.bodies = 0
        self._connect()
        self.client.declare("dead", durable=True)
        self.client.declare("q", durable=True, arguments=rules.arguments())

    def _connect(self) -> None:
        self.client: Client = self.harness.client()
        self.eater: Client = self.harness.client()
        self.publisher: Client = self.harness.client()
        self.publisher.ask(ConfirmSelect())
        self.confirms = 0

    # ---- what clients do

    @rule(kinds=st.lists(MESSAGE, min_size=1, max_size=8))
    def publish(self, kinds: list[tuple[int, int | None, bool]]) -> None:
        data, taken = b"", []
        for priority, chosen, persistent in kinds:
            seconds = None if self.is_ageless else chosen
            self.bodies += 1
            body = b"%06d" % self.bodies
            expiration = None if seconds is None else str(seconds * 1000)
            mode = 2 if persistent else 1
            data += self.publisher.published(
                "", "q", body, priority=priority, expiration=expiration, delivery_mode=mode
            )
            taken.append(self.model.publish(body, priority, seconds, persistent))
        self.model.settle()
        self.publisher.feed(data)
        assert self._verdicts(len(kinds)) == taken
        self._eat()

    def _verdicts(self, number: int) -> list[bool]:
        """Of the last so many publishes, whether each was confirmed: each exactly once."""
        first = self.confirms + 1
        self.confirms += number
        said: dict[int, bool] = {}
        for each in self.publisher.heard():
            assert isinstance(each, BasicAck | BasicNack), each
            lowest = first if each.multiple else each.delivery_tag
            for tag in range(lowest, each.delivery_tag + 1):
                said.setdefault(tag, isinstance(each, BasicAck))
        assert sorted(said) == list(range(first, self.confirms + 1))
        return [said[tag] for tag in sorted(said)]

    @rule(number=st.integers(1, 4))
    def get(self, number: int) -> None:
        for _ in range(number):
            expected = self.model.get()
            got = self.client.get("q")
            assert (got and got.body) == (expected and expected.message.body)
            if got is None or expected is None:
                return
            self._keep(1, got, expected)

    @rule(number=st.integers(1, 4))
    def fail(self, number: int) -> None:
        """Take some, and give them back."""
        self.get(number)
        for index in range(number):
            if self.tags:
                self.answer(len(self.tags) - 1 - index % len(self.tags), "requeue")

    def _keep(self, channel: int, got: Content, expected: Holding) -> None:
        tries, rules = expected.tries, self.model.rules
        assert got.body == expected.message.body
        counts = bool(rules.delays) or rules.delivery_limit is not None
        told = (got.properties.headers or {}).get("x-delivery-count")
        assert told == (tries or None if counts else None)
        assert got.redelivered or not tries
        self.tags[channel, got.tag] = expected

    def _eat(self) -> None:
        """The consumer has received what the model delivered, in this order."""
        expected, self.model.delivered = self.model.delivered, []
        got = [each for each in self.eater.heard() if isinstance(each, Content)]
        assert [each.body for each in got] == [each.message.body for each in expected]
        for content, holding in zip(got, expected, strict=True):
            self._keep(2, content, holding)

    @precondition(lambda self: self.model.prefetch is None and not any(key[0] == 2 for key in self.tags))
    @rule(prefetch=st.integers(1, 4))
    def consume(self, prefetch: int) -> None:
        self.model.consume(prefetch)
        self.eater.qos(prefetch)
        self.eater.consume("q")
        self._eat()

    def _cancel(self) -> None:
        if self.model.prefetch is None:
            return
        self.model.cancel()
        self.eater.ask(BasicCancel("tag"))

    @precondition(lambda self: self.tags)
    @rule(index=st.integers(0, 9), answer=st.sampled_from(["ack", "requeue", "requeue", "drop"]))
    def answer(self, index: int, answer: str) -> None:
        """Of one that is held, or was taken back meanwhile: that is ignored."""
        key = sorted(self.tags)[index % len(self.tags)]
        holding = self.tags.pop(key)
        client = self.client if key[0] == 1 else self.eater
        is_late = holding not in self.model.held
        if answer == "ack":
            if not is_late:
                self.model.ack(holding)
            client.ack(key[1])
        else:
            if not is_late:
                self.model.refuse(holding, requeue=answer == "requeue")
            client.nack(key[1], requeue=answer == "requeue")
        self._eat()

    @rule(what=st.sampled_from(["read the dead", "read the dead", "cancel", "vanish", "purge"]))
    def upheaval(self, what: str) -> None:
        """One rule, so that they do not happen too often."""
        {"read the dead": self._read_the_dead, "cancel": self._cancel, "vanish": self._vanish, "purge": self._purge}[
            what
        ]()

    def _vanish(self) -> None:
        self.tags.clear()
        self.model.leave()
        self.eater.vanish()  # first, or it would get what the other held
        self.client.vanish()
        self.client, self.eater = self.harness.client(), self.harness.client()

    def _purge(self) -> None:
        answer = self.client.ask(QueuePurge("q"))
        assert isinstance(answer, QueuePurgeOk)
        assert answer.message_count == self.model.purge()

    def _read_the_dead(self) -> None:
        """They are the dead-lettered messages, with the reason."""
        found: Counter[tuple[bytes, object]] = Counter()
        while (letter := self.client.get("dead", no_ack=True)) is not None:
            found[letter.body, (letter.properties.headers or {}).get("x-first-death-reason")] += 1
        assert found == Counter((body, reason) for body, reason, _ in self.model.dead)
        self.model.dead.clear()

    # ---- time and restarts

    @rule(seconds=SECONDS)
    def wait(self, seconds: int) -> None:
        self.model.advance(seconds)
        self.harness.advance(seconds)
        self._eat()

    # What waits for a retry and was left on disk by the previous run counts as ready until it is read.
    @precondition(lambda self: not self.model.rules.body_size and not (self.is_small and self.model.rules.delays))
    @rule(seconds=SECONDS, cleanly=st.booleans())
    def restart(self, seconds: int, cleanly: bool) -> None:
        self.tags.clear()
        self.model.end(seconds, cleanly=cleanly)
        assert not self.model.delivered
        if cleanly:
            self.eater.vanish()  # first, or it would get what the other held
        life: StoredLife = self.harness.stopped(seconds) if cleanly else self.harness.crashed(seconds, image=0)
        self.harness = life.again()
        self._connect()

    # ---- what must hold

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "harness"):
            return
        queue, model = self.harness.queue("q"), self.model
        assert (queue.ready, queue.unacked) == (len(model.ready), len(model.held))
        assert (0 if queue.delayed is None else len(queue.delayed)) == len(model.waiting)
        assert self.harness.queue("dead").ready == len(model.dead)
        if not (model.ready or model.held or model.waiting):
            assert (queue.bytes, queue.held) == (0, 0)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()


OptionsMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=25)
TestQueueOptions = OptionsMachine.TestCase


def test_a_limit_in_bytes_is_met_exactly_also_when_the_heads_are_on_disk_only() -> None:
    """What the model found: a head that was dropped unread counted as if its frames were part of its body."""
    machine = OptionsMachine()
    machine.start(Rules(max_length=8, body_size=6, has_exchange=False), memory=150)
    machine.publish([(0, None, True)] * 5)
    machine.publish([(0, None, True)] * 8)
    machine.counts_agree()
    machine.teardown()

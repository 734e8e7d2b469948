"""Queues over a real journal, their backlog on disk, through clean stops and crashes, against a simple model.

Nothing confirmed is lost, nothing is invented, order and redelivered marks are right, counts agree, memory is given
back. The disk works at once, or (``slow_down``) only when the test lets it, so that loads, writes and spills are under
way while other things happen.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.backlog import pager
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    ConfirmSelect,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.durable_model import DurableMessage, DurableQueue
from tests.support.peer_pair import Client, Content, split_frames
from tests.support.queue_model import NEVER, ModelConsumer, ModelMessage
from tests.support.stored_harness import StoredHarness, StoredLife

LIMITS = {"WORTH_IT": 2, "SMALL_GAP": 3, "LOAD_BYTES": 200, "SQUEEZED": 100, "LOOK_AGAIN": 3}
USUAL = {name: getattr(pager, name) for name in LIMITS}
QUEUES: dict[str, dict[str, object]] = {
    "plain": {},
    "priority": {"x-max-priority": 2},
    "timed": {"x-message-ttl": 10_500},  # no moment of a message is ever a moment of the test
    "both": {"x-max-priority": 1, "x-message-ttl": 6_500},
    "passing": {"x-max-priority": 1},  # not durable
}
seconds = st.sampled_from([0, 1, 4, 9])
kinds = st.tuples(st.booleans(), st.integers(0, 2), st.sampled_from([None, None, None, 0.5, 3.5, 30.5]))


class Held(NamedTuple):
    queue: DurableQueue
    message: ModelMessage
    consumer: ModelConsumer | None


class PagingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for name, value in LIMITS.items():
            setattr(pager, name, value)

    @initialize(names=st.lists(st.sampled_from(sorted(QUEUES)), min_size=1, max_size=2, unique=True))
    def start(self, names: list[str]) -> None:
        self.harness = StoredHarness(queue_memory=150, segment_size=700)
        self.model = {name: self._modelled(name) for name in names}
        self.bodies = 0
        self.tags = 0
        self._connect()

    def _modelled(self, name: str) -> DurableQueue:
        ttl, highest = QUEUES[name].get("x-message-ttl"), QUEUES[name].get("x-max-priority", 0)
        life = ttl / 1000 if isinstance(ttl, int) else NEVER
        return DurableQueue(name, int(str(highest)), life, is_durable=name != "passing")

    def _connect(self) -> None:
        """Clients of a new run; existing queues are declared again with the same arguments."""
        self.publisher, self.admin, self.peer = (self.harness.client() for _ in range(3))
        self.publisher.ask(ConfirmSelect())
        self.published: dict[int, list[DurableMessage]] = {}  # by confirm number
        self.numbers = 0
        self.held: dict[int, Held] = {}
        self.next_tag = 1
        self.consumers: dict[str, tuple[DurableQueue, ModelConsumer]] = {}
        self._declare()

    def _declare(self) -> None:
        for name, queue in self.model.items():
            self.admin.send(QueueDeclare(name, durable=queue.is_durable, arguments=QUEUES[name]))
            self.admin.send(QueueBind(name, "amq.fanout"))
        told = [what.NAME for what in self._answers(self.admin)]
        assert told == ["queue.declare-ok", "queue.bind-ok"] * len(self.model)

    @property
    def now(self) -> float:
        return self.harness.clock.wall()

    def _pick(self, index: int) -> tuple[str, DurableQueue]:
        name = list(self.model)[index % len(self.model)]
        return name, self.model[name]

    # ---- what clients do

    @rule(index=st.integers(0, 1), run=st.lists(kinds, min_size=1, max_size=6), times=st.integers(1, 3))
    def publish(self, index: int, run: list[tuple[bool, int, float | None]], times: int) -> None:
        name, queue = self._pick(index)
        self._publish("", name, [queue], run * times)

    @rule(run=st.lists(kinds, min_size=1, max_size=6), times=st.integers(1, 3))
    def publish_to_all(self, run: list[tuple[bool, int, float | None]], times: int) -> None:
        """One write for all queues."""
        self._publish("amq.fanout", "", list(self.model.values()), run * times)

    def _publish(
        self, exchange: str, key: str, queues: list[DurableQueue], run: list[tuple[bool, int, float | None]]
    ) -> None:
        data = b""
        for persistent, priority, life in run:
            self.bodies += 1
            self.numbers += 1
            body = b"%04d" % self.bodies
            frames = self.publisher.published(
                exchange,
                key,
                body,
                delivery_mode=2 if persistent else 1,
                priority=priority or None,
                expiration=None if life is None else str(int(life * 1000)),
            )
            size = len(frames) - len(split_frames(frames)[0])
            self.published[self.numbers] = []
            for queue in queues:
                deadline = self.now + min(NEVER if life is None else life, queue.ttl)
                message = DurableMessage(body, size, (-priority, 0), deadline, persistent=persistent)
                self.published[self.numbers].append(message)
                queue.put(message)
            data += frames
        self.publisher.feed(data)
        self._listen()

    @rule(index=st.integers(0, 1), number=st.integers(4, 20), persistent=st.booleans())
    def publish_many(self, index: int, number: int, persistent: bool) -> None:
        self.publish(index, [(persistent, 0, None)] * number, 1)

    @rule(index=st.integers(0, 1), prefetch=st.sampled_from([0, 1, 3]), no_ack=st.booleans())
    def consume(self, index: int, prefetch: int, no_ack: bool) -> None:
        name, queue = self._pick(index)
        if len(queue.consumers) >= 2:
            return
        self.tags += 1
        consumer = ModelConsumer(f"c{self.tags}", prefetch, no_ack)
        queue.consumers.append(consumer)
        self.consumers[consumer.tag] = (queue, consumer)
        self.peer.send(BasicQos(0, prefetch), BasicConsume(name, consumer.tag, no_ack=no_ack))
        self._listen("basic.qos-ok", "basic.consume-ok")

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        tag = data.draw(st.sampled_from(sorted(self.consumers)))
        queue, consumer = self.consumers.pop(tag)
        queue.consumers.remove(consumer)
        self.peer.send(BasicCancel(tag))
        self._listen("basic.cancel-ok")

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(["ack", "ack", "requeue", "drop"]), multiple=st.booleans())
    def settle(self, data: st.DataObject, how: str, multiple: bool) -> None:
        tag = data.draw(st.sampled_from(sorted(self.held)))
        tags = [each for each in sorted(self.held) if each == tag or (multiple and each < tag)]
        for each in tags:
            queue, message, consumer = self.held.pop(each)
            if consumer is not None:
                consumer.held -= 1
            if how == "requeue":
                queue.give_back([message], self.now)
                if message.deadline <= self.now:
                    queue.settled.append(message)
            else:
                queue.forget(message)
        self.peer.send(BasicAck(tag, multiple) if how == "ack" else BasicNack(tag, multiple, how == "requeue"))
        self._listen()

    @precondition(lambda self: hasattr(self, "harness") and not self.harness.is_slow)
    @rule(index=st.integers(0, 1), no_ack=st.booleans())
    def get(self, index: int, no_ack: bool) -> None:
        name, queue = self._pick(index)
        self.peer.send(BasicGet(name, no_ack))
        (answer,) = self.peer.heard()
        if not queue.ready:
            assert isinstance(answer, BasicGetEmpty)
            return
        message = queue.take_first()
        assert isinstance(answer, Content)
        assert isinstance(answer.method, BasicGetOk)
        told = answer.method
        expected = (message.body, message.redelivered, len(queue.ready), self.next_tag)
        assert (answer.body, told.redelivered, told.message_count, told.delivery_tag) == expected
        self._took(queue, message, None, no_ack)

    @rule(index=st.integers(0, 1))
    def purge(self, index: int) -> None:
        name, queue = self._pick(index)
        number = len(queue.ready)
        queue.purge()
        self.admin.send(QueuePurge(name))
        if not self.harness.is_slow:
            assert self.admin.heard() == [QueuePurgeOk(number)]
        self._listen()

    @precondition(lambda self: hasattr(self, "harness") and not self.harness.is_slow)
    @rule(index=st.integers(0, 1))
    def delete_and_declare_again(self, index: int) -> None:
        """Under the same name; nothing of the old one may ever be seen in the new one."""
        name, queue = self._pick(index)
        assert self.admin.ask(QueueDelete(name)) == QueueDeleteOk(len(queue.ready))
        for tag in [each.tag for each in queue.consumers]:
            del self.consumers[tag]
        cancelled = ["basic.cancel"] * len(queue.consumers)
        for tag, held in self.held.items():
            if held.queue is queue:
                self.held[tag] = held._replace(queue=self._modelled(name), consumer=None)  # settled in vain
        self.model[name] = self._modelled(name)
        self._declare()
        self._listen(*cancelled)

    # ---- time, memory and the disk

    @rule(seconds=seconds)
    def wait(self, seconds: int) -> None:
        self.harness.advance(seconds)
        self._listen()

    @rule(is_short=st.booleans())
    def squeeze(self, is_short: bool) -> None:
        """The broker is short of memory, or not any more."""
        self.harness.broker.memory.shortage = -1 if is_short else 1 << 30
        self.harness.turn()
        self._listen()

    @rule()
    def slow_down(self) -> None:
        self.harness.is_slow = True

    @precondition(lambda self: hasattr(self, "harness") and self.harness.is_slow)
    @rule(how=st.sampled_from(["write", "read", "read", "work", "work and stay fast"]))
    def let_the_disk(self, how: str) -> None:
        if how == "write":
            self.harness.write()
        elif how == "read":
            self.harness.read()
        else:
            self.harness.is_slow = False
            self.harness.rest()
            self._listen()
            self.harness.is_slow = how == "work"
        self._listen()

    @rule(seconds=seconds)
    def stop_and_start(self, seconds: int) -> None:
        self.harness.is_slow = False
        self.harness.rest()
        self._listen()
        life = self.harness.stopped(seconds)
        for queue in self.model.values():
            queue.stop()
        self._live_on(life)

    @rule(seconds=seconds, image=st.integers(0, 9))
    def crash_and_start(self, seconds: int, image: int) -> None:
        """Any of the disks that a power cut may leave."""
        self._listen()
        self._live_on(self.harness.crashed(seconds, image=image), crashed=True)

    def _live_on(self, life: StoredLife, crashed: bool = False) -> None:
        self.harness = life.again()
        for name, queue in self.model.items():
            if queue.is_durable:
                assert name in self.harness.vhost.queues, "declare-ok was heard in an earlier life"
            if crashed:
                queue.crash(self.harness.waiting_on_disk(name) if queue.is_durable else [], self.now)
            queue.bury(self.now)
        self._connect()
        self._listen()

    # ---- what follows from it

    def _took(self, queue: DurableQueue, message: ModelMessage, consumer: ModelConsumer | None, no_ack: bool) -> None:
        if no_ack:
            queue.forget(message)
        else:
            queue.unacked.add(message)
            self.held[self.next_tag] = Held(queue, message, consumer)
            if consumer is not None:
                consumer.held += 1
        self.next_tag += 1

    def _listen(self, *answers: str) -> None:
        """What was received is allowed by the model; all of it, if the disk has worked."""
        self._hear_confirms()
        told: list[str] = []
        heard: dict[str, list[tuple[bytes, bool]]] = defaultdict(list)
        order: list[tuple[str, int, bytes]] = []
        for what in self.peer.heard():
            if isinstance(what, Content):
                assert isinstance(what.method, BasicDeliver)
                heard[what.method.consumer_tag].append((what.body, what.redelivered))
                order.append((what.method.consumer_tag, what.tag, what.body))
            else:
                told.append(what.NAME)
        assert told == list(answers)
        went: dict[tuple[DurableQueue, bytes], ModelMessage] = {}
        for queue in self.model.values():
            mine = {each.tag: heard.pop(each.tag) for each in queue.consumers if each.tag in heard}
            found = queue.hear(mine, self.now, complete=not self.harness.is_slow)
            went |= {(queue, body): message for body, message in found.items()}
        assert not heard, "nobody is delivered to who does not consume"
        for consumer_tag, tag, body in order:
            assert tag == self.next_tag, "delivery tags count up"
            queue, consumer = self.consumers[consumer_tag]
            self._took(queue, went[queue, body], consumer, consumer.no_ack)
        if not self.harness.is_slow:
            for queue in self.model.values():
                queue.on_disk()

    def _hear_confirms(self) -> None:
        for confirm in self.publisher.heard():
            assert isinstance(confirm, BasicAck)
            numbers = [confirm.delivery_tag]
            if confirm.multiple:
                numbers = [number for number in self.published if number <= confirm.delivery_tag]
            for message in [message for number in numbers for message in self.published.pop(number)]:
                message.is_confirmed = True
        assert self.harness.is_slow or not self.published, "every publish is confirmed"

    def _answers(self, client: Client) -> list[Method]:
        return [what for what in client.heard() if isinstance(what, Method)]

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "model") or self.harness.is_slow:
            return
        for what in self._answers(self.admin):
            assert isinstance(what, QueuePurgeOk), "answers of a slow time"
        for name, queue in self.model.items():
            answer = self.admin.ask(QueueDeclare(name, passive=True))
            assert answer == QueueDeclareOk(name, len(queue.ready), len(queue.consumers))
            real = self.harness.queue(name)
            assert real.unacked == len(queue.unacked)
            if not any(lane.page_stop for lane in real.lanes):  # else sizes may be estimates
                assert real.bytes == queue.bytes
            assert all(lane.paged >= 0 for lane in real.lanes)

    def teardown(self) -> None:
        """When all is drained, nothing is left of it, neither in memory nor on disk."""
        for name, value in USUAL.items():
            setattr(pager, name, value)
        if not hasattr(self, "model"):
            return
        self.harness.is_slow = False
        self.harness.rest()
        for client in (self.publisher, self.peer):
            client.vanish()
        for name in self.model:
            self.admin.send(QueuePurge(name))
        self.harness.work()
        assert self.harness.broker.gauge.used == 0
        assert all(queue.bytes == queue.unacked == 0 for queue in self.harness.vhost.queues.values())
        assert not any(len(log.index) for log in self.harness.store.journal.lanes.values())


PagingMachine.TestCase.settings = settings(stateful_step_count=30, deadline=None, max_examples=150)
TestPagingModel = PagingMachine.TestCase

"""A real broker, driven over AMQP frames, against a simple model of ready, unacked and settled.

Nothing is lost, nothing is invented, order and redelivered flags are right, counts agree, and memory is given back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.backlog.context import PER_MESSAGE
from leveret.wire.frames import method_frame
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
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.peer_pair import Client, Content, Harness, split_frames
from tests.support.queue_model import NEVER, ModelConsumer, ModelMessage, ModelQueue

QUEUES: dict[str, dict[str, object]] = {
    "plain": {},
    "priority": {"x-max-priority": 3},
    "timed": {"x-message-ttl": 10_000},
    "both": {"x-max-priority": 2, "x-message-ttl": 5_000},
}
queues = st.integers(0, 1)  # of those that a run has, one or two: more would only thin out what happens to each
seats = st.sampled_from([(0, 1), (0, 2), (1, 1)])  # which client, which channel


class Held(NamedTuple):
    queue: ModelQueue
    message: ModelMessage
    consumer: ModelConsumer | None


class Seat:
    """The model of one channel."""

    def __init__(self) -> None:
        self.next_tag = 1
        self.held: dict[int, Held] = {}
        self.consumers: dict[str, tuple[ModelQueue, ModelConsumer]] = {}


class QueueMachine(RuleBasedStateMachine):
    @initialize(
        names=st.lists(st.sampled_from(sorted(QUEUES)), min_size=1, max_size=2, unique=True),
        consumers=st.lists(st.tuples(seats, queues, st.sampled_from([0, 1, 2, 5]), st.booleans()), max_size=3),
    )
    def start(self, names: list[str], consumers: list[tuple[tuple[int, int], int, int, bool]]) -> None:
        self.harness = Harness()
        self.publisher = self.harness.client()
        self.publisher.ask(ConfirmSelect())
        self.clients: list[Client] = [self.harness.client(), self.harness.client()]
        self.clients[0].open_channel(2)
        self.seats: dict[tuple[int, int], Seat] = defaultdict(Seat)
        self.model: dict[str, ModelQueue] = {}
        self.bodies = 0
        self.tags = 0
        for name in names:
            self._declare(name)
        for consumer in consumers:
            self.consume(*consumer)

    def _pick(self, index: int) -> tuple[str, ModelQueue]:
        name = list(self.model)[index % len(self.model)]
        return name, self.model[name]

    def _declare(self, name: str) -> None:
        arguments = QUEUES[name]
        self.publisher.declare(name, arguments=arguments)
        ttl = arguments.get("x-message-ttl")
        seconds = ttl / 1000 if isinstance(ttl, int) else NEVER
        self.model[name] = ModelQueue(name, int(str(arguments.get("x-max-priority", 0))), seconds)

    @property
    def now(self) -> float:
        return self.harness.clock.now()

    # ---- what clients do

    @rule(
        index=queues,
        kinds=st.lists(
            st.tuples(st.integers(0, 4), st.sampled_from([None, None, None, 0, 1, 7, 60])), min_size=1, max_size=6
        ),
    )
    def publish(self, index: int, kinds: list[tuple[int, int | None]]) -> None:
        name, queue = self._pick(index)
        data = b""
        for priority, seconds in kinds:
            self.bodies += 1
            body = b"%d" % self.bodies
            expiration = None if seconds is None else str(seconds * 1000)
            frames = self.publisher.published("", name, body, priority=priority or None, expiration=expiration)
            size = len(frames) - len(split_frames(frames)[0])
            queue.publish(body, size, priority, NEVER if seconds is None else seconds, self.now)
            data += frames
        self.publisher.feed(data)
        confirms = self.publisher.heard()
        last = confirms[-1]
        assert isinstance(last, BasicAck)
        assert last.delivery_tag == self.bodies, "every publish is confirmed"
        self._listen()

    @rule(index=queues, number=st.integers(1, 8))
    def publish_alike(self, index: int, number: int) -> None:
        self.publish(index, [(0, None)] * number)

    @rule(seat=seats, index=queues, prefetch=st.sampled_from([0, 1, 2, 5]), no_ack=st.booleans())
    def consume(self, seat: tuple[int, int], index: int, prefetch: int, no_ack: bool) -> None:
        name, queue = self._pick(index)
        if len(queue.consumers) >= 3:
            return
        self.tags += 1
        consumer = ModelConsumer(f"c{self.tags}", prefetch, no_ack)
        queue.consumers.append(consumer)
        self.seats[seat].consumers[consumer.tag] = (queue, consumer)
        self._say(seat, BasicQos(0, prefetch), BasicConsume(name, consumer.tag, no_ack=no_ack))
        self._listen("basic.qos-ok", "basic.consume-ok")

    @precondition(lambda self: sum(len(seat.consumers) for seat in self.seats.values()) > 2)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        at, tag = data.draw(st.sampled_from([(at, tag) for at, seat in self.seats.items() for tag in seat.consumers]))
        queue, consumer = self.seats[at].consumers.pop(tag)
        queue.consumers.remove(consumer)
        self._say(at, BasicCancel(tag))
        self._listen("basic.cancel-ok")

    @rule(seat=seats, index=queues, no_ack=st.booleans())
    def get(self, seat: tuple[int, int], index: int, no_ack: bool) -> None:
        (name, queue), channel = self._pick(index), self.seats[seat]
        self._say(seat, BasicGet(name, no_ack))
        (answer,) = self.clients[seat[0]].heard()
        if not queue.ready:
            assert isinstance(answer, BasicGetEmpty)
            return
        expected = queue.take_first()
        assert isinstance(answer, Content)
        assert isinstance(answer.method, BasicGetOk)
        told = answer.method
        assert (answer.body, told.redelivered, told.message_count) == (
            expected.body,
            expected.redelivered,
            len(queue.ready),
        )
        assert told.delivery_tag == channel.next_tag
        channel.next_tag += 1
        if not no_ack:
            channel.held[told.delivery_tag] = Held(queue, expected, None)
            queue.unacked.add(expected)

    @precondition(lambda self: any(seat.held for seat in self.seats.values()))
    @rule(
        data=st.data(),
        how=st.sampled_from(["ack", "requeue", "drop", "reject", "reject for good"]),
        multiple=st.booleans(),
    )
    def settle(self, data: st.DataObject, how: str, multiple: bool) -> None:
        at = data.draw(st.sampled_from([at for at, seat in self.seats.items() if seat.held]))
        tag = data.draw(st.sampled_from(sorted(self.seats[at].held)))
        if how == "ack":
            method: Method = BasicAck(tag, multiple)
        elif how in ("requeue", "drop"):
            method = BasicNack(tag, multiple, requeue=how == "requeue")
        else:
            multiple = False
            method = BasicReject(tag, requeue=how == "reject")
        self._settle(at, range(1 if multiple else tag, tag + 1), gives_back=how in ("requeue", "reject"))
        self._say(at, method)
        self._listen()

    @rule(seat=seats, how=st.sampled_from(["ack", "requeue", "recover", "one by one"]))
    def settle_everything(self, seat: tuple[int, int], how: str) -> None:
        tags = sorted(self.seats[seat].held)
        self._settle(seat, tags, gives_back=how in ("requeue", "recover"))
        if how == "one by one":
            self._say(seat, *[BasicAck(tag) for tag in tags])
        elif how == "recover":
            self._say(seat, BasicRecover(requeue=True))
        else:
            self._say(seat, BasicAck(0, multiple=True) if how == "ack" else BasicNack(0, multiple=True, requeue=True))
        self._listen(*["basic.recover-ok"] * (how == "recover"))

    @rule(
        what=st.sampled_from([*[None] * 6, "purge", "delete", "close channel", "close connection", "vanish"]),
        seat=seats,
        index=queues,
    )
    def disturb(self, what: str | None, seat: tuple[int, int], index: int) -> None:
        """One rule for all that ends things, or little would ever grow; None is the simplest, and does nothing."""
        name, queue = self._pick(index)
        if what == "purge":
            assert self.publisher.ask(QueuePurge(name)) == QueuePurgeOk(len(queue.ready))
            queue.ready.clear()
        elif what == "delete":
            self._delete_and_declare_again(name, queue)
        elif what == "close channel":
            self._leave(seat)
            self._say(seat, ChannelClose(200, "bye"), ChannelOpen())
            self._listen("channel.close-ok", "channel.open-ok")
        elif what is not None:
            self._close_connection(seat[0], politely=what == "close connection")

    def _delete_and_declare_again(self, name: str, queue: ModelQueue) -> None:
        assert self.publisher.ask(QueueDelete(name)) == QueueDeleteOk(len(queue.ready))
        gone = {consumer.tag for consumer in queue.consumers}
        for seat in self.seats.values():
            seat.consumers = {tag: entry for tag, entry in seat.consumers.items() if tag not in gone}
        cancelled = [what for client in self.clients for what in client.heard()]
        assert {what.consumer_tag for what in cancelled if isinstance(what, BasicCancel)} == gone
        queue.die()
        self._declare(name)

    def _close_connection(self, number: int, politely: bool) -> None:
        client = self.clients[number]
        for at in [at for at in self.seats if at[0] == number]:
            self._leave(at)
        if politely:
            client.send(ConnectionClose(200, "bye"), channel=0)
        client.vanish()
        self.clients[number] = self.harness.client()
        if number == 0:
            self.clients[0].open_channel(2)
        self._listen()

    @rule(seconds=st.sampled_from([0, 1, 3, 8, 61]))
    def wait(self, seconds: int) -> None:
        self.harness.advance(seconds)
        for queue in self.model.values():
            queue.bury(self.now)
        self._listen()

    # ---- what follows from it

    def _say(self, seat: tuple[int, int], *methods: Method) -> None:
        self.clients[seat[0]].feed(b"".join(method_frame(seat[1], method) for method in methods))

    def _settle(self, at: tuple[int, int], tags: range | list[int], gives_back: bool) -> None:
        seat = self.seats[at]
        for tag in [tag for tag in tags if tag in seat.held]:
            queue, message, consumer = seat.held.pop(tag)
            if consumer is not None:
                consumer.held -= 1
            if gives_back:
                queue.give_back([message], self.now)
            else:
                queue.forget(message)

    def _leave(self, at: tuple[int, int]) -> None:
        self._settle(at, range(1, self.seats[at].next_tag), gives_back=True)
        for queue, consumer in self.seats[at].consumers.values():
            queue.consumers.remove(consumer)
        self.seats[at] = Seat()

    def _listen(self, *answers: str) -> None:
        """Everything that is due must have been received by now, and nothing else."""
        told: list[str] = []
        heard: dict[str, list[tuple[bytes, bool]]] = defaultdict(list)
        tags: list[tuple[Seat, str, int, bytes]] = []
        for number, client in enumerate(self.clients):
            for channel, what in client.hear():
                seat = self.seats[number, channel]
                if isinstance(what, Content):
                    assert isinstance(what.method, BasicDeliver)
                    heard[what.method.consumer_tag].append((what.body, what.redelivered))
                    tags.append((seat, what.method.consumer_tag, what.tag, what.body))
                else:
                    told.append(what.NAME)
        assert sorted(told) == sorted(answers)
        went: dict[bytes, tuple[ModelQueue, ModelMessage]] = {}
        for queue in self.model.values():
            mine = {consumer.tag: heard.pop(consumer.tag) for consumer in queue.consumers if consumer.tag in heard}
            went |= {body: (queue, message) for body, message in queue.deliver(mine, self.now).items()}
        assert not heard, "nobody is delivered to who does not consume"
        for seat, consumer_tag, tag, body in tags:
            assert tag == seat.next_tag, "delivery tags count up"
            seat.next_tag += 1
            queue, message = went[body]
            consumer = seat.consumers[consumer_tag][1]
            if not consumer.no_ack:
                consumer.held += 1
                queue.unacked.add(message)
                seat.held[tag] = Held(queue, message, consumer)

    @invariant()
    def counts_and_memory_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        used = 0
        for name, queue in self.model.items():
            answer = self.publisher.ask(QueueDeclare(name, passive=True))
            assert answer == QueueDeclareOk(name, len(queue.ready), len(queue.consumers))
            real = self.harness.queue(name)
            assert (real.unacked, real.bytes) == (len(queue.unacked), queue.bytes)
            used += queue.bytes + (len(queue.ready) + len(queue.unacked)) * PER_MESSAGE
        assert self.harness.broker.gauge.used == used

    def teardown(self) -> None:
        """When all is drained, nothing is left of it."""
        if not hasattr(self, "model"):
            return
        for client in self.clients:
            client.vanish()
        for name in self.model:
            self.publisher.ask(QueuePurge(name))
        assert self.harness.broker.gauge.used == 0
        assert all(queue.bytes == queue.unacked == 0 for queue in self.harness.vhost.queues.values())


QueueMachine.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestQueueModel = QueueMachine.TestCase

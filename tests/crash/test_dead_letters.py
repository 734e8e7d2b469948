"""A power cut after every operation on the disk while messages die: each is in one queue, never in two, never in none.

A message that was confirmed lies, whatever the moment of the crash, either where it was or where its death sent it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from leveret.wire.content import body_of
from leveret.wire.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from tests.support.store_harness import look
from tests.support.stored_harness import StoredHarness
from tests.support.virtual_disk import VirtualDisk

SEGMENT = 4 << 10
IMAGES = 5  # of one crash, beside the extremes


class Life:
    """One run of a broker; records at which operation each message was confirmed, and which were settled."""

    def __init__(self) -> None:
        self.harness = StoredHarness(segment_size=SEGMENT, queue_memory=2000)
        self.confirmed: dict[bytes, int] = {}
        self.done: dict[bytes, int] = {}  # acked: from then on it may be anywhere or nowhere
        self.client = self.harness.client()
        self.publisher = self.harness.client()
        self.publisher.ask(ConfirmSelect())
        self._published: list[bytes] = []
        self.declare("dead")

    @property
    def now(self) -> int:
        return len(self.harness.disk.operations)

    def declare(self, name: str, **arguments: object) -> None:
        table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.client.declare(name, durable=True, arguments=table)

    def publish(self, queue: str, *bodies: bytes, **properties: object) -> None:
        """Each in a write of its own."""
        for body in bodies:
            self.publish_run(queue, body, **properties)

    def publish_run(self, queue: str, *bodies: bytes, **properties: object) -> None:
        self._published += bodies
        self.publisher.publish(queue, *bodies, delivery_mode=2, **properties)  # type: ignore[arg-type]
        self._hear()

    def _hear(self) -> None:
        for each in self.publisher.heard():
            if isinstance(each, BasicAck):
                first = 1 if each.multiple else each.delivery_tag
                for number in range(first, each.delivery_tag + 1):
                    self.confirmed.setdefault(self._published[number - 1], self.now)
            else:
                assert isinstance(each, BasicNack), each

    def refuse(self, queue: str, *, requeue: bool = False) -> None:
        got = self.client.get(queue)
        assert got is not None
        self.client.nack(got.tag, requeue=requeue)

    def ack(self, queue: str) -> None:
        got = self.client.get(queue)
        assert got is not None
        self.done[got.body] = self.now
        self.client.ack(got.tag)

    def advance(self, seconds: float) -> None:
        self.harness.advance(seconds)
        self._hear()


def bodies(prefix: str, number: int) -> list[bytes]:
    return [f"{prefix} {each} ".encode() + b"." * 60 for each in range(number)]


# ---- runs


def rejected(life: Life) -> None:
    life.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    life.publish("q", *bodies("m", 12))
    for _ in range(6):
        life.refuse("q")
    for _ in range(3):
        life.ack("dead")


def rejected_together(life: Life) -> None:
    life.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    life.publish("q", *bodies("m", 20))
    for _ in range(20):
        life.client.get("q")
    life.client.nack(20, multiple=True, requeue=False)


def dropped_heads(life: Life) -> None:
    life.declare("q", max_length=3, dead_letter_exchange="", dead_letter_routing_key="dead")
    life.publish("q", *bodies("m", 15))


def down_a_chain(life: Life) -> None:
    """Three queues within one turn."""
    life.declare("end")
    life.declare("middle", max_length=1, dead_letter_exchange="", dead_letter_routing_key="end")
    life.declare("q", message_ttl=0, dead_letter_exchange="", dead_letter_routing_key="middle")
    life.publish("q", *bodies("m", 10))


def expired(life: Life) -> None:
    """Some of them on disk only."""
    life.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    for number in range(8):
        life.publish_run("q", *bodies(f"m{number}", 20))
        life.publish_run("q", *bodies(f"e{number}", 2), expiration="10000")
    assert life.harness.queue("q").lane.paged > 50
    life.advance(10)


def came_back_too_often(life: Life) -> None:
    life.declare("q", delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    life.publish("q", *bodies("m", 5))
    for _ in range(8):
        life.refuse("q", requeue=True)


def retried(life: Life) -> None:
    life.declare("q", retry_delays=[1000, 2000], dead_letter_exchange="", dead_letter_routing_key="dead")
    life.publish("q", *bodies("m", 4))
    for seconds in (1, 2, 0):
        for _ in range(4):
            life.refuse("q", requeue=True)
        life.advance(seconds)


def as_activemq(life: Life) -> None:
    """The queue of the dead is made on the way."""
    life.declare("q", dead_letter_strategy="individual", max_redeliveries=0)
    life.publish("q", *bodies("m", 5))
    for _ in range(4):
        life.refuse("q", requeue=True)


def in_a_transaction(life: Life) -> None:
    life.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    life.publish("q", *bodies("m", 6))
    client = life.harness.client()
    assert client.ask(TxSelect()).NAME == "tx.select-ok"
    for number in range(3):
        got = client.get("q")
        assert got is not None
        client.nack(got.tag, requeue=False)
        if number == 1:
            assert isinstance(client.ask(TxCommit()), TxCommitOk)


def with_much_beside(life: Life) -> None:
    """Segments come and go."""
    life.declare("q", max_length=2, dead_letter_exchange="", dead_letter_routing_key="dead")
    life.declare("busy")
    for round_ in range(6):
        life.publish("q", *bodies(f"m{round_}", 2))
        life.publish("busy", *[b"busy %d %d" % (round_, each) + b"x" * 600 for each in range(5)])
        for _ in range(5):
            life.ack("busy")


LIVES: list[Callable[[Life], None]] = [
    rejected,
    rejected_together,
    dropped_heads,
    down_a_chain,
    expired,
    came_back_too_often,
    retried,
    as_activemq,
    in_a_transaction,
    with_much_beside,
]


def found_on(image: VirtualDisk) -> Counter[bytes]:
    return Counter(body_of(content) for content, _, _ in look(image, SEGMENT).messages.values())


def check(life: Life, image: VirtualDisk, crash: int) -> None:
    found = found_on(image)
    for body, number in found.items():
        assert number == 1, f"{body[:10]!r} is in {number} queues"
    for body, since in life.confirmed.items():
        is_done = body in life.done and life.done[body] < crash
        assert crash < since or is_done or found[body], f"{body[:10]!r} was confirmed and is nowhere"


@pytest.mark.parametrize("lived", LIVES, ids=lambda lived: lived.__name__)
@pytest.mark.feature("S0-22", "S0-24", "S0-25", "S1-20", "S4-76")
def test_a_dead_lettered_message_is_in_one_queue_at_every_moment(lived: Callable[[Life], None]) -> None:
    life = Life()
    lived(life)
    operations, state, random = life.harness.disk.operations, VirtualDisk(), Random(24)
    for crash in range(len(operations) + 1):
        for name, image in state.images(random, IMAGES):
            try:
                check(life, image, crash)
            except AssertionError as problem:
                raise AssertionError(f"after {crash} of {len(operations)} operations, {name}: {problem}") from problem
        if crash < len(operations):
            state.redo(operations[crash])
    assert len(life.confirmed) > 3
    assert sum(found_on(life.harness.disk.copy()).values()) >= len(life.confirmed) - len(life.done)


def test_a_letter_for_two_queues_is_in_both_or_still_where_it_was() -> None:
    life = Life()
    life.declare("also")
    life.client.ask(ExchangeDeclare("dlx", "fanout", durable=True))
    for queue in ("dead", "also"):
        life.client.ask(QueueBind(queue, "dlx"))
    life.declare("q", dead_letter_exchange="dlx")
    life.publish("q", *bodies("m", 5))
    for _ in range(5):
        life.refuse("q")
    operations, state, random = life.harness.disk.operations, VirtualDisk(), Random(24)
    names = {life.harness.queue(name).id: name for name in ("q", "dead", "also")}
    for operation in operations:
        state.redo(operation)
        for _, image in state.images(random, IMAGES):
            places: dict[bytes, set[str]] = {}
            for (id_, _, _), message in look(image, SEGMENT).messages.items():
                places.setdefault(body_of(message[0]), set()).add(names[id_])
            assert all(place in ({"q"}, {"dead", "also"}) for place in places.values()), places


@pytest.mark.parametrize("image", range(4))
def test_the_story_survives_with_the_letter(image: int) -> None:
    life = Life()
    life.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    life.publish("q", b"m", headers={"mine": "yes"})
    life.refuse("q")
    client = life.harness.crashed(image=image).again().client()
    letter = client.get("dead")
    assert letter is not None
    headers = letter.properties.headers
    assert headers is not None
    assert (headers["mine"], headers["x-first-death-queue"]) == ("yes", "q")

"""Leases beside consumers, purges and restarts, over a real journal with its backlog on disk, against a list.

Nothing is lost or given twice, order holds, a lease is the same however often it is asked for and whatever happened in
between, and the books of the queue agree with the disk.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.backlog import lease_builder, lease_release, pager
from leveret.wire.methods import QueuePurge
from tests.support.lease_reader import LeaseReader, open_leases
from tests.support.stored_harness import StoredHarness

SMALL = {pager: {"WORTH_IT": 2, "SMALL_GAP": 3, "LOAD_BYTES": 200, "SQUEEZED": 100, "LOOK_AGAIN": 3}}
SMALL |= {lease_builder: {"STEP": 4}, lease_release: {"STEP": 3, "READ_BYTES": 150, "RUNS_AT_ONCE": 2}}
USUAL = {room: {name: getattr(room, name) for name in names} for room, names in SMALL.items()}
READERS = ("one", "other")

Place = tuple[int, int]  # what goes out first is lowest: priority, order of publish


class LeasesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        for room, names in SMALL.items():
            for name, value in names.items():
                setattr(room, name, value)

    def teardown(self) -> None:
        for room, names in USUAL.items():
            for name, value in names.items():
                setattr(room, name, value)

    @initialize(highest=st.sampled_from([0, 0, 2]))
    def start(self, highest: int) -> None:
        self.harness = StoredHarness(queue_memory=150, segment_size=900)
        self.highest = highest
        self.published = 0
        self.size = 0
        self.ready: dict[Place, bytes] = {}
        self.held: dict[int, Place] = {}  # by delivery tag
        self.unacked: dict[Place, bytes] = {}
        self.leases: dict[str, dict[int, list[bytes]]] = {reader: {} for reader in READERS}
        self.leased: dict[bytes, Place] = {}
        self.committed = dict.fromkeys(READERS, 0)
        self.client = self.harness.client()
        arguments = {"x-max-priority": highest} if highest else {}
        self.client.declare("q", durable=True, arguments=arguments)

    # ---- messages

    @rule(number=st.integers(1, 12), priority=st.integers(0, 2))
    def publish(self, number: int, priority: int) -> None:
        bodies = [b"%05d" % each for each in range(self.published, self.published + number)]
        self.published += number
        self.client.publish("q", *bodies, delivery_mode=2, priority=priority)
        self.size = self.size or self.harness.queue("q").bytes // number
        for body in bodies:
            self.ready[-min(priority, self.highest), int(body)] = body

    @rule(number=st.integers(1, 3))
    def get(self, number: int) -> None:
        for _ in range(number):
            content = self.client.get("q")
            if not self.ready:
                assert content is None
                return
            assert content is not None
            place = min(self.ready)
            assert content.body == self.ready[place]
            self.held[content.tag] = place
            self.unacked[place] = self.ready.pop(place)

    @precondition(lambda self: self.held)
    @rule(chosen=st.integers(0, 100), requeue=st.booleans())
    def settle(self, chosen: int, requeue: bool) -> None:
        tag = sorted(self.held)[chosen % len(self.held)]
        place = self.held.pop(tag)
        body = self.unacked.pop(place)
        if requeue:
            self.client.nack(tag)
            self.ready[place] = body
        else:
            self.client.ack(tag)

    @rule()
    def purge(self) -> None:
        answer = self.client.ask(QueuePurge("q"))
        assert answer.message_count == len(self.ready)  # type: ignore[attr-defined]
        self.ready.clear()

    @rule()
    def squeeze(self) -> None:
        """The broker is short of memory for a moment."""
        self.harness.broker.gauge.is_short = True
        self.harness.queue("q").touch()
        self.harness.turn()

    # ---- leases

    def _last(self, reader: str) -> int:
        return max(self.leases[reader], default=self.committed[reader])

    @rule(reader=st.sampled_from(READERS), most=st.integers(1, 15))
    def take(self, reader: str, most: int) -> None:
        after = self._last(reader)
        number = LeaseReader(self.harness, "q", reader).take(after, most)
        due = sorted(self.ready)[:most]
        assert number == after + bool(due)
        if due:
            self.leases[reader][number] = [self.ready.pop(place) for place in due]
            self.leased.update({body: place for place, body in zip(due, self.leases[reader][number], strict=True)})
            if reader not in self.committed:
                self.committed[reader] = after

    @precondition(lambda self: any(self.leases.values()))
    @rule(chosen=st.integers(0, 100), of=st.integers(1, 4))
    def read(self, chosen: int, of: int) -> None:
        """By asking for it again."""
        every = [(reader, number) for reader, leases in self.leases.items() for number in leases]
        reader, number = every[chosen % len(every)]
        hand = LeaseReader(self.harness, "q", reader)
        assert hand.take(number - 1, 1) == number
        slices = [hand.bodies(number, index, of) for index in range(of)]
        assert [body for some in slices for body in some] == self.leases[reader][number]

    @precondition(lambda self: any(self.leases.values()))
    @rule(chosen=st.integers(0, 100))
    def commit(self, chosen: int) -> None:
        every = [(reader, number) for reader, leases in self.leases.items() for number in leases]
        reader, through = every[chosen % len(every)]
        gone = [number for number in self.leases[reader] if number <= through]
        bodies = [body for number in gone for body in self.leases[reader].pop(number)]
        for body in bodies:
            del self.leased[body]
        self.committed[reader] = through
        assert LeaseReader(self.harness, "q", reader).commit(through) == (through, len(bodies))

    @rule(reader=st.sampled_from(READERS), chosen=st.none() | st.integers(0, 100))
    def release(self, reader: str, chosen: int | None) -> None:
        numbers = sorted(self.leases[reader])
        number = None if chosen is None or not numbers else numbers[chosen % len(numbers)]
        back = [body for each in numbers if number in (None, each) for body in self.leases[reader].pop(each)]
        assert LeaseReader(self.harness, "q", reader).release(number) == len(back)
        if number is None:
            self.committed[reader] = 0
        for body in back:
            self.ready[self.leased.pop(body)] = body

    # ---- restarts

    @rule(is_clean=st.booleans(), image=st.integers(0, 7))
    def restart(self, is_clean: bool, image: int) -> None:
        self.harness = (self.harness.stopped() if is_clean else self.harness.crashed(image=image)).again()
        self.client = self.harness.client()
        self.ready |= self.unacked
        self.unacked.clear()
        self.held.clear()

    # ---- what always holds

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "harness"):
            return
        self.harness.broker.gauge.is_short = False
        self.harness.rest()
        queue = self.harness.queue("q")
        assert queue.ready == len(self.ready)
        assert queue.unacked == len(self.unacked) + len(self.leased)
        assert queue.bytes == self.size * (len(self.ready) + queue.unacked)
        assert queue.held == self.size * queue.unacked
        expected = {("q", reader, n): len(some) for reader, all_ in self.leases.items() for n, some in all_.items()}
        assert open_leases(self.harness) == expected

    @invariant()
    def the_disk_has_all_that_is_not_settled(self) -> None:
        if hasattr(self, "harness"):
            kept = [*self.ready.values(), *self.unacked.values(), *self.leased]
            assert sorted(self.harness.waiting_on_disk("q")) == sorted(kept)


LeasesMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLeases = LeasesMachine.TestCase

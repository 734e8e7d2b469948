"""What a broker goes through while the virtual disk takes note: each workload once, for all crashes in it.

Small and dense: a few dozen writes with everything that the journal does. ``harness.turn()`` without ``write()``
lets batches gather, so that the writer does several at once.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from leveret.queues.declared_queue import GetResult
from leveret.store import reclaim
from leveret.store.journal import LARGE
from tests.support.broker_harness import BrokerHarness
from tests.support.store_harness import message

Workload = Callable[[BrokerHarness], None]
SMALL = 2048  # bytes of a segment in most of these


def fan_out(harness: BrokerHarness) -> None:
    """Runs to several queues at once; acks in order, out of order, and before anything was written."""
    harness.make("a", "b", "c")
    harness.rest()
    for n in range(4):
        harness.post("a b c", *(b"fan %d.%d" % (n, m) for m in range(n + 1)))
        harness.post("a", b"alone %d" % n)
        harness.turn()
        if n % 2:
            harness.write()
    taken = harness.take("a", 6)
    harness.ack("a", *taken[:2])
    harness.turn()
    harness.ack("a", taken[5], taken[3])
    harness.post("b c", b"x" * 700, b"y" * 100)
    harness.rest()
    harness.post("a b", b"gone at once")
    harness.ack("b", *harness.take("b", 9))
    harness.ack("a", *harness.take("a", 9))
    harness.rest()
    harness.post("c", *(b"z%d" % n * 40 for n in range(12)))
    harness.turn()
    harness.ack("c", *harness.take("c", 5))
    harness.journal.promise()
    harness.rest()


def priorities(harness: BrokerHarness) -> None:
    """Lanes, deadlines, messages that come back, and come back again."""
    harness.make("p", max_priority=3)
    harness.make("plain")
    harness.rest()
    for n in range(3):
        run = [message(b"p%d.%d" % (n, m), priority=(n + m) % 5) for m in range(6)]
        harness.post_run("p plain", run)
        harness.post_run("p", [message(b"t%d" % n, priority=n, deadline=harness.clock.now() + 1e6)])
        harness.turn()
    harness.write()
    first = harness.take("p", 5)
    harness.requeue("p", *first[:3])
    harness.turn()
    harness.journal.promise()
    harness.rest()
    again = harness.take("p", 3)
    harness.requeue("p", *again)
    harness.ack("p", *first[3:])
    harness.rest()
    harness.requeue("p", *harness.take("p", 2))
    harness.journal.promise()
    harness.rest()
    harness.ack("plain", *harness.take("plain", 18)[::2])
    harness.rest()


def transactions(harness: BrokerHarness) -> None:
    """Groups: publishes with acks, moves from queue to queue, a purge; several groups in one write."""
    harness.make("in", "out", "dead")
    harness.rest()
    harness.post("in", *(b"job %d" % n for n in range(12)))
    harness.rest()
    taken = harness.take("in", 10)
    with harness.journal.group():
        harness.post("out", b"result 0")
        harness.post("out dead", b"result 1", b"result 2")
        harness.ack("in", *taken[:2])
    harness.turn()
    harness.move("in", "dead", taken[2])
    harness.move("in", "dead", taken[3], taken[5])
    harness.turn()
    with harness.journal.group():
        harness.ack("in", taken[4])
        harness.requeue("in", taken[6])
    harness.write()
    with harness.journal.group():
        harness.post("out", b"wide " * 150)
        harness.post("in", b"wide " * 150)
        harness.post("dead", b"wide " * 150)
        harness.ack("in", taken[7])
    harness.rest()
    dead = harness.take("dead", 2)
    harness.move("dead", "in out", *dead)
    harness.turn()
    harness.purge("out")
    harness.post("out", b"after the purge")
    harness.rest()
    harness.ack("in", *taken[8:])
    harness.rest()


def deletions(harness: BrokerHarness) -> None:
    """Queues that go while others share their messages, and that are declared anew."""
    harness.make("a", "b", "c")
    harness.rest()
    harness.post("a b", *(b"shared %d" % n * 20 for n in range(6)))
    harness.post("c", b"c only" * 50)
    harness.turn()
    harness.post("a", b"a only")
    harness.rest()
    harness.ack("b", *harness.take("b", 2))
    harness.drop("a")
    harness.turn()
    harness.make("a")
    harness.post("a c", b"second life", b"of a")
    harness.rest()
    harness.post("c", b"in a turn with its end")
    harness.drop("c")
    harness.turn()
    harness.post("b", *(b"b %d" % n * 60 for n in range(9)))
    harness.rest()
    harness.drop("b")
    harness.rest()
    harness.post("a", b"the last")
    harness.rest()


def reclaiming(harness: BrokerHarness) -> None:
    """Files that are mostly dead are copied slice by slice, with what still counts of settles and returns."""
    harness.make("q", "r", "s")
    harness.rest()
    kept = []
    for n in range(14):
        harness.post("q r", b"pair %02d " % n * 8)
        harness.post("q", b"single %02d " % n * 8, b"run %02d " % n * 3)
        harness.rest()
        taken = harness.take("q", 3)
        if n % 5 == 0:
            kept.append(taken.pop())
        elif n % 5 == 3:
            harness.requeue("q", taken.pop())
        harness.ack("q", *taken)
        harness.ack("r", *harness.take("r", n % 3))
        harness.post("s", b"beside", b"the reclaim")
        harness.turn()
        if n % 3 == 2:
            harness.ack("s", *harness.take("s", 6))
            harness.journal.promise()
            harness.rest()
    harness.ack("q", *kept)
    harness.journal.promise()
    harness.rest()
    harness.purge("r")
    harness.rest()


def shortage(harness: BrokerHarness) -> None:
    """The disk is full for a while; consumers go on, publishers wait, then there is room again."""
    harness.make("a", "b")
    harness.rest()
    harness.post("a b", *(b"before %d" % n * 9 for n in range(8)))
    harness.rest()
    taken = harness.take("a", 6)
    harness.disk.capacity = harness.disk.used + 300
    harness.post("a", b"too much " * 40)
    harness.post("a b", b"and more " * 40)
    harness.turn()
    harness.move("a", "b", taken[0])
    harness.rest()
    assert harness.journal.batches.held is not None
    harness.ack("a", *taken[1:3])
    harness.journal.promise()
    harness.rest()
    harness.ack("a", *harness.take("a", 3))
    harness.post("b", b"held " * 30)
    harness.rest()
    harness.ack("b", *harness.take("b", 4))
    harness.disk.capacity = None
    harness.journal.space_returned()
    harness.rest()
    harness.ack("a", taken[3])
    harness.post("a b", *(b"afterwards %d" % n * 30 for n in range(6)))
    harness.rest()
    harness.purge("b")
    harness.rest()


def lives(harness: BrokerHarness) -> None:
    """A clean stop, another run on the same disk, and a kill."""
    harness.make("q", "r")
    harness.post("q r", *(b"first life %d" % n for n in range(5)))
    harness.rest()
    harness.ack("q", *harness.take("q", 2))
    harness.requeue("q", *harness.take("q", 1))
    harness.stop()
    second = BrokerHarness(harness.disk, full_size=SMALL, ledger=harness.ledger)
    second.begin()
    second.post("q r", *(b"second life %d" % n for n in range(5)))
    second.rest()
    second.ack("q", *second.take("q", 4)[::2])
    second.move("r", "q", *second.take("r", 2))
    second.journal.promise()
    second.rest()
    third = BrokerHarness(harness.disk, full_size=SMALL, ledger=harness.ledger)
    third.begin()
    third.post("r", b"third life " * 9)
    third.ack("r", *third.take("r", 3))
    third.rest()
    third.stop()


def restless(harness: BrokerHarness, seed: int) -> None:
    """Anything in any order."""
    Restless(harness, Random(seed)).live(90)
    harness.rest()


NAMES = ["a", "b", "c", "d"]
ACTIONS = ["post", "post", "fan", "ack", "ack", "ack", "requeue", "move", "commit", "purge", "drop"]


class Restless:
    """Queues a to d, of which d has priorities, and a client that does any operation on them."""

    def __init__(self, harness: BrokerHarness, random: Random, *, is_short: bool = False) -> None:
        self.harness = harness
        self.random = random
        self.is_short = is_short  # the disk is full now and then
        harness.journal.large = random.choice([60, LARGE])
        self.held: dict[str, list[GetResult]] = {name: [] for name in NAMES}
        known = harness.broker.vhost("/").queues
        harness.make(*(name for name in NAMES[:3] if name not in known))
        if "d" not in known:
            harness.make("d", max_priority=2)
        harness.rest()
        self._life = random.randrange(10**6)
        self._count = 0

    def live(self, steps: int) -> None:
        harness, random = self.harness, self.random
        for _ in range(steps):
            self._count += 1
            name = random.choice(NAMES)
            getattr(self, f"_{random.choice(ACTIONS)}")(name)
            if random.random() < 0.6:
                self.held[name] += harness.take(name, random.randint(1, 6))
            for chance, call in (
                (0.1, harness.journal.promise),
                (0.6, harness.turn),
                (0.4, harness.write),
                (0.1, harness.rest),
            ):
                if random.random() < chance:
                    call()
            if self.is_short:
                self._change_the_room()

    def _change_the_room(self) -> None:
        harness, disk = self.harness, self.harness.disk
        if harness.journal.batches.held is not None and self.random.random() < 0.2:
            disk.capacity = None
            harness.journal.space_returned()
        elif harness.journal.batches.held is None and self.random.random() < 0.05:
            disk.capacity = disk.used + self.random.randint(0, 1500)

    def _some(self, name: str) -> list[GetResult]:
        mine = self.held[name]
        return [mine.pop(self.random.randrange(len(mine))) for _ in range(min(len(mine), self.random.randint(1, 4)))]

    def _bodies(self) -> list[bytes]:
        sizes = [self.random.randint(1, 150) for _ in range(self.random.randint(1, 4))]
        return [b"%d.%d.%d " % (self._life, self._count, n) + b"." * size for n, size in enumerate(sizes)]

    def _post(self, name: str) -> None:
        run = [message(body, priority=self.random.randint(0, 3)) for body in self._bodies()]
        self.harness.post_run(name, run)

    def _fan(self, name: str) -> None:
        self.harness.post(" ".join(NAMES), *self._bodies())

    def _ack(self, name: str) -> None:
        self.harness.ack(name, *self._some(name))

    def _requeue(self, name: str) -> None:
        self.harness.requeue(name, *self._some(name))

    def _move(self, name: str) -> None:
        self.harness.move(name, self.random.choice(NAMES), *self._some(name))

    def _commit(self, name: str) -> None:
        with self.harness.journal.group():
            self.harness.post(" ".join(sorted({name, self.random.choice(NAMES)})), *self._bodies())
            self.harness.ack(name, *self._some(name))

    def _purge(self, name: str) -> None:
        if self.random.random() < 0.3:
            self.harness.purge(name)

    def _drop(self, name: str) -> None:
        if self.random.random() < 0.3 and name != "d":
            self.held[name] = []
            self.harness.drop(name)
            self.harness.make(name)


WORKLOADS: list[Workload] = [fan_out, priorities, transactions, deletions, reclaiming, shortage, lives]


def lived_through(workload: Workload, slice_size: int = 512) -> BrokerHarness:
    """The harness after the workload: its disk has the operations, its ledger what was promised."""
    harness = BrokerHarness(full_size=SMALL)
    before, reclaim.SLICE = reclaim.SLICE, slice_size
    try:
        harness.begin()
        workload(harness)
    finally:
        reclaim.SLICE = before
    return harness

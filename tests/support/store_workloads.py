"""What a broker goes through while the virtual disk takes note: each workload once, for all crashes in it.

Small and dense: a few dozen writes with everything in them that the journal does. ``house.turn()`` without ``write()``
lets batches gather, so that the writer does several at once.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from leveret.queues.declared_queue import GetResult
from leveret.store import reclaim
from leveret.store.journal import LARGE
from tests.support.broker_house import BrokerHouse
from tests.support.store_house import message

Workload = Callable[[BrokerHouse], None]
SMALL = 2048  # bytes of a segment in most of these


def fan_out(house: BrokerHouse) -> None:
    """Runs to several queues at once; acks in order, out of order, and before anything was written."""
    house.make("a", "b", "c")
    house.rest()
    for n in range(4):
        house.post("a b c", *(b"fan %d.%d" % (n, m) for m in range(n + 1)))
        house.post("a", b"alone %d" % n)
        house.turn()
        if n % 2:
            house.write()
    taken = house.take("a", 6)
    house.ack("a", *taken[:2])
    house.turn()
    house.ack("a", taken[5], taken[3])
    house.post("b c", b"x" * 700, b"y" * 100)
    house.rest()
    house.post("a b", b"gone at once")
    house.ack("b", *house.take("b", 9))
    house.ack("a", *house.take("a", 9))
    house.rest()
    house.post("c", *(b"z%d" % n * 40 for n in range(12)))
    house.turn()
    house.ack("c", *house.take("c", 5))
    house.journal.promise()
    house.rest()


def priorities(house: BrokerHouse) -> None:
    """Lanes, deadlines, messages that come back, and come back again."""
    house.make("p", max_priority=3)
    house.make("plain")
    house.rest()
    for n in range(3):
        run = [message(b"p%d.%d" % (n, m), priority=(n + m) % 5) for m in range(6)]
        house.post_run("p plain", run)
        house.post_run("p", [message(b"t%d" % n, priority=n, deadline=house.clock.now() + 1e6)])
        house.turn()
    house.write()
    first = house.take("p", 5)
    house.requeue("p", *first[:3])
    house.turn()
    house.journal.promise()
    house.rest()
    again = house.take("p", 3)
    house.requeue("p", *again)
    house.ack("p", *first[3:])
    house.rest()
    house.requeue("p", *house.take("p", 2))
    house.journal.promise()
    house.rest()
    house.ack("plain", *house.take("plain", 18)[::2])
    house.rest()


def transactions(house: BrokerHouse) -> None:
    """Groups: publishes with acks, moves from queue to queue, a purge; several groups in one write."""
    house.make("in", "out", "dead")
    house.rest()
    house.post("in", *(b"job %d" % n for n in range(12)))
    house.rest()
    taken = house.take("in", 10)
    with house.journal.group():
        house.post("out", b"result 0")
        house.post("out dead", b"result 1", b"result 2")
        house.ack("in", *taken[:2])
    house.turn()
    house.move("in", "dead", taken[2])
    house.move("in", "dead", taken[3], taken[5])
    house.turn()
    with house.journal.group():
        house.ack("in", taken[4])
        house.requeue("in", taken[6])
    house.write()
    with house.journal.group():
        house.post("out", b"wide " * 150)
        house.post("in", b"wide " * 150)
        house.post("dead", b"wide " * 150)
        house.ack("in", taken[7])
    house.rest()
    dead = house.take("dead", 2)
    house.move("dead", "in out", *dead)
    house.turn()
    house.purge("out")
    house.post("out", b"after the purge")
    house.rest()
    house.ack("in", *taken[8:])
    house.rest()


def deletions(house: BrokerHouse) -> None:
    """Queues that go while others share their messages, and that are declared anew."""
    house.make("a", "b", "c")
    house.rest()
    house.post("a b", *(b"shared %d" % n * 20 for n in range(6)))
    house.post("c", b"c only" * 50)
    house.turn()
    house.post("a", b"a only")
    house.rest()
    house.ack("b", *house.take("b", 2))
    house.drop("a")
    house.turn()
    house.make("a")
    house.post("a c", b"second life", b"of a")
    house.rest()
    house.post("c", b"in a turn with its end")
    house.drop("c")
    house.turn()
    house.post("b", *(b"b %d" % n * 60 for n in range(9)))
    house.rest()
    house.drop("b")
    house.rest()
    house.post("a", b"the last")
    house.rest()


def reclaiming(house: BrokerHouse) -> None:
    """Files that are mostly dead are copied slice by slice, with what still counts of settles and returns."""
    house.make("q", "r", "s")
    house.rest()
    kept = []
    for n in range(14):
        house.post("q r", b"pair %02d " % n * 8)
        house.post("q", b"single %02d " % n * 8, b"run %02d " % n * 3)
        house.rest()
        taken = house.take("q", 3)
        if n % 5 == 0:
            kept.append(taken.pop())
        elif n % 5 == 3:
            house.requeue("q", taken.pop())
        house.ack("q", *taken)
        house.ack("r", *house.take("r", n % 3))
        house.post("s", b"beside", b"the reclaim")
        house.turn()
        if n % 3 == 2:
            house.ack("s", *house.take("s", 6))
            house.journal.promise()
            house.rest()
    house.ack("q", *kept)
    house.journal.promise()
    house.rest()
    house.purge("r")
    house.rest()


def shortage(house: BrokerHouse) -> None:
    """The disk is full for a while; consumers go on, publishers wait, then there is room again."""
    house.make("a", "b")
    house.rest()
    house.post("a b", *(b"before %d" % n * 9 for n in range(8)))
    house.rest()
    taken = house.take("a", 6)
    house.disk.capacity = house.disk.used + 300
    house.post("a", b"too much " * 40)
    house.post("a b", b"and more " * 40)
    house.turn()
    house.move("a", "b", taken[0])
    house.rest()
    assert house.journal.batches.held is not None
    house.ack("a", *taken[1:3])
    house.journal.promise()
    house.rest()
    house.ack("a", *house.take("a", 3))
    house.post("b", b"held " * 30)
    house.rest()
    house.ack("b", *house.take("b", 4))
    house.disk.capacity = None
    house.journal.space_returned()
    house.rest()
    house.ack("a", taken[3])
    house.post("a b", *(b"afterwards %d" % n * 30 for n in range(6)))
    house.rest()
    house.purge("b")
    house.rest()


def lives(house: BrokerHouse) -> None:
    """A clean stop, another life on the same disk, and a kill."""
    house.make("q", "r")
    house.post("q r", *(b"first life %d" % n for n in range(5)))
    house.rest()
    house.ack("q", *house.take("q", 2))
    house.requeue("q", *house.take("q", 1))
    house.stop()
    second = BrokerHouse(house.disk, full_size=SMALL, ledger=house.ledger)
    second.begin()
    second.post("q r", *(b"second life %d" % n for n in range(5)))
    second.rest()
    second.ack("q", *second.take("q", 4)[::2])
    second.move("r", "q", *second.take("r", 2))
    second.journal.promise()
    second.rest()
    third = BrokerHouse(house.disk, full_size=SMALL, ledger=house.ledger)
    third.begin()
    third.post("r", b"third life " * 9)
    third.ack("r", *third.take("r", 3))
    third.rest()
    third.stop()


def restless(house: BrokerHouse, seed: int) -> None:
    """Anything in any order."""
    Restless(house, Random(seed)).live(90)
    house.rest()


NAMES = ["a", "b", "c", "d"]
ACTIONS = ["post", "post", "fan", "ack", "ack", "ack", "requeue", "move", "commit", "purge", "drop"]


class Restless:
    """Queues a to d, of which d knows priorities, and somebody who does anything to them."""

    def __init__(self, house: BrokerHouse, random: Random, *, is_short: bool = False) -> None:
        self.house = house
        self.random = random
        self.is_short = is_short  # the disk is full now and then
        house.journal.large = random.choice([60, LARGE])
        self.held: dict[str, list[GetResult]] = {name: [] for name in NAMES}
        known = house.broker.vhost("/").queues
        house.make(*(name for name in NAMES[:3] if name not in known))
        if "d" not in known:
            house.make("d", max_priority=2)
        house.rest()
        self._life = random.randrange(10**6)
        self._count = 0

    def live(self, steps: int) -> None:
        house, random = self.house, self.random
        for _ in range(steps):
            self._count += 1
            name = random.choice(NAMES)
            getattr(self, f"_{random.choice(ACTIONS)}")(name)
            if random.random() < 0.6:
                self.held[name] += house.take(name, random.randint(1, 6))
            for chance, call in (
                (0.1, house.journal.promise),
                (0.6, house.turn),
                (0.4, house.write),
                (0.1, house.rest),
            ):
                if random.random() < chance:
                    call()
            if self.is_short:
                self._change_the_room()

    def _change_the_room(self) -> None:
        house, disk = self.house, self.house.disk
        if house.journal.batches.held is not None and self.random.random() < 0.2:
            disk.capacity = None
            house.journal.space_returned()
        elif house.journal.batches.held is None and self.random.random() < 0.05:
            disk.capacity = disk.used + self.random.randint(0, 1500)

    def _some(self, name: str) -> list[GetResult]:
        mine = self.held[name]
        return [mine.pop(self.random.randrange(len(mine))) for _ in range(min(len(mine), self.random.randint(1, 4)))]

    def _bodies(self) -> list[bytes]:
        sizes = [self.random.randint(1, 150) for _ in range(self.random.randint(1, 4))]
        return [b"%d.%d.%d " % (self._life, self._count, n) + b"." * size for n, size in enumerate(sizes)]

    def _post(self, name: str) -> None:
        run = [message(body, priority=self.random.randint(0, 3)) for body in self._bodies()]
        self.house.post_run(name, run)

    def _fan(self, name: str) -> None:
        self.house.post(" ".join(NAMES), *self._bodies())

    def _ack(self, name: str) -> None:
        self.house.ack(name, *self._some(name))

    def _requeue(self, name: str) -> None:
        self.house.requeue(name, *self._some(name))

    def _move(self, name: str) -> None:
        self.house.move(name, self.random.choice(NAMES), *self._some(name))

    def _commit(self, name: str) -> None:
        with self.house.journal.group():
            self.house.post(" ".join(sorted({name, self.random.choice(NAMES)})), *self._bodies())
            self.house.ack(name, *self._some(name))

    def _purge(self, name: str) -> None:
        if self.random.random() < 0.3:
            self.house.purge(name)

    def _drop(self, name: str) -> None:
        if self.random.random() < 0.3 and name != "d":
            self.held[name] = []
            self.house.drop(name)
            self.house.make(name)


WORKLOADS: list[Workload] = [fan_out, priorities, transactions, deletions, reclaiming, shortage, lives]


def lived_through(workload: Workload, slice_size: int = 512) -> BrokerHouse:
    """The house after the workload: its disk has the operations, its ledger what was promised."""
    house = BrokerHouse(full_size=SMALL)
    before, reclaim.SLICE = reclaim.SLICE, slice_size
    try:
        house.begin()
        workload(house)
    finally:
        reclaim.SLICE = before
    return house

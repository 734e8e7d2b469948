"""Messages that nobody promised to keep, on disk for as long as memory is short."""

from __future__ import annotations

from collections.abc import Callable
from errno import ENOSPC
from random import Random

import pytest

from leveret.message import NEVER, TRANSIENT, Address, Message, Traits
from leveret.store import spill
from leveret.store.pages import Loaded
from tests.support.ledger import is_same
from tests.support.loaded_pages import bodies, load
from tests.support.store_harness import StoreHarness

HERE, THERE = Address("ex", "key", 1, 131072), Address("", "q", 1, 131072)


def transient(body: bytes, address: Address = HERE, *, priority: int = 0, deadline: float = NEVER) -> Message:
    traits = TRANSIENT
    if priority or deadline != NEVER:
        traits = Traits(persistent=False, priority=priority, deadline=deadline)
    return (body, address, traits)


def numbered(first: int, *bodies: bytes) -> list[tuple[int, Message]]:
    return [(sequence, transient(body)) for sequence, body in enumerate(bodies, first)]


@pytest.fixture
def harness() -> StoreHarness:
    made = StoreHarness()
    made.begin()
    return made


def files(harness: StoreHarness) -> list[str]:
    return harness.disk.names("spill")


def test_what_was_spilled_comes_back_as_it_was(harness: StoreHarness) -> None:
    put = [
        (4, transient(b"plain")),
        (5, transient(b"elsewhere", THERE)),
        (6, transient(b"urgent", priority=7)),
        (9, transient(b"mortal", deadline=5000.0)),
        (10, transient(b"")),
    ]
    harness.pages.spill(1, 0, put)
    found = load(harness, 1, 100)
    assert [each.sequence for each in found] == [4, 5, 6, 9, 10]
    assert all(is_same(each.message, message) for each, (_, message) in zip(found, put, strict=True))


def test_persistent_messages_of_queues_that_keep_nothing_come_back_persistent(harness: StoreHarness) -> None:
    persistent = Traits(persistent=True, priority=2)
    harness.pages.spill(1, 0, [(1, (b"m", HERE, persistent)), (2, transient(b"n"))])
    assert [each.message[2].persistent for each in load(harness, 1, 9)] == [True, False]


def test_the_spill_is_not_part_of_the_journal(harness: StoreHarness) -> None:
    before = harness.disk.content("journal/0000000001.seg")
    harness.pages.spill(1, 0, numbered(1, b"a", b"b"))
    harness.rest()
    assert harness.disk.content("journal/0000000001.seg") == before
    assert all(operation.kind != "sync" for operation in harness.disk.operations if "spill" in operation.path)


def test_stretches_come_back_in_order_whatever_order_they_went_in(harness: StoreHarness) -> None:
    runs = [numbered(first, *(b"%d" % n for n in range(first, first + 10))) for first in (31, 1, 51, 11)]
    for run in runs:
        harness.pages.spill(1, 0, run)
    wanted = [(n, b"%d" % n) for n in [*range(1, 21), *range(31, 41), *range(51, 61)]]
    assert bodies(load(harness, 1, 100)) == wanted
    assert bodies(load(harness, 15, 35)) == [pair for pair in wanted if 15 <= pair[0] < 35]
    assert harness.pages.next_sequence(1, 0, 21) == 31
    assert harness.pages.next_sequence(1, 0, 61) is None
    assert harness.pages.size_of(1, 0, 33) == 2
    assert harness.pages.size_of(1, 0, 25) is None


def test_a_load_brings_about_as_much_as_was_asked_for(harness: StoreHarness) -> None:
    harness.pages.spill(1, 0, numbered(1, *(bytes(100) for _ in range(50))))
    found = load(harness, 1, 100, most=1000)
    assert [each.sequence for each in found] == list(range(1, 11))
    assert len(load(harness, 11, 100, most=10)) == 1  # one at least


def test_queues_and_lanes_are_apart(harness: StoreHarness) -> None:
    harness.pages.spill(1, 0, numbered(1, b"q1"))
    harness.pages.spill(1, 3, [(1, transient(b"lane 3", priority=3))])
    harness.pages.spill(2, 0, numbered(1, b"q2"))
    assert bodies(load(harness, 1, 9)) == [(1, b"q1")]
    assert bodies(load(harness, 1, 9, lane=3)) == [(1, b"lane 3")]
    assert bodies(load(harness, 1, 9, queue=2)) == [(1, b"q2")]


# ---- files come and go


def put_and_drop(harness: StoreHarness, first: int, number: int = 10) -> None:
    harness.pages.spill(1, 0, numbered(first, *(bytes(100) for _ in range(number))))
    harness.pages.drop(1, 0, first, number)


def test_a_file_goes_when_nothing_in_it_is_wanted(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "FILE_SIZE", 500)
    for first in (1, 11, 21):
        harness.pages.spill(1, 0, numbered(first, *(bytes(100) for _ in range(10))))
    assert len(files(harness)) == 3
    harness.pages.drop(1, 0, 1, 9)
    assert len(files(harness)) == 3
    harness.pages.drop(1, 0, 10, 1)
    assert len(files(harness)) == 2
    harness.pages.drop(1, 0, 1, 30)
    assert len(files(harness)) <= 1
    assert load(harness, 1, 100) == []


def test_files_that_were_emptied_while_they_were_written_go_too(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "FILE_SIZE", 500)
    for n in range(20):
        put_and_drop(harness, 10 * n + 1)
    assert len(files(harness)) <= 1
    assert len(harness.disk._handles) <= 2  # the segment's and one more


def test_a_queue_that_is_gone_takes_its_files_along(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "FILE_SIZE", 500)
    harness.pages.spill(1, 0, numbered(1, *(bytes(100) for _ in range(10))))
    harness.pages.spill(1, 5, [(1, transient(bytes(600), priority=5))])
    harness.pages.spill(2, 0, numbered(1, b"other"))
    harness.pages.forget(1)
    assert load(harness, 1, 100) == []
    assert len(files(harness)) == 1
    assert bodies(load(harness, 1, 9, queue=2)) == [(1, b"other")]


# ---- a disk that refuses


def refusing(kind: str) -> Callable[[str, str], OSError | None]:
    return lambda what, path: OSError(ENOSPC, "No space left") if what == kind and "spill" in path else None


@pytest.mark.parametrize("kind", ["create", "append"])
def test_what_the_disk_refuses_stays_in_memory_and_comes_back(harness: StoreHarness, kind: str) -> None:
    harness.pages.spill(1, 0, numbered(1, b"on disk"))
    harness.disk.fault = refusing(kind)
    harness.pages.spill(1, 0, numbered(2, b"refused", b"refused too"))
    harness.pages.spill(1, 0, numbered(4, b"later"))
    harness.disk.fault = lambda what, path: None
    harness.pages.spill(1, 0, numbered(5, b"when there is room"))
    assert [body for _, body in bodies(load(harness, 1, 100))] == [
        b"on disk",
        b"refused",
        b"refused too",
        b"later",
        b"when there is room",
    ]


def test_a_short_write_spoils_nothing(harness: StoreHarness) -> None:
    harness.pages.spill(1, 0, numbered(1, b"first" * 10))
    harness.disk.capacity = harness.disk.used + 20
    harness.pages.spill(1, 0, numbered(2, b"second" * 10))
    harness.disk.capacity = None
    harness.pages.spill(1, 0, numbered(3, b"third" * 10))
    assert bodies(load(harness, 1, 9)) == [(1, b"first" * 10), (2, b"second" * 10), (3, b"third" * 10)]


def test_files_that_the_disk_refused_go_as_well(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "FILE_SIZE", 500)
    harness.disk.fault = refusing("append")
    for n in range(20):
        put_and_drop(harness, 10 * n + 1)
    assert len(files(harness)) <= 1
    assert len(harness.disk._handles) <= 2


# ---- in the worker


def test_a_load_that_was_asked_for_before_the_write_finds_it(harness: StoreHarness) -> None:
    """Jobs run in order: the message is spilled from the moment on that it is put."""
    harness.jobs = []
    harness.pages.spill(1, 0, numbered(1, b"a", b"b"))
    loaded: list[list[Loaded]] = []
    harness.pages.load(1, 0, 1, 9, 100, loaded.append)
    assert loaded == []
    harness.work()
    assert [bodies(each) for each in loaded] == [[(1, b"a"), (2, b"b")]]


def test_a_file_is_not_removed_under_a_load(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "FILE_SIZE", 50)
    harness.jobs = []
    harness.pages.spill(1, 0, numbered(1, b"a" * 60))
    harness.pages.spill(1, 0, numbered(2, b"b"))
    loaded: list[list[Loaded]] = []
    harness.pages.load(1, 0, 1, 9, 1000, loaded.append)
    harness.pages.drop(1, 0, 1, 1)
    harness.work()
    assert [bodies(each) for each in loaded] == [[(1, b"a" * 60), (2, b"b")]]


@pytest.mark.parametrize("seed", range(10))
def test_any_order_of_puts_drops_and_loads(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(spill, "FILE_SIZE", 600)
    random = Random(seed)
    kept: dict[int, bytes] = {}
    tail = 1
    for n in range(200):
        action = random.choice(("put", "put", "drop", "load"))
        if action == "put":
            run = numbered(tail, *(b"%d" % n * random.randint(1, 30) for _ in range(random.randint(1, 5))))
            kept.update({sequence: message[0] for sequence, message in run})
            tail += len(run) + random.randint(0, 2)
            harness.pages.spill(1, 0, run)
        elif action == "drop":
            first, number = random.randint(1, tail), random.randint(1, 8)
            harness.pages.drop(1, 0, first, number)
            kept = {sequence: body for sequence, body in kept.items() if not first <= sequence < first + number}
        else:
            first, stop = random.randint(1, tail), tail + 1
            wanted = [(sequence, kept[sequence]) for sequence in sorted(kept) if first <= sequence]
            found = bodies(load(harness, first, stop, most=random.choice((50, 500, 1 << 20))))
            assert found == wanted[: len(found)]
            assert bool(found) == bool(wanted)

"""Stages and commits through crashes: of a batch all or nothing is there, and no repeat brings it twice.

On a disk in memory the power is cut after every operation, and anywhere in random operations. A real broker is killed
after staging, when a commit was just sent, and in the middle of moving.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from random import Random

import pika
import pyarrow as pa
import pytest

from leveret.broker.internal_queues import STAGE
from leveret.pipeline import inflow
from leveret.pipeline.commits import Committed
from tests.support.fault_shim import Shim
from tests.support.forked_broker import ForkedBroker
from tests.support.http_api import HttpApi, arrow_stream, vhost_path
from tests.support.sinks import Sink, drained
from tests.support.stored_harness import StoredHarness
from tests.support.virtual_disk import VirtualDisk

SEGMENT = 4 << 10


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that moving a few messages takes many steps. Brokers of their own process are not concerned."""
    monkeypatch.setattr(inflow, "RUN", 4)


def bodies(batch: int, partition: int, number: int = 7) -> list[bytes]:
    return [b"%d/%d/%d" % (batch, partition, each) for each in range(number)]


def harness_of(disk: VirtualDisk | None = None) -> StoredHarness:
    harness = StoredHarness(disk, segment_size=SEGMENT, queue_memory=4096)
    if "q" not in harness.vhost.queues:
        harness.vhost.declare_queue("q", durable=True)
        harness.vhost.declare_queue("odd", durable=True)
        harness.rest()
    return harness


def staged(sink: Sink, batch: int) -> list[str]:
    """Two partitions; the second one needs a look at each message, and goes to another queue."""
    return [
        sink.stage("T", batch, *bodies(batch, 0)),
        sink.stage("T", batch, *bodies(batch, 1), key="odd", priority=1),
    ]


def expected(batches: int) -> tuple[list[bytes], list[bytes]]:
    return (
        [body for batch in range(batches) for body in bodies(batch, 0)],
        [body for batch in range(batches) for body in bodies(batch, 1)],
    )


def found_in(harness: StoredHarness) -> tuple[list[bytes], list[bytes]]:
    return harness.waiting_on_disk("q"), harness.waiting_on_disk("odd")


# ---- a power cut after every operation of the disk


class Script:
    """Three batches, one of them repeated; after each step it is known what must be there after a crash."""

    def __init__(self) -> None:
        self.harness = harness_of()
        self.begin = len(self.harness.disk.operations)
        self.sink = Sink(self.harness)
        self.staged: list[tuple[int, int, list[str]]] = []  # since which operation a batch is whole
        self.answered: list[tuple[int, int]] = []  # since which operation a batch is committed
        for batch in range(3):
            self.play(batch)

    def play(self, batch: int) -> None:
        self.sink.stage("T", batch, b"of a task that failed")
        ids = staged(self.sink, batch)
        self.staged.append((self.now, batch, ids))
        assert self.sink.commit("T", batch, *ids).duplicate is False
        self.answered.append((self.now, batch))
        assert self.sink.commit("T", batch, *staged(self.sink, batch)).duplicate is True

    @property
    def now(self) -> int:
        return len(self.harness.disk.operations)

    def check(self, image: VirtualDisk, operation: int) -> int:
        """What the next run finds: the number of batches that are committed there."""
        harness = harness_of(image)
        sink = Sink(harness)
        last = sink.last()
        committed = 0 if last is None else last + 1
        assert found_in(harness) == expected(committed), "not what the commits say"
        assert committed >= sum(since <= operation for since, _ in self.answered), "a commit is lost"
        for since, batch, ids in self.staged:
            if since <= operation and batch == committed:
                assert sink.commit("T", batch, *ids) == Committed(False, 14, 0)
                committed += 1
        if committed:
            assert sink.commit("T", committed - 1) == Committed(True, 0, 0, before=14)
        again = harness.crashed(image=operation % 3).again()
        sink = Sink(again)
        assert found_in(again) == expected(committed), "another life changes it"
        assert not [name for name in again.vhost.internal.queues if name.startswith(STAGE)] or sink.ids()
        return committed


def test_a_power_cut_at_any_time_shows_all_of_a_batch_or_nothing() -> None:
    script = Script()
    state = VirtualDisk()
    seen = set()
    moving = 0
    for number, operation in enumerate(script.harness.disk.operations):
        if number >= script.begin:
            for name, image in state.images(Random(number), most=2):
                moving += is_moving(image.copy())
                try:
                    seen.add(script.check(image, number))
                except AssertionError as problem:
                    raise AssertionError(f"before operation {number} {operation[:2]}, {name}: {problem}") from problem
        state.redo(operation)
    assert seen == {0, 1, 2, 3}
    assert moving > 5, "no crash hit a move"


def is_moving(image: VirtualDisk) -> bool:
    """Whether a part of a batch is in its queue, before the next run continues it."""
    harness = harness_of(image)
    return any(harness.queue(name).ready % 7 for name in ("q", "odd"))


# ---- any order of events


class Story:
    """A driver that stages and commits batches, crashes at any time and restarts, and a broker that does the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.batch = 0
        self.new_life(harness_of())

    def new_life(self, harness: StoredHarness) -> None:
        self.harness = harness
        self.sink = Sink(harness)
        self.staged: list[str] = []
        self.outcomes: list[object] = []

    def step(self) -> None:
        action = self.random.choice([self.stage, self.stage, self.commit, self.work, self.forget, self.cut])
        action()
        if self.outcomes and isinstance(self.outcomes[0], Committed):
            self.batch += 1
            self.staged, self.outcomes = [], []

    def stage(self) -> None:
        if not self.staged and not self.outcomes:
            self.harness.is_slow = False
            self.staged = staged(self.sink, self.batch)

    def commit(self) -> None:
        if self.staged and not self.outcomes:
            self.harness.is_slow = self.random.random() < 0.7
            self.outcomes = self.sink.send("T", self.batch, *self.staged)

    def work(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            self.random.choice([self.harness.broker.tick, self.harness.write, self.harness.read])()
        self.harness.is_slow = self.random.random() < 0.5
        self.harness.rest()

    def forget(self) -> None:
        """The driver crashes: it does not know the outcome of its batch, and repeats it."""
        if self.outcomes == [] and self.staged and self.random.random() < 0.5:
            self.staged, self.outcomes = [], []

    def cut(self) -> None:
        self.new_life(self.harness.crashed(image=self.random.randrange(8)).again())

    def finish(self) -> None:
        self.harness.is_slow = False
        self.harness.rest()
        if self.outcomes:
            self.batch += 1
        self.new_life(self.harness.stopped().again())
        self.batch = max(self.batch, (self.sink.last() if self.sink.last() is not None else -1) + 1)  # type: ignore[operator]
        assert (drained(self.harness, "q"), drained(self.harness, "odd")) == expected(self.batch)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_each_batch_is_there_once(seed: int) -> None:
    story = Story(seed)
    for _ in range(60):
        story.step()
        last = story.sink.last()
        assert (last is None and story.batch == 0) or (last is not None and last in (story.batch - 1, story.batch))
    story.finish()


# ---- a real broker

STAGES, COMMITS = vhost_path("stages"), vhost_path("commits")
NUMBER = 20_000
GOES_ON = "commit resumed"


class Broker:
    """``leveret serve`` with HTTP, on the same data in each run."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.serving = ForkedBroker(folder, "--http-port", "0", environ=environ)
        self.api = HttpApi(self.serving.url("http"))

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.serving.__exit__(None, None, None)

    def declare(self) -> None:
        with pika.BlockingConnection(pika.URLParameters(self.serving.url())) as connection:
            connection.channel().queue_declare("q", durable=True)

    def stage(self, batch: int, user: str | None = None) -> str:
        """Messages that name their user are looked at one by one, so that moving them takes a while."""
        body = pa.array([b"%d %06d" % (batch, number) for number in range(NUMBER)], pa.binary())
        properties = pa.array([{"user_id": user}] * NUMBER, pa.struct([("user_id", pa.string())]))
        data = arrow_stream(pa.record_batch({"body": body, "properties": properties}))
        status, answer = self.api.post(STAGES, data, transaction="T", batch=batch, exchange="", routing_key="q")
        assert (status, answer["messages"]) == (200, NUMBER)
        return str(answer["stage"])

    def commit(self, batch: int, stage: str) -> bool:
        """Whether it was a duplicate."""
        status, answer = self.api.post(COMMITS, {"transaction": "T", "batch": batch, "stages": [stage]})
        assert status == 200, answer
        return bool(answer["duplicate"])

    def last(self) -> int | None:
        last: int | None = self.api.get(COMMITS, transaction="T")[1]["last_batch"]
        return last

    def kill(self) -> None:
        self.serving.process.kill()
        self.serving.exit_code()

    def kill_in_commit(self, batch: int, stage: str, is_time: Callable[[], bool]) -> None:
        """While the commit is on its way, as soon as it is time, or when it was answered."""
        answered = threading.Event()

        def commit() -> None:
            with suppress(OSError, HTTPException):
                self.commit(batch, stage)
            answered.set()

        sender = threading.Thread(target=commit)
        sender.start()
        while not is_time() and not answered.is_set():
            pass  # each question is a round trip to the broker
        self.kill()
        sender.join(20)

    def check(self, batches: int) -> None:
        """So many of them are in the queue."""
        with pika.BlockingConnection(pika.URLParameters(self.serving.url())) as connection:
            found = connection.channel().queue_declare("q", passive=True).method.message_count
        assert found == batches * NUMBER

    def drain(self, batches: int) -> None:
        """Each of them is in the queue, once and in order."""
        wanted = [b"%d %06d" % (batch, number) for batch in range(batches) for number in range(NUMBER)]
        found: list[bytes] = []
        with pika.BlockingConnection(pika.URLParameters(self.serving.url())) as connection:
            for _, _, body in connection.channel().consume("q", auto_ack=True, inactivity_timeout=60):
                found.append(body)
                if body is None or len(found) == len(wanted):
                    break
        assert found == wanted


def test_killed_after_staging_the_stage_waits_for_its_commit(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.declare()
        stage = broker.stage(0)
        broker.kill()
    with Broker(tmp_path) as broker:
        broker.check(0)
        assert broker.last() is None
        assert broker.commit(0, stage) is False
        broker.kill()
    for _ in range(2):
        with Broker(tmp_path) as broker:
            broker.check(1)
            assert broker.commit(0, stage) is True
            broker.check(1)
            broker.kill()
    with Broker(tmp_path) as broker:
        broker.drain(1)


def test_killed_when_the_commit_was_just_sent_all_or_nothing_is_there(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        broker.declare()
        stage = broker.stage(0)
        broker.kill_in_commit(0, stage, lambda: bool(broker.api.send("GET", "/")))
    for life in range(3):
        with Broker(tmp_path) as broker:
            last = broker.last()
            if last is None:
                broker.check(0)
            assert broker.commit(0, stage) is (last == 0)
            broker.check(1)
            if life:
                assert last == 0
            broker.kill()
    with Broker(tmp_path) as broker:
        broker.drain(1)


def test_a_move_that_a_kill_interrupts_is_finished_after_the_restart(tmp_path: Path, shim: Shim) -> None:
    """The journal gets no further than the first slices, as its sync takes forever; the others are still in memory."""
    with Broker(tmp_path, environ=shim.environ) as broker:
        broker.declare()
        stage = broker.stage(0, "guest")
        with pika.BlockingConnection(pika.URLParameters(broker.serving.url())) as watching:
            channel, before = watching.channel(), shim.written("journal")
            shim.slow("sync", 600, part="journal")

            def is_moved() -> bool:
                """All of it in memory, some of it on disk."""
                moved = channel.queue_declare("q", passive=True).method.message_count == NUMBER
                return bool(moved) and shim.written("journal") > before

            broker.kill_in_commit(0, stage, is_moved)
            with suppress(pika.exceptions.AMQPError):
                watching.process_data_events(5)  # it learns that the broker is gone
        assert shim.written("journal") - before < before / 2, "all of it has reached the disk"
    for life in range(3):
        with Broker(tmp_path) as broker:
            assert (GOES_ON in broker.serving.log()) is (life == 0), "finished not at all, or twice"
            assert broker.commit(0, stage) is True
            broker.check(1)
            broker.kill()
    with Broker(tmp_path) as broker:
        broker.drain(1)

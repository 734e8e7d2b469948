"""Source, shuffle, sink: what comes out is what went in, whatever is killed in between.

Three pipelines run side by side through the same faults: a partitioned stream and a classic queue, exactly once, and a
stream at least once. Each fault stands at a point that is hit for certain (tests/support/failpoints.py): the pipelines
stop there, and only then something is killed. Three lives of the driver and three of the broker:

    1  batch 0: a task fails although its rows have arrived; batch 1: driver killed in the middle of a fetch
    2  batch 1: driver killed when all of the stream is staged and nothing is committed, and when the broker has
       committed all of the classic queue and Spark does not know
    3  batch 1 is a repeat; batch 2: broker killed in the middle of a fetch; batch 3: broker killed between stages and
       commit; the driver outlives both, by asking again, and comes to the end

tests/spark_long kills the driver of both at every point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.failpoints import FAIL, WAIT, Failpoints
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_kills import SHUFFLED, Driver
from tests.support.spark_pipelines import Pipeline

pytestmark = pytest.mark.timeout(900)
ROWS, BATCHES = 600, 4
EXACT = ("stream", "classic")


class Proof:
    """The whole story; the tests look at what was seen on the way, and at what is there in the end."""

    def __init__(self, folder: Path, broker: RestartableBroker) -> None:
        self.folder = folder
        self.broker = broker
        self.failpoints = Failpoints(folder / "failpoints")
        self.pipelines = {
            "stream": Pipeline("stream", folder / "stream"),
            "classic": Pipeline("classic", folder / "classic", kind="classic"),
            "loose": Pipeline("loose", folder / "loose", guarantee="at-least-once"),
        }
        self.all = list(self.pipelines.values())
        self.exact = [self.pipelines[name] for name in EXACT]
        self.moments: dict[str, Moment] = {}
        self.lives = 0

    def run(self) -> None:
        for pipeline in self.all:
            pipeline.declare(self.broker)
            pipeline.publish(self.broker, ROWS * BATCHES)
        self.arm("written", 0, FAIL)
        self.kill_driver(self.all, self.arm("fetch", 1), self.failpoints.arm("loose.written", 1))
        self.kill_driver(self.exact, [self.failpoints.arm(name, 1) for name in ("stream.staged", "classic.committed")])
        fetch, staged = self.arm("fetch", 2), self.arm("staged", 3)
        with self.driver(self.all) as driver:
            self.kill_broker(driver, fetch)
            self.kill_broker(driver, staged)
            driver.await_end()

    def arm(self, point: str, batch: int, deed: str = WAIT) -> list[str]:
        return [self.failpoints.arm(f"{name}.{point}", batch, deed) for name in EXACT]

    def driver(self, pipelines: list[Pipeline]) -> Driver:
        self.lives += 1
        return Driver(self.folder / f"life-{self.lives}", self.broker, pipelines, self.failpoints)

    def kill_driver(self, pipelines: list[Pipeline], names: list[str], *others: str) -> None:
        with self.driver(pipelines) as driver:
            driver.await_traps(*names, *others)
            driver.kill()
        self.look("driver", names)

    def kill_broker(self, driver: Driver, names: list[str]) -> None:
        driver.await_traps(*names)
        self.look("broker", names)
        self.broker.kill()
        self.failpoints.release(*names)
        self.broker.start()

    def notes(self, name: str, kind: str, batch: int) -> list[dict[str, Any]]:
        return [note for note in self.failpoints.notes(f"{name}.{kind}") if note["batch"] == batch]

    def look(self, killed: str, names: list[str]) -> None:
        """What the trap, the checkpoint and the broker know of each pipeline at this moment."""
        for pipeline, name in zip(self.exact, names, strict=True):
            self.moments[f"{killed} killed at {name}"] = Moment(
                self.failpoints.seen(name),
                pipeline.last_planned(),
                pipeline.last_finished(),
                pipeline.last_committed(self.broker),
                pipeline.staged(self.broker),
                pipeline.waiting(self.broker),
                pipeline.leased(self.broker),
            )


class Moment(NamedTuple):
    seen: dict[str, Any]  # by the process that stands in the trap
    planned: int  # the last batch in Spark's log of offsets
    finished: int  # the last batch in Spark's log of commits
    committed: int  # the last batch that the broker has committed
    staged: Counter[int]  # messages by batch
    out: int  # messages behind the exchange
    leased: int  # messages of a classic queue that are set aside


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proof]:
    folder = tmp_path_factory.mktemp("exactly-once")
    with RestartableBroker(folder) as broker:
        proof = Proof(folder, broker)
        proof.run()
        yield proof


each_source = pytest.mark.parametrize("name", EXACT)


@each_source
def test_a_task_that_fails_after_its_rows_arrived_is_repeated_and_counts_once(proof: Proof, name: str) -> None:
    failed = proof.failpoints.seen(f"{name}.written")
    assert (failed["batch"], failed["attempt"], len(failed["stages"])) == (0, 0, 1)
    attempts = {
        write["attempt"]: write["stages"]
        for write in proof.notes(name, "writes", 0)
        if write["partition"] == failed["partition"]
    }
    assert attempts.keys() == {0, 1}
    [commit] = proof.notes(name, "commits", 0)
    assert set(attempts[1]) < set(commit["stages"])
    assert not set(attempts[0]) & set(commit["stages"])


@each_source
def test_the_driver_was_killed_in_the_middle_of_a_fetch(proof: Proof, name: str) -> None:
    moment = proof.moments[f"driver killed at {name}.fetch"]
    assert moment.seen["batch"] == 1
    assert moment.seen["bytes"] > 0
    assert (moment.planned, moment.finished, moment.committed) == (1, 0, 0)
    assert (moment.staged, moment.out) == (Counter(), ROWS)
    assert moment.leased == (ROWS if name == "classic" else 0)


def test_the_driver_was_killed_between_stages_and_commit(proof: Proof) -> None:
    moment = proof.moments["driver killed at stream.staged"]
    assert (moment.planned, moment.finished, moment.committed) == (1, 0, 0)
    assert (moment.staged, moment.out) == (Counter({1: ROWS}), ROWS)
    first, again = proof.notes("stream", "commits", 1)
    assert not set(first["stages"]) & set(again["stages"])


def test_the_driver_was_killed_when_the_broker_had_committed_and_spark_had_not(proof: Proof) -> None:
    moment = proof.moments["driver killed at classic.committed"]
    assert (moment.planned, moment.finished, moment.committed) == (1, 0, 1)
    assert (moment.staged, moment.out) == (Counter(), 2 * ROWS)
    first, again = proof.notes("classic", "commits", 1)
    assert not set(first["stages"]) & set(again["stages"])


@each_source
def test_the_broker_was_killed_in_the_middle_of_a_fetch_which_went_on(proof: Proof, name: str) -> None:
    moment = proof.moments[f"broker killed at {name}.fetch"]
    assert (moment.planned, moment.finished, moment.committed) == (2, 1, 1)
    assert (moment.staged, moment.out) == (Counter(), 2 * ROWS)
    fetches = proof.notes(name, "fetches", 2)
    assert sum(fetch["rows"] for fetch in fetches) == ROWS
    assert max(fetch["connections"] for fetch in fetches) >= 2


@each_source
def test_the_broker_was_killed_between_stages_and_commit_which_went_on(proof: Proof, name: str) -> None:
    moment = proof.moments[f"broker killed at {name}.staged"]
    assert (moment.planned, moment.finished, moment.committed) == (3, 2, 2)
    assert (moment.staged, moment.out) == (Counter({3: ROWS}), 3 * ROWS)
    assert len(proof.notes(name, "commits", 3)) == 1
    assert len(proof.notes(name, "writes", 3)) == SHUFFLED


@each_source
def test_everything_came_out_once_and_nothing_is_left_over(proof: Proof, name: str) -> None:
    pipeline = proof.pipelines[name]
    assert pipeline.last_finished() == pipeline.last_committed(proof.broker) == BATCHES - 1
    pipeline.assert_once(pipeline.received(proof.broker))
    pipeline.assert_nothing_left_over(proof.broker)


def test_at_least_once_loses_nothing(proof: Proof) -> None:
    wanted, found = proof.pipelines["loose"].sent, proof.pipelines["loose"].received(proof.broker)
    assert {message[:2] for message in found} == set(wanted)
    assert len(found) > len(wanted), "the kill hit no published task, so nothing was shown"

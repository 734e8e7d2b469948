"""Kills at any moment: the driver or the broker, ten times, while a stream and a classic queue are carried over.

Each kill hits both pipelines. New messages arrive between the kills, so that there is always something under way; at
the end a last driver runs until nothing is left, and everything must have come out once.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_broker import eventually
from tests.support.spark_kills import Driver
from tests.support.spark_pipelines import Pipeline

KILLS = int(os.environ.get("LEVERET_SPARK_KILLS", "10"))
ROWS, BATCHES_PER_KILL = 400, 12
LONGEST_LIFE = 8.0  # seconds between the beginning of the queries, or the last kill, and the next one


class CrashCycles:
    def __init__(self, folder: Path, broker: RestartableBroker, seed: int) -> None:
        self.folder = folder
        self.broker = broker
        self.random = Random(seed)
        self.pipelines = [
            Pipeline("stream", folder / "stream", rows_in_batch=ROWS, body_bytes=200),
            Pipeline("classic", folder / "classic", kind="classic", rows_in_batch=ROWS, body_bytes=200),
        ]
        self.drivers: list[Driver] = []
        self.killed: list[str] = []
        self.busy = 0

    def start_driver(self, *, endless: bool) -> Driver:
        driver = Driver(self.folder / f"life-{len(self.drivers)}", self.broker, self.pipelines, endless=endless)
        self.drivers.append(driver)
        return driver

    def kill_one(self, driver: Driver) -> Driver:
        """At a random moment of its work; gives back the driver that works on."""
        for pipeline in self.pipelines:
            pipeline.publish(self.broker, ROWS * BATCHES_PER_KILL)
        eventually(lambda: driver.has_begun() or not driver.is_alive(), 300)
        time.sleep(self.random.uniform(0, LONGEST_LIFE))
        assert driver.is_alive(), f"the driver ended by itself: {driver.log()}"
        self.killed.append(self.random.choice(("driver", "broker")))
        self.busy += any(pipeline.last_planned() > pipeline.last_finished() for pipeline in self.pipelines)
        if self.killed[-1] == "broker":
            self.broker.kill()
            self.broker.start()
            return driver
        driver.kill()
        return self.start_driver(endless=True)

    def run(self) -> None:
        driver = self.start_driver(endless=True)
        for _ in range(KILLS):
            driver = self.kill_one(driver)
        driver.kill()
        for pipeline in self.pipelines:
            pipeline.rows_in_batch = 20_000
        self.start_driver(endless=False).await_end(600)


@pytest.mark.timeout(3600)
def test_everything_comes_out_once_after_random_kills(tmp_path: Path, seed: int) -> None:
    with RestartableBroker(tmp_path) as broker:
        for pipeline in (lives := CrashCycles(tmp_path, broker, seed)).pipelines:
            pipeline.declare(broker)
        try:
            lives.run()
            for pipeline in lives.pipelines:
                pipeline.assert_once(pipeline.received(broker))
                pipeline.assert_nothing_left_over(broker)
        except BaseException as problem:
            problem.add_note(f"LEVERET_SPARK_SEED={seed}, killed so far: {lives.killed}")
            raise
        finally:
            for driver in lives.drivers:
                driver.kill()
    drivers, brokers = lives.killed.count("driver"), lives.killed.count("broker")
    print(
        f"\n{drivers} drivers and {brokers} brokers killed, {lives.busy} of them in the middle of a batch; seed {seed}"
    )
    print(*(f"{pipeline.name}: {len(pipeline.sent)} messages, each once" for pipeline in lives.pipelines), sep="\n")
    assert lives.busy >= KILLS // 2, "the kills came too late: nothing was under way"

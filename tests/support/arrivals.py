"""Messages of several partitions and priorities, in any order, as dedup and traffic read them; without a broker."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from leveret.spark.jobs import dedup, traffic
from leveret.spark.jobs.accounting import Counts, counted
from leveret.spark.jobs.checkpoint import LastBatch, last_batch
from leveret.spark.jobs.messages import started, started_batches
from leveret.spark.jobs.running_job import Queries, Report, Running
from leveret.spark.jobs.traffic_batches import OPEN, TrafficBatches
from leveret.spark.schema import SCHEMA
from tests.support.message_frames import frame, message

SEED = "LEVERET_SPARK_SEED"  # in the environment: repeats an order of arrival
LATENESS = timedelta(seconds=1)
PATIENCE = 120.0  # seconds for one run of a job
MESSAGES, IDS, MINUTES = 60, 25, 6
AHEAD = (None, 90, 7_200)  # minutes and hours by which the clock of the first machine is ahead


def ended(running: Running) -> Report:
    assert running.wait(PATIENCE), "the job is still running"
    return running.report()


SHOWN = ("minute(window_start)", "queue", "messages", "bytes")


class Arrivals:
    """Messages of several partitions in the order of their priorities, cut into batches at random: one file each.

    ``is_short``: three or four batches in two to four runs; otherwise up to twenty.
    """

    def __init__(self, seed: int, folder: Path, *, is_short: bool) -> None:
        self.folder = folder
        self._random = random.Random(seed)
        self._sizes, self._batches = ((15, 20, 25), (1, 2)) if is_short else ((3, 15, 30), (1, 2, 3))
        self._newest: datetime | None = None
        self.late = 0  # messages for windows that traffic has closed in a batch before
        rows = random.Random(7)  # the same messages for each seed, in another order
        self.sent: list[dict[str, Any]] = [
            message(
                b"x" * (1 + number % 9),
                after=60 * rows.random() * MINUTES,
                queue=f"q{number % 3}",
                offset=number,
                properties={"message_id": str(rows.randrange(IDS)) if number % 10 else None, "priority": number % 4},
            )
            for number in range(MESSAGES)
        ]

    def windows(self) -> Counter[Any]:
        """A thousand for each message, and one for each byte, by minute and queue."""
        found: Counter[Any] = Counter()
        for row in self.sent:
            found[row["timestamp"].minute, row["queue"]] += 1_000 + len(row["body"])
        return found

    def ids(self) -> list[str]:
        """Of messages without an id, each; of others, each id once."""
        found = [row["properties"]["message_id"] for row in self.sent]
        return sorted([*{*found} - {None}, *["none"] * found.count(None)])

    def in_order(self) -> list[dict[str, Any]]:
        """In a queue, by priority and time, or by time; queues are interleaved at random."""
        by_priority = self._random.random() < 0.5

        def place(row: dict[str, Any]) -> tuple[int, datetime]:
            return (-row["properties"]["priority"] if by_priority else 0, row["timestamp"])

        queues = [sorted((row for row in self.sent if row["queue"] == f"q{at}"), key=place) for at in range(3)]
        weights = [self._random.choice([1, 5, 50]) for _ in queues]
        found = []
        while any(queues):
            [queue] = self._random.choices(
                queues, [weight * bool(left) for weight, left in zip(weights, queues, strict=True)]
            )
            found.append(queue.pop(0))
        return found

    def written(self, spark: SparkSession) -> Iterator[int]:
        """Writes the batches, some at a time, each as a file; yields where the job runs, and is restarted."""
        rows, number = self.in_order(), 0
        while rows:
            for _ in range(self._random.choice(self._batches)):
                size = self._random.choice(self._sizes)
                part, rows = rows[:size], rows[size:]
                if part:
                    self._count_late(part)
                    frame(spark, *part).coalesce(1).write.parquet(f"{self.folder}/{number:03}")
                    number += 1
            yield number

    def _count_late(self, batch: list[dict[str, Any]]) -> None:
        """A window is closed once a message has arrived LATENESS after its end."""
        times = [row["timestamp"] for row in batch]
        if self._newest is not None:
            closed = self._newest - LATENESS
            self.late += sum(at.replace(second=0, microsecond=0) + timedelta(minutes=1) <= closed for at in times)
        self._newest = max(times if self._newest is None else [*times, self._newest])

    def first_clock(self) -> LastBatch | None:
        """The clock of the machine of the first run, as if a run before had set it."""
        ahead = self._random.choice(AHEAD)
        if ahead is None:
            return None
        moment = datetime.now(UTC) + timedelta(seconds=ahead)
        return LastBatch(moment, moment)

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{self.folder}/*")


def deduplicated(spark: SparkSession, arrivals: Arrivals, folder: Path) -> tuple[list[str], Counts]:
    options = dedup.DedupOptions(queue="q", exchange="e", checkpoint=str(folder / "dedup"), within="1 hour")
    total = Counts()
    before = arrivals.first_clock()
    for _ in arrivals.written(spark):
        rows = counted(dedup.once_each(arrivals.read(spark), options, before))
        query = started(rows, options, "dedup", "parquet", {"path": str(folder / "once")})
        total += ended(Queries(query)).accounts[0].counts
        before = last_batch(spark, str(options.checkpoint))
    found = spark.read.parquet(str(folder / "once")).selectExpr("coalesce(properties.message_id, 'none')").collect()
    return sorted(row[0] for row in found), total


def windows(spark: SparkSession, arrivals: Arrivals, folder: Path) -> tuple[Counter[Any], Counts]:
    """The messages and bytes of each window and queue, closed or open."""
    options = traffic.TrafficOptions(
        queue="q",
        path=str(folder / "traffic"),
        checkpoint=str(folder / "checkpoint"),
        by="queue",
        lateness=f"{LATENESS.seconds} seconds",
    )
    counts: dict[int, Counts] = {}
    total = Counts()
    for _ in arrivals.written(spark):
        batches = TrafficBatches(options, options.groups(), counts)
        query = started_batches(traffic.measured(arrivals.read(spark), options), options, "traffic", batches.write)
        total += ended(Queries(query, recorded={"traffic": counts})).accounts[0].counts
    last = max(int(path.name) for path in (folder / "checkpoint" / OPEN).iterdir())
    still_open = spark.read.parquet(str(folder / "checkpoint" / OPEN / str(last)))
    parts = (traffic.read_traffic(spark, options.path), still_open)
    rows = [row for part in parts for row in part.selectExpr(*SHOWN).collect()]
    return Counter({tuple(row[:2]): 1_000 * row[2] + row[3] for row in rows}), total


def assert_same_results(spark: SparkSession, seed: int, folder: Path, *, is_short: bool = False) -> None:
    """Whatever the order, dedup passes each id once, traffic counts each message, and all rows add up."""
    print(f"order of arrival: {SEED}={seed}")  # pytest shows it if the test fails
    arrivals = Arrivals(seed, folder / "in", is_short=is_short)
    found, counts = deduplicated(spark, arrivals, folder)
    assert found == arrivals.ids()
    assert counts == Counts(read=MESSAGES, out=len(found), duplicates=MESSAGES - len(found))
    arrivals = Arrivals(seed, folder / "again", is_short=is_short)
    counted_, counts = windows(spark, arrivals, folder)
    assert counted_ == arrivals.windows()
    assert counts == Counts(read=MESSAGES, out=MESSAGES - arrivals.late, late=arrivals.late)

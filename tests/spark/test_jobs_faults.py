"""Every ready pipeline, while the driver and then the broker are killed -9: nothing is lost, and the rows add up.

All pipelines run side by side in one driver, on the same super stream. The first driver is killed when each of them has
finished a batch. More messages arrive. The broker is killed when each pipeline has finished another batch under the
second driver, and comes back; that driver comes to the end. tests/spark_long kills them at more points.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika
import pyarrow.dataset
import pyarrow.parquet
import pytest
from deltalake import DeltaTable

from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.traffic_batches import OPEN
from tests.support.job_driver import JobDriver
from tests.support.postgres_server import PASSWORD, PostgresServer
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_broker import SparkBroker, eventually

pytestmark = pytest.mark.timeout(600)
ROWS, BATCH = 24, 12  # messages before and after the first kill, and messages in a batch
IDS = 32
WORK = ("work-0", "work-1")  # the queues whose messages were rejected
REFUSING = ("schema-check", "mask", "sessions", "join", "lake", "to-jdbc")
OUTPUTS = ("dedup", "route", "traffic", "replay", *REFUSING, *(f"{name}-bad" for name in REFUSING))
FIELDS = "n INT NOT NULL, who STRING"
GOOD = [number for number in range(2 * ROWS) if number % 4]
BAD = Counter(f"bad {number}" for number in range(0, 2 * ROWS, 4))


def body_of(number: int, who: str | None = None) -> str:
    return json.dumps({"n": number, "who": who or f"w{number % 3}"}) if number % 4 else f"bad {number}"


class Faults:
    def __init__(self, folder: Path, broker: RestartableBroker, server: PostgresServer) -> None:
        self.folder, self.broker, self.server = folder, broker, server
        self.jobs = self._jobs()
        self.outputs: dict[str, list[str]] = {}
        self.told: dict[str, dict[str, Any]] = {}

    def _jobs(self) -> dict[str, dict[str, Any]]:
        source = {"endpoint": self.broker.endpoint, "super_stream": "in", "max_per_batch": BATCH}
        path = {name: str(self.folder / name) for name in ("archive", "traffic", "table")}
        (self.folder / "password").write_text(PASSWORD)
        database = {"database": self.server.conninfo, "database_credentials_file": str(self.folder / "password")}
        both = {"left_super_stream": "in", "right_super_stream": "in", "left_schema": FIELDS, "right_schema": FIELDS}

        def kept(name: str, **more: Any) -> dict[str, Any]:
            bad = {"dead_letter_exchange": f"{name}-bad"} if name in REFUSING else {}
            return source | {"checkpoint": str(self.folder / name)} | bad | more

        def passing(name: str, **more: Any) -> dict[str, Any]:
            return kept(name, exchange=name) | more

        return {
            "archive": source | {"path": path["archive"]},
            "dedup": passing("dedup", within="1 hour"),
            "route": passing("route", rule=["offset % 3 = 0 => third"], drop=True),
            "schema-check": passing("schema-check", schema=FIELDS),
            "mask": passing("mask", redact=["who"]),
            "sessions": passing("sessions", by="who", schema=FIELDS, gap="1 hour", close_open=True),
            "join": passing("join", super_stream=None, on="n", within="1 hour", close_open=True, **both),
            "lake": kept("lake", table=path["table"], schema=FIELDS),
            "to-jdbc": kept("to-jdbc", table="kept", key="n", schema=FIELDS, **database),
            "traffic": passing("traffic", path=path["traffic"], by="queue", window="1 second", lateness="0 seconds"),
            "dead-letters": kept("work", super_stream=None, queue="dead", redrive="true"),
            # The last one to start: most of its slices are left when each pipeline has finished a batch.
            "replay": passing("replay", slice=4, where="offset % 2 = 0"),
        }

    def declare(self, known: SparkBroker) -> None:
        channel = known.channel
        channel.exchange_declare("in", "direct", durable=True, arguments={"x-super-stream": True})
        for shard in ("0", "1"):
            channel.queue_declare(f"in-{shard}", durable=True, arguments={"x-queue-type": "stream"})
            channel.queue_bind(f"in-{shard}", "in", shard)
        for name in OUTPUTS:
            channel.exchange_declare(name, "fanout", durable=True)
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, name)
        channel.queue_declare("dead", durable=True)
        for work in WORK:
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            channel.queue_declare(work, durable=True, arguments=arguments)

    def publish(self, known: SparkBroker, first: int, work: str) -> None:
        """A third of the ids comes twice, a quarter of the bodies is bad, and all of the work is rejected."""
        for number in range(first, first + ROWS):
            properties = pika.BasicProperties(delivery_mode=2, message_id=str(number % IDS))
            known.channel.basic_publish("in", str(number % 2), body_of(number).encode(), properties)
            known.channel.basic_publish("", work, body_of(number).encode(), properties)
        for _ in range(ROWS):
            frame, _, _ = known.channel.basic_get(work)
            assert frame is not None
            known.channel.basic_reject(frame.delivery_tag, requeue=False)

    def run(self) -> dict[str, dict[str, int]]:
        with self.broker.connect() as known:
            self.declare(known)
            self.publish(known, 0, WORK[0])
        with JobDriver(self.folder / "life-1", self.jobs) as driver:
            self.await_batches(driver, [0] * len(self.jobs))
            driver.kill()
        before = [*self.batches()]
        with self.broker.connect() as known:
            self.publish(known, ROWS, WORK[1])
        with JobDriver(self.folder / "life-2", self.jobs) as driver:
            self.await_batches(driver, before)
            self.broker.kill()
            self.broker.start()
            reports = driver.reports(300)
            self.told = driver.told()
        with self.broker.connect() as known:
            self.outputs = {name: [body.decode() for body in known.bodies(name)] for name in (*OUTPUTS, *WORK, "dead")}
        return reports

    def await_batches(self, driver: JobDriver, before: list[int]) -> None:
        def are_there() -> bool:
            driver.assert_alive()
            return all(now > then for now, then in zip(self.batches(), before, strict=True))

        eventually(are_there, 240)

    def batches(self) -> Iterator[int]:
        """Finished batches of each pipeline."""
        for name, options in self.jobs.items():
            folder = Path(options.get("checkpoint") or Path(options["path"]) / "_checkpoint")
            plan = folder / "replay.json"
            if name == "replay":
                yield json.loads(plan.read_text())["done"] if plan.exists() else 0
            else:
                yield sum(path.name.isdecimal() for path in (folder / "commits").glob("*"))

    def archived(self) -> Counter[str]:
        """The bodies in the files that Spark has committed."""
        logs = [
            log.read_text() for log in (self.folder / "archive" / "_spark_metadata").iterdir() if log.suffix != ".crc"
        ]
        files = {json.loads(line)["path"].removeprefix("file://") for log in logs for line in log.splitlines()[1:]}
        bodies = pyarrow.dataset.dataset(sorted(files)).to_table(["body"])["body"].to_pylist()
        return Counter(body.decode() for body in bodies)

    def windows(self) -> Windows:
        """Messages by window, queue and revision, as traffic has written them."""
        return windows_in(self.folder.glob("traffic/revision=*/*.parquet"))

    def open_messages(self) -> int:
        """Messages in the windows that traffic has not closed: it keeps those of the last two batches."""
        last = max((self.folder / "traffic" / OPEN).iterdir(), key=lambda path: int(path.name))
        return sum(windows_in(last.glob("*.parquet")).values())


Windows = dict[tuple[datetime, str, int], int]


def windows_in(files: Iterable[Path]) -> Windows:
    columns = ["window_start", "queue", "messages"]
    found: Windows = {}
    for file in files:
        revision = int(file.parent.name.removeprefix("revision="))  # of open windows, the number of their batch
        rows = pyarrow.parquet.read_table(file, columns=columns, partitioning=None).to_pylist()
        found |= {(row["window_start"].replace(tzinfo=UTC), row["queue"], revision): row["messages"] for row in rows}
    return found


Proof = tuple[Faults, dict[str, dict[str, int]]]


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proof]:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "broker").mkdir()
    with RestartableBroker(folder / "broker") as broker, PostgresServer() as server:
        found = Faults(folder, broker, server)
        yield found, found.run()


def test_rows_of_every_pipeline_add_up(faults: Proof) -> None:
    story, reports = faults
    assert reports.keys() == story.jobs.keys()
    for name, terms in reports.items():
        counts = Counts(**terms)
        assert counts.adds_up, f"{name}: {counts}"
        most = 2 * ROWS * (2 if name == "join" else 1)
        assert 0 < counts.read < most, f"{name}: {counts}"


def test_the_listener_reports_what_became_of_the_rows(faults: Proof) -> None:
    """Those of the last run of each query: sessions and join run once more to close what is open."""
    story, reports = faults
    assert {"dedup", "lake", "to-jdbc", "traffic"} <= story.told.keys()
    for name, report in story.told.items():
        counts = Counts(**report["counts"])
        assert counts.adds_up, f"{name}: {counts}"
        if name not in ("sessions", "join"):
            assert counts == Counts(**reports[name]), name
    assert story.told["lake"]["described"]["sink"] == f"table {story.folder / 'table'}"
    assert story.told["to-jdbc"]["described"]["sink"] == "table kept"


def test_the_windows_of_traffic_have_every_message_once(faults: Proof) -> None:
    story, _ = faults
    written = story.windows()
    highest = {place[:2]: messages for place, messages in sorted(written.items())}
    assert sum(highest.values()) + story.open_messages() == 2 * ROWS
    told = [json.loads(body) for body in story.outputs["traffic"]]
    published = [
        (datetime.fromisoformat(one["window_start"]), one["queue"], one["revision"], one["messages"]) for one in told
    ]
    assert sorted(published) == sorted((*place, messages) for place, messages in written.items())


def numbers(bodies: Iterable[str], field: str) -> Counter[int]:
    return Counter(int(json.loads(body)[field]) for body in bodies)


def test_nothing_is_lost_and_nothing_comes_twice(faults: Proof) -> None:
    story, _ = faults
    out = {name: Counter(found) for name, found in story.outputs.items()}
    everything = Counter(map(body_of, range(2 * ROWS)))
    assert story.archived() == everything
    assert len(out["dedup"]) == out["dedup"].total() == IDS
    assert out["route"].total() == len(out["route"]) == 2 * len(range(0, ROWS, 3))
    assert out["replay"].total() == len(out["replay"]) == ROWS // 2  # of what was there at its start
    assert out[WORK[0]] + out[WORK[1]] == everything
    assert not out["dead"]
    assert out["schema-check"] == Counter(map(body_of, GOOD))
    assert out["mask"] == Counter(body_of(number, "***") for number in GOOD)
    sessions = [json.loads(body) for body in story.outputs["sessions"]]
    by_key = {who: sum(one["messages"] for one in sessions if one["key"] == who) for who in ("w0", "w1", "w2")}
    assert by_key == Counter(f"w{number % 3}" for number in GOOD)
    assert numbers(story.outputs["join"], "key") == Counter(GOOD)
    rows = DeltaTable(story.jobs["lake"]["table"]).to_pyarrow_table()
    assert sorted(rows["n"].to_pylist()) == GOOD
    assert story.server.rows("SELECT n FROM kept ORDER BY n") == [(number,) for number in GOOD]
    for name in REFUSING:
        assert out[f"{name}-bad"] == (BAD + BAD if name == "join" else BAD), name

"""Many lives of a broker and of Spark drivers, ended by force, and what must be there in the end.

The broker keeps its ports and its data directory. A driver has a process of its own, in a session of its own: killing
it ends its JVM and all of its workers in the same moment, as when a machine goes away.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import pika

from tests.support.programs import require_java
from tests.support.serving import SRC, Serving
from tests.support.spark_broker import SparkBroker
from tests.support.traps import FOLDER, Traps

REPOSITORY = SRC.parent
LOCAL = "local[4,4]"  # room for tasks that stand in a trap; four attempts for each task
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    # A short life: quick to start rather than quick in the end.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SHUFFLED = 2  # tasks behind the shuffle
Message = tuple[str, bytes]  # its id and its body


# ---- the broker


class LastingBroker:
    """A broker that comes back on the same ports with the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._serving = Serving(folder, "--http-port", "0")
        self.amqp, self.endpoint = self._serving.url("amqp"), self._serving.url("http").rstrip("/")
        self.kills = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.__exit__(kind, error, trace)

    def kill(self) -> None:
        log = self._serving.log()
        assert "Traceback" not in log, log
        self._serving.process.kill()
        self._serving.__exit__(None, None, None)
        self.kills += 1

    def start(self) -> None:
        port, http_port = (str(urlsplit(url).port) for url in (self.amqp, self.endpoint))
        self._serving = Serving(self._folder, "--http-port", http_port, port=port)
        self._serving.banner(30)

    def connect(self) -> SparkBroker:
        """For a while: a connection does not outlive its broker."""
        return SparkBroker(self.amqp, self.endpoint)

    def ask(self, path: str, **query: object) -> dict[str, Any]:
        return self.connect().ask("GET", f"%2F/{path}", **query)


class Received(NamedTuple):
    id: str
    body: bytes
    headers: dict[str, str]


# ---- pipelines


@dataclass
class Pipeline:
    """From a source to an exchange of its name, with a queue behind it; ``sent`` is all that was published so far."""

    name: str
    checkpoint: Path
    kind: str = "stream"
    guarantee: str = "exactly-once"
    rows_in_batch: int = 600
    body_bytes: int = 1500
    sent: list[Message] = field(default_factory=list)

    @property
    def input(self) -> str:
        return f"{self.name}-in"

    @property
    def output(self) -> str:
        return f"{self.name}-out"

    def declare(self, broker: LastingBroker) -> None:
        with broker.connect() as known:
            channel = known.channel
            channel.exchange_declare(self.name, "fanout", durable=True)
            channel.queue_declare(self.output, durable=True)
            channel.queue_bind(self.output, self.name)
            if self.kind == "classic":
                channel.queue_declare(self.input, durable=True)
                return
            channel.exchange_declare(self.input, "direct", durable=True, arguments={"x-super-stream": True})
            for shard in ("0", "1"):
                queue = f"{self.input}-{shard}"
                channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream"})
                channel.queue_bind(queue, self.input, shard)

    def publish(self, broker: LastingBroker, number: int) -> None:
        """Persistent, in one transaction: all of it is there when this returns."""
        new = [self._message(len(self.sent) + n) for n in range(number)]
        with broker.connect() as known:
            channel = pika.BlockingConnection(pika.URLParameters(f"{known.amqp}?heartbeat=0")).channel()
            channel.tx_select()
            for n, (id_, body) in enumerate(new):
                exchange, key = ("", self.input) if self.kind == "classic" else (self.input, str(n % 2))
                channel.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=2, message_id=id_))
            channel.tx_commit()
            channel.connection.close()
        self.sent += new

    def _message(self, number: int) -> Message:
        return f"{self.name}-{number}", b"%s %d " % (self.name.encode(), number) + b"." * self.body_bytes

    def plan(self) -> dict[str, Any]:
        source = {"consumerName": self.name, "maxOffsetsPerTrigger": str(self.rows_in_batch)}
        if self.kind == "classic":
            source |= {"queue": self.input}
        else:
            source |= {"superStream": self.input, "startingOffsets": "earliest"}
        sink = {"exchange": self.name, "guarantee": self.guarantee}
        return {"name": self.name, "source": source, "sink": sink, "checkpoint": str(self.checkpoint)}

    # ---- what is known of it

    def transaction(self) -> str:
        id_: str = json.loads((self.checkpoint / "metadata").read_text())["id"]
        return id_

    def last_planned(self) -> int:
        return self._last("offsets")

    def last_finished(self) -> int:
        return self._last("commits")

    def _last(self, folder: str) -> int:
        names = [path.name for path in (self.checkpoint / folder).glob("*")]
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def last_committed(self, broker: LastingBroker) -> int:
        last = broker.ask("commits", transaction=self.transaction())["last_batch"]
        return -1 if last is None else last

    def staged(self, broker: LastingBroker) -> Counter[int]:
        """Messages by batch."""
        found: Counter[int] = Counter()
        for stage in broker.ask("stages")["stages"]:
            if stage["transaction"] == self.transaction():
                found[stage["batch"]] += stage["messages"]
        return found

    def leased(self, broker: LastingBroker) -> int:
        return sum(lease["messages"] for lease in broker.ask("leases")["leases"] if lease["queue"] == self.input)

    def waiting(self, broker: LastingBroker) -> int:
        with broker.connect() as known:
            number: int = known.channel.queue_declare(self.output, passive=True).method.message_count
        return number

    def received(self, broker: LastingBroker) -> list[Received]:
        """All that is in the queue behind the exchange, taken from it over AMQP."""
        found: list[Received] = []
        number = self.waiting(broker)
        with broker.connect() as known:
            known.channel.basic_qos(prefetch_count=1000)
            if number:
                for _, properties, body in known.channel.consume(self.output, auto_ack=True, inactivity_timeout=10):
                    assert body is not None, f"{number} messages were promised, {len(found)} came"
                    found.append(Received(properties.message_id, body, properties.headers or {}))
                    if len(found) == number:
                        break
                known.channel.cancel()
        assert self.waiting(broker) == 0
        return found

    def assert_once(self, received: Sequence[Received]) -> None:
        wanted, found = Counter(self.sent), Counter(message[:2] for message in received)
        lost, surplus = wanted - found, found - wanted
        assert not lost, f"{self.name}: {lost.total()} of {len(self.sent)} messages are lost, {_few(lost)}"
        assert not surplus, f"{self.name}: {surplus.total()} messages came twice or from nowhere, {_few(surplus)}"

    def assert_nothing_left_over(self, broker: LastingBroker) -> None:
        assert not self.staged(broker)
        if self.kind == "classic":
            assert self.leased(broker) == 0
            assert broker.ask("sources", queue=self.input)["sources"][0]["messages"] == 0


def _few(messages: Counter[Message]) -> str:
    return f"the first are {sorted(id_ for id_, _ in messages)[:5]}"


# ---- the driver


class Driver:
    """One life of a driver that runs these pipelines until all is carried over, or for ever.

    ``signed``: rows tell by headers who carried them. ``carried``: the code of the source travels with the tasks.
    """

    def __init__(
        self,
        folder: Path,
        broker: LastingBroker,
        pipelines: Sequence[Pipeline],
        traps: Traps | None = None,
        *,
        master: str = LOCAL,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "tests.support.spark_driver"),
        signed: bool = False,
        carried: bool = False,
        endless: bool = False,
    ) -> None:
        require_java()
        folder.mkdir(parents=True, exist_ok=True)
        self.traps = traps
        self._is_over = False
        self._log, self._begun = folder / "driver.log", folder / "begun"
        # What a killed driver leaves behind goes away with the test's folder.
        places = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        plan = {
            "endpoint": broker.endpoint,
            "pipelines": [pipeline.plan() for pipeline in pipelines],
            "settings": {"spark.master": master, **SETTINGS, **places, **(settings or {})},
            "begun": str(self._begun),
            "shuffled": SHUFFLED,
            "trapped": traps is not None,
            "signed": signed,
            "carried": carried,
            "endless": endless,
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, json.dumps(plan)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**spark_environment(folder), **(environ or {}), FOLDER: str(traps.folder) if traps else ""},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None and hasattr(error, "add_note"):
            error.add_note(f"the driver says: {self.log()}")

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def has_begun(self) -> bool:
        return self._begun.exists()

    def kill(self) -> None:
        """The driver, its JVM and its workers, at once and without a last word."""
        if not self._is_over:
            end_session(self.process.pid)
            self.process.wait(10)
            self._is_over = True

    def await_traps(self, *names: str) -> None:
        assert self.traps is not None
        self.traps.await_hits(names, self.is_alive)

    def await_end(self, seconds: float = 300.0) -> None:
        code = self.process.wait(seconds)
        assert code == 0, f"the driver ended with {code}: {self.log()}"


def spark_environment(folder: Path) -> dict[str, str]:
    """The tests and the package can be imported by every process of Spark; temporary files go into the folder."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LEVERET_", "SPARK_", "PYSPARK_"))
    }
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(SRC)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(temporary),
    }


def session_members(session: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            state, _, _, member = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it ended while we were looking
        if int(member) == session and state != "Z":
            yield int(entry.name)


def end_session(session: int, seconds: float = 10.0) -> None:
    """Kill every process that was started by the one that leads this session, and itself."""
    deadline = time.monotonic() + seconds
    while members := [*session_members(session)]:
        assert time.monotonic() < deadline, f"these processes cannot be killed: {members}"
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)

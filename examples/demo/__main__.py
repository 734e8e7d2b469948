"""A broker, a shop that fills it with orders, and two Spark pipelines, for a minute: `make demo`.

    producers ─> exchange "orders" ─> streams orders-0, 1, 2 ─┬─> traffic ─> Parquet, exchange "traffic" ─> the table
                                                              └─> archive ─> Parquet ─> audit: is anything lost?

All data is in a temporary directory that is deleted at the end; the chart stays (build/demo.html).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pika

from examples.demo import chart, orders
from examples.demo.screen import Screen
from leveret.errors import ConfigError, LeveretError
from leveret.spark import LeveretListener
from leveret.spark.jobs import archive, audit, traffic
from leveret.spark.jobs.running_job import Progress, Running
from leveret.spark.jobs.session import open_session, require_java

RESULTS = "traffic-results"
WINDOW = 3  # seconds
LONGEST_START, LONGEST_END = 20, 30  # seconds
HEADS = ("stream", "window", "orders/s", "kB/s", "size p50", "size p99", "late p50 ms", "late p95 ms")


def main() -> int:
    given = argparse.ArgumentParser(prog="make demo", description="Orders through a broker and Spark, for a minute.")
    given.add_argument("--seconds", type=int, default=40, help="how long to watch after the first results  [40]")
    given.add_argument("--rate", type=int, default=600, help="orders a second, on average  [600]")
    given.add_argument("--chart", type=Path, default=Path("build/demo.html"), help="where the chart goes")
    options = given.parse_args()
    try:
        require_java(os.environ)
        run(options.seconds, options.rate, options.chart)
    except LeveretError as problem:
        sys.stderr.write(f"demo: {problem}\n")
        return 2 if isinstance(problem, ConfigError) else 1
    except KeyboardInterrupt:
        sys.stderr.write("demo: interrupted; everything is cleaned up\n")
        return 130
    return 0


def run(seconds: int, rate: int, page: Path) -> None:
    screen = Screen()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leveret-demo-")))
        amqp, http = stack.enter_context(broker(folder))
        screen.say(f"The broker is at {amqp} and {http}. Spark starts, which takes some seconds.")
        channel = stack.enter_context(pika.BlockingConnection(pika.URLParameters(f"{amqp}?heartbeat=0"))).channel()
        orders.declare(channel)
        channel.exchange_declare("traffic", "fanout", durable=True)
        channel.queue_declare(RESULTS, durable=True)
        channel.queue_bind(RESULTS, "traffic")
        spark = open_session("demo", "local[2]", {})
        stack.callback(spark.stop)
        spark.streams.addListener(LeveretListener({"endpoint": http}))
        pipelines = {"traffic": traffic.start(spark, traffic_options(http, folder))}
        pipelines["archive"] = archive.start(spark, archive_options(http, folder))
        for pipeline in pipelines.values():
            stack.callback(pipeline.stop)
        producers = [orders.Producer(amqp, rate // 2, seed) for seed in (1, 2)]
        for producer in producers:
            stack.callback(producer.stop)
            producer.start()
        windows = watch(screen, channel, pipelines, producers, seconds)
        sent = sum(producer.sent for producer in producers)
        finding = proof(spark, http, folder)
        screen.say(f"\n{sent} orders were sent. Audit of the archive: {finding}")
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(drawn(windows, sent, finding), encoding="utf-8")
    screen.say(f"The chart is in {page}. Broker, Spark and their files are gone.")


def traffic_options(http: str, folder: Path) -> traffic.TrafficOptions:
    return traffic.TrafficOptions(
        endpoint=http,
        super_stream=orders.EXCHANGE,
        path=str(folder / "traffic"),
        exchange="traffic",
        window=f"{WINDOW} seconds",
        lateness="1 second",
        by="queue",
        sent_header=orders.SENT,
        continuous=True,
    )


def archive_options(http: str, folder: Path) -> archive.ArchiveOptions:
    return archive.ArchiveOptions(
        endpoint=http,
        super_stream=orders.EXCHANGE,
        path=str(folder / "archive"),
        continuous=True,
        interval="5 seconds",
    )


@contextmanager
def broker(folder: Path) -> Iterator[tuple[str, str]]:
    """A broker of its own, on ports that are free; its URLs for AMQP and for HTTP."""
    flags = ["--amqp-port", "0", "--http-port", "0", "--stomp-port", "off", "--data-dir", str(folder / "data")]
    command = [sys.executable, "-m", "leveret.cli.main", "serve", *flags]
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    try:
        yield urls_of(process)
    finally:
        process.terminate()
        process.wait(30)


def urls_of(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """From the banner, which comes within seconds or not at all."""
    assert process.stdout is not None
    heard = ""
    while "Ctrl-C" not in heard:
        ready, _, _ = select.select([process.stdout], [], [], 60)
        part = os.read(process.stdout.fileno(), 65536) if ready else b""
        if not part:
            raise LeveretError("the broker did not start: try `leveret serve` to see why")
        heard += part.decode()
    found = dict(re.findall(r"^  (amqp|http) +(\S+)$", heard, re.MULTILINE))
    return found["amqp"], found["http"]


def watch(
    screen: Screen, channel: Any, pipelines: dict[str, Running], producers: list[orders.Producer], seconds: int
) -> list[dict[str, Any]]:
    """Show what comes back from the pipelines until the time is over and they have caught up; all windows.

    The time counts from the first window on: the first batches of Spark take seconds.
    """
    windows: dict[tuple[str, str], dict[str, Any]] = {}  # a window that is revised is published again
    begun = first = time.monotonic()
    while True:
        now = time.monotonic()
        windows |= {(window["window_start"], window["queue"]): window for window in results(channel)}
        if not windows and now - first < LONGEST_START:
            begun = now
        sent = sum(producer.sent for producer in producers)
        done = {name: pipeline.progress() for name, pipeline in pipelines.items()}
        time_left = max(0, seconds - int(now - begun))
        state = f"{time_left} s to go" if windows else "Spark is warming up"
        screen.show(
            now - first,
            HEADS,
            latest([*windows.values()]),
            [f"{sent:,} orders sent; {state}", *map(progress_line, done.items())],
        )
        if not time_left:
            for producer in producers:
                producer.stop()
            if now - begun > seconds + LONGEST_END or all(at.rows >= sent for at in done.values()):
                return [*windows.values()]
        for pipeline in pipelines.values():
            pipeline.wait(0.5)  # raises what went wrong in it


def progress_line(pipeline: tuple[str, Progress]) -> str:
    name, at = pipeline
    lag = "-" if at.lag is None else f"{at.lag:,}"
    return f"{name:8} {at.rows:>9,} rows  {at.rate:>7,.0f}/s  lag {lag:>6}  last batch {at.batch_ms:,} ms"


def results(channel: Any) -> Iterator[dict[str, Any]]:
    """The windows that arrived since the last look."""
    while True:
        frame, _, body = channel.basic_get(RESULTS, auto_ack=True)
        if frame is None:
            return
        yield json.loads(body)


def latest(windows: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """One row for each stream: its newest window."""
    newest = {window["queue"]: window for window in sorted(windows, key=lambda window: str(window["window_start"]))}
    return [
        (
            queue,
            window["window_start"][11:19],
            round(window["messages"] / WINDOW),
            round(window["bytes"] / WINDOW / 1000, 1),
            window["size_p50"],
            window["size_p99"],
            window.get("latency_ms_p50"),
            window.get("latency_ms_p95"),
        )
        for queue, window in sorted(newest.items())
    ]


def proof(spark: Any, http: str, folder: Path) -> str:
    options = audit.AuditOptions(endpoint=http, super_stream=orders.EXCHANGE, path=str(folder / "archive"), bodies=True)
    report = audit.start(spark, options).report()
    kept = sum(int(str(row[3])) for row in report.rows)
    return f"{kept} orders kept; {report.lines[-1]}"


def drawn(windows: list[dict[str, Any]], sent: int, finding: str) -> str:
    starts = sorted({window["window_start"] for window in windows})
    moments = {start: datetime.fromisoformat(start) for start in starts}
    place = {start: (moment - moments[starts[0]]).total_seconds() for start, moment in moments.items()}
    streams = sorted({window["queue"] for window in windows})

    def line(queue: str, name: str, divide: float = 1.0) -> chart.Points:
        mine = [window for window in windows if window["queue"] == queue and window.get(name) is not None]
        return sorted((place[window["window_start"]], window[name] / divide) for window in mine)

    charts = {
        "Orders a second": {queue: line(queue, "messages", WINDOW) for queue in streams},
        "From the shop to the broker, milliseconds (95 %)": {queue: line(queue, "latency_ms_p95") for queue in streams},
    }
    notes = [f"{sent} orders in {WINDOW} second windows, counted by the traffic pipeline", f"Audit: {finding}"]
    return chart.page("Leveret demo: a minute of orders", charts, notes)


if __name__ == "__main__":
    sys.exit(main())

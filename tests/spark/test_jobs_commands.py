"""``leveret pipeline``: the list, the flags, the display, and one pipeline as a process of its own."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from leveret.cli.pipeline import SUMMARIES, job_named
from leveret.cli.pipeline_display import Display, line_of, table
from leveret.cli.pipeline_run import command_of, pairs, run, watch
from leveret.errors import ConfigError
from leveret.spark.jobs.archive import ArchiveOptions
from leveret.spark.jobs.audit import AuditOptions
from leveret.spark.jobs.dedup import DedupOptions
from leveret.spark.jobs.job import sink_settings, source_settings
from leveret.spark.jobs.route import RouteOptions
from leveret.spark.jobs.running_job import Progress, Report, cause_of, lag_of
from leveret.spark.jobs.session import require_java, warm_up
from leveret.spark.jobs.slices import Plan
from leveret.spark.offsets import Source
from tests.support.spark_broker import SparkBroker
from tests.support.spark_environment import QUICK_JVM, python_environment

LEVERET = [sys.executable, "-m", "leveret.cli.main", "pipeline"]


def leveret(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"{before}\nfrom leveret.cli.main import main\nmain()", "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)


def test_the_list_needs_no_spark() -> None:
    listed = leveret("list", before="import sys; sys.modules['pyspark'] = None")
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in SUMMARIES)


def test_a_missing_pyspark_is_told_with_the_remedy() -> None:
    missing = leveret("run", "archive", "--help", before="import sys; sys.modules['pyspark'] = None")
    assert missing.returncode == 2
    assert missing.stderr == (
        "leveret: pipeline 'archive' needs Spark, and pyspark is not installed: pip install 'leveret[spark]'\n"
    )


def test_a_missing_or_old_java_is_told_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"or newer, but java is not on PATH: install it \(Debian.*openjdk-17-jre-headless"
    ):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        require_java({"JAVA_HOME": str(tmp_path)})
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.raises(ConfigError, match=r"needs Java 17 or newer, but .* is 11"):
        require_java({"JAVA_HOME": str(tmp_path)})
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    require_java({"JAVA_HOME": str(tmp_path)})


def test_a_pipeline_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown pipeline 'arcive': choose one of archive, traffic"):
        job_named("arcive")


@pytest.mark.parametrize("name", SUMMARIES)
def test_each_pipeline_shows_its_options(name: str) -> None:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command_of(job_named(name)))
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0, shown.output
    for flag in ("--queue", "--endpoint", "--option", "--master", "--conf"):
        assert flag in shown.output
    assert job_named(name).name == name


def test_flags_become_typed_options() -> None:
    seen: list[RouteOptions] = []

    def see(*arguments: object) -> int:
        seen.append(arguments[1])  # type: ignore[arg-type]
        return 0

    app = typer.Typer(rich_markup_mode=None)
    app.command()(command_of(job_named("route")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leveret.cli.pipeline_run.run", see)
        own = ["--drop", "--rule", "a => b", "--rule", "c => d"]
        passed = ["--option", "mandatory=true", "--option", "minPartitions=4"]
        told = CliRunner().invoke(app, ["--queue=q", "--exchange=e", "--max-per-batch=7", *own, *passed])
        assert told.exit_code == 0, told.output
        wrong = CliRunner().invoke(app, ["--queue", "q", "--max-per-batch", "many"])
        assert wrong.exit_code == 2
    [options] = seen
    assert (options.rule, options.drop, options.max_per_batch) == (("a => b", "c => d"), True, 7)
    assert source_settings(options) == {"queue": "q", "maxOffsetsPerTrigger": "7", "minPartitions": "4"}
    publishing = {"exchange": "e", "guarantee": "exactly-once", "mandatory": "true", "unroutable": "fail"}
    assert sink_settings(options) == publishing


def test_options_that_are_no_pairs_are_refused() -> None:
    assert pairs(["a=b=c", "d="], "option") == {"a": "b=c", "d": ""}
    with pytest.raises(ConfigError, match="invalid --conf 'x': write it as NAME=VALUE"):
        pairs(["x"], "conf")


@pytest.mark.parametrize("flags", [{}, {"queue": "a", "pattern": "b"}])
def test_one_way_to_choose_queues_is_required(flags: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="exactly one of --queue, --super-stream and --pattern"):
        RouteOptions(exchange="e", rule=("a => b",), **flags)  # type: ignore[arg-type]


class Screen(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def test_a_terminal_has_one_line_that_changes_and_a_log_one_for_each_batch() -> None:
    first, second = Progress(1, 1000, 500.0, 20, 2000), Progress(2, 1500, 250.0, None, 1000)
    screen, log = Screen(True), Screen(False)
    for out in (screen, log):
        display = Display(out)
        for progress in (Progress(), first, first, second):
            display.show(progress)
        display.close()
    assert screen.getvalue().count("\n") == 1
    assert screen.getvalue().count("\r") == 4
    assert [line[line.index("batches") :] for line in log.getvalue().splitlines()] == [
        "batches 1  rows 1,000  rate 500/s  lag 20  last batch 2,000 ms",
        "batches 2  rows 1,500  rate 250/s  lag -  last batch 1,000 ms",
    ]
    assert line_of(first, 3.0).startswith("     3 s")


def test_a_table_has_numbers_to_the_right() -> None:
    assert table(("queue", "n"), [("a", 1), ("long name", 100)]) == (
        "queue        n\n"
        "a            1\n"
        "long name  100\n"
    )  # fmt: skip
    assert table((), []) == ""


class Endless:
    """A job that ends only when it is told to."""

    stopped = False

    def progress(self) -> Progress:
        return Progress()

    def wait(self, seconds: float | None = None) -> bool:
        return False

    def stop(self) -> None:
        self.stopped = True

    def report(self) -> Report:
        return Report()


def test_whoever_says_stop_is_heard() -> None:
    told = threading.Event()
    told.set()
    job, log = Endless(), Screen(False)
    assert watch(job, Display(log), told)
    assert job.stopped
    assert "stopping; the next run continues from here" in log.getvalue()


def test_lag_is_what_a_batch_left_behind() -> None:
    ours = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1"
    stream = {"description": ours, "endOffset": {"a": 5, "b": 7}}
    lease = {"description": ours, "endOffset": {"consumer": "c", "lease": 4, "queue": "q", "vhost": "/"}}
    files = {"description": "FileStreamSource[x]", "endOffset": {"logOffset": 4}}
    streams = [Source(name, "stream", 0, first, next_, 1, 1) for name, first, next_ in [("a", 0, 9), ("b", 0, 7)]]
    new = Source("c", "stream", 0, 2, 5, 3, 3)
    assert lag_of([stream], lambda: streams) == 4
    assert lag_of([stream], lambda: [*streams, new]) == 4 + 3
    assert lag_of([lease], lambda: [Source("q", "classic", 0, 4, 999, 99, 1)]) == 99
    assert lag_of([files], lambda: streams) is None


def test_the_cause_of_a_failure_is_found_among_traces() -> None:
    text = "[STREAM_FAILED] terminated\nTraceback:\nleveret.spark.problems.DataLoss: queue 'q' is gone\n\n\tat org"
    assert cause_of(RuntimeError(text)) == "queue 'q' is gone"
    assert cause_of(RuntimeError("plain words")) == "plain words"


def test_slices_of_a_plan_take_every_offset_once() -> None:
    plan = Plan({}, "t", {"a": (10, 45), "b": (0, 3), "c": (7, 8)}, 6)
    shares = [plan.slice(number) for number in range(plan.slices)]
    for queue, (first, end) in plan.ranges.items():
        offsets = [offset for share in shares if queue in share for offset in range(*share[queue])]
        assert offsets == list(range(first, end))
    assert max(sum(end - first for first, end in share.values()) for share in shares) <= 8


def reported_by(broker: SparkBroker, stream: str) -> list[dict[str, Any]]:
    """The reports of batches that read the stream."""
    reports = broker.ask("GET", "queries")["queries"]
    return [each for each in reports if any(stream in (one["offset"] or {}) for one in each.get("sources", []))]


def test_archive_runs_as_a_command_until_ctrl_c(broker: SparkBroker, tmp_path: Path) -> None:
    stream = broker.stream("commanded", ["a", "b", "c"])
    where = ["--endpoint", broker.endpoint, "--queue", stream, "--path", str(tmp_path / "kept")]
    with_ui = ["--conf", "spark.ui.enabled=true", "--conf", "spark.ui.port=0"]
    quick = ["--conf", f"spark.driver.extraJavaOptions={QUICK_JVM}"]
    command = [*LEVERET, "run", "archive", "--master", "local[2]", "--continuous", *where, *with_ui, *quick]
    local = os.environ | python_environment(tmp_path) | {"SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=local) as process:
        assert process.stderr is not None
        said = iter(process.stderr)
        assert any(line.startswith("starting Spark on local[2]; ") for line in said)
        assert any("rows 3 " in line for line in said)
        process.send_signal(signal.SIGINT)
        rest = "".join(said)
        assert process.wait(60) == 130, rest
    assert "stopping; the next run continues from here" in rest
    assert "Traceback" not in rest
    assert list((tmp_path / "kept").glob(f"date=*/hour=*/queue={stream}/*.parquet"))
    [report] = reported_by(broker, stream)
    assert report["steps"] == ["archive: compression zstd"]
    assert report["sink"] == str(tmp_path / "kept")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", report["spark_ui"])


def test_workers_are_started_before_they_are_needed(spark: SparkSession) -> None:
    warm_up(spark)  # fails if the tasks do


class Borrowed:
    """The session of the tests, which a command must not end."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> object:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """It is not theirs."""


def test_a_command_says_what_it_found_by_its_exit_code(
    spark: SparkSession,
    broker: SparkBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("leveret.cli.pipeline_run.open_session", lambda *_: Borrowed(spark))
    stream = broker.stream("judged", ["a", "b"])
    path = str(tmp_path / "kept")
    kept = ArchiveOptions(endpoint=broker.endpoint, queue=stream, path=path)
    asked = AuditOptions(endpoint=broker.endpoint, queue=stream, path=path)
    assert run(job_named("archive"), kept, "local", {}) == 0
    assert run(job_named("audit"), asked, "local", {}) == 0
    assert "nothing is lost" in capsys.readouterr().out
    broker.publish(stream, ["c"])
    assert run(job_named("audit"), asked, "local", {}) == 1
    assert f"missing: {stream}, offsets 2 to 2 (1)" in capsys.readouterr().out
    unknown = replace(asked, queue="no-such-queue")
    assert run(job_named("audit"), unknown, "local", {}) == 1
    assert "no queue 'no-such-queue'" in capsys.readouterr().err
    strange = RouteOptions(
        endpoint=broker.endpoint, queue=stream, exchange="e", checkpoint="c", rule=("nobody > 1 => b",)
    )
    assert run(job_named("route"), strange, "local", {}) == 1
    assert "`nobody` cannot be resolved" in capsys.readouterr().err
    lost = DedupOptions(endpoint=broker.endpoint, queue=stream, exchange="nowhere", checkpoint=str(tmp_path / "d"))
    assert run(job_named("dedup"), lost, "local", {}) == 1
    assert "no exchange 'nowhere'" in capsys.readouterr().err

"""``leveret pipeline``: the built-in Spark pipelines by name. Spark is imported only to run one."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from leveret.errors import ConfigError

if TYPE_CHECKING:
    from leveret.spark.jobs.job import Job

SUMMARIES = {
    "archive": "write messages to Parquet files by date, hour and queue",
    "traffic": "aggregate message counts, sizes and latencies in time windows",
    "dead-letters": "report why messages were dead-lettered, and redrive selected ones",
    "replay": "republish messages of an archive, a stream or a table",
    "dedup": "forward each message once, by its id or its body",
    "route": "publish with a routing key computed by SQL rules or from a table",
    "schema-check": "forward messages that match a schema; others go to another exchange, with the reason",
    "lake": "write messages to a Delta or Iceberg table, exactly once",
    "to-jdbc": "write messages to a PostgreSQL table, where a row replaces that with its key",
    "mask": "hash, redact or remove personal data in JSON bodies, by path",
    "sessions": "publish one message for each session: messages of one key without a gap between them",
    "join": "publish pairs of messages of two queues with the same key within a time",
    "audit": "verify that an archive has every message of its streams",
}
SPARK_PACKAGES = {"pyspark", "py4j", "pyarrow", "numpy", "pandas"}
GOOD, UNUSABLE = 0, 2


def list_pipelines() -> str:
    lines = [f"  {name:14}{summary}" for name, summary in SUMMARIES.items()]
    return "\n".join([*lines, "", "For the options of a pipeline: leveret pipeline run NAME --help"])


def run_pipeline(name: str, arguments: Sequence[str], called: str) -> None:
    """Run the pipeline with these arguments, and exit."""
    if not name or name.startswith("-"):
        typer.echo(f"Usage: {called} NAME [OPTIONS]\n\n{list_pipelines()}")
        raise typer.Exit(GOOD if name in ("", "--help") else UNUSABLE)
    job = job_named(name)
    from leveret.cli.pipeline_run import command_of

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, help=f"{SUMMARIES[name][:1].upper()}{SUMMARIES[name][1:]}.")(command_of(job))
    app(args=list(arguments), prog_name=f"{called} {name}")


def job_named(name: str) -> Job:
    if name not in SUMMARIES:
        raise ConfigError(f"unknown pipeline {name!r}: choose one of {', '.join(SUMMARIES)}")
    try:
        job: Job = importlib.import_module(f"leveret.spark.jobs.{name.replace('-', '_')}").JOB
    except ModuleNotFoundError as missing:
        package = str(missing.name).partition(".")[0]
        if package not in SPARK_PACKAGES:
            raise
        raise ConfigError(
            f"pipeline {name!r} needs Spark, and {package} is not installed: pip install 'leveret[spark]'"
        ) from missing
    return job

"""``leveret pipeline``: the ready pipelines by name. Spark is imported for the one that is to run, not for the list."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from leveret.errors import ConfigError

if TYPE_CHECKING:
    from leveret.spark.jobs.job import Job

SUMMARIES = {
    "archive": "keep messages as Parquet files by date, hour and queue",
    "traffic": "count messages, bytes, sizes and latencies in windows of time",
    "dead-letters": "say why messages died, and send chosen ones back to where they came from",
    "replay": "publish messages of an archive or of a stream once more",
    "dedup": "pass each message on once, by its id or by its body",
    "route": "publish with a routing key computed by SQL rules or from a table",
    "schema-check": "pass on what fits a schema, and the rest with the reason to another exchange",
    "audit": "prove that an archive has every message of its streams",
}
OF_THE_EXTRA = {"pyspark", "py4j", "pyarrow", "numpy", "pandas"}
GOOD, UNUSABLE = 0, 2


def list_pipelines() -> str:
    lines = [f"  {name:14}{summary}" for name, summary in SUMMARIES.items()]
    return "\n".join([*lines, "", "leveret pipeline run NAME --help shows the options of one."])


def run_pipeline(name: str, arguments: Sequence[str], called: str) -> None:
    """Run the pipeline with these arguments. Ends the process, as every command does."""
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
        raise ConfigError(f"there is no pipeline {name!r}: it can be {', '.join(SUMMARIES)}")
    try:
        job: Job = importlib.import_module(f"leveret.spark.jobs.{name.replace('-', '_')}").JOB
    except ModuleNotFoundError as missing:
        package = str(missing.name).partition(".")[0]
        if package not in OF_THE_EXTRA:
            raise
        raise ConfigError(
            f"the pipeline {name} runs on Spark, and {package} is not installed: pip install 'leveret[spark]'"
        ) from missing
    return job

"""The ready pipelines by name. Known without Spark, so that they can be listed on a machine that has none."""

from __future__ import annotations

import importlib
import importlib.util

from leveret.errors import ConfigError
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
INSTALL_PYSPARK = "pyspark is not installed: pip install 'leveret[spark]'"


def job_named(name: str) -> Job:
    """The job, with its module. Needs pyspark."""
    if name not in SUMMARIES:
        raise ConfigError(f"there is no pipeline {name!r}: it can be {', '.join(SUMMARIES)}")
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigError(f"the pipeline {name} runs on Spark, and {INSTALL_PYSPARK}")
    job: Job = importlib.import_module(f"leveret.spark.jobs.{name.replace('-', '_')}").JOB
    return job

"""The steps of ready pipelines as the management UI shows them, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leveret.cli.pipeline import job_named
from leveret.pipeline.query_report import refuse_invalid
from leveret.spark.jobs.archive import ArchiveOptions
from leveret.spark.jobs.dedup import DedupOptions
from leveret.spark.jobs.description import description_of
from leveret.spark.jobs.job import BrokerOptions, Job, setting
from leveret.spark.jobs.lake import LakeOptions
from leveret.spark.jobs.replay import ReplayOptions
from leveret.spark.jobs.to_jdbc import ToJdbcOptions


@dataclass(frozen=True, kw_only=True)
class StrangeOptions(BrokerOptions):
    db_password: str = setting("", "hunter2")
    jdbc_url: str = setting("", "jdbc:postgresql://x?password=hunter2")
    path: str = setting("", "s3a://me:hunter2@bucket/x")
    database: str = setting("", "hunter2")
    source: str = setting("", "http://me:hunter2/@1@host/x\nline")
    target: str = setting("", "jdbc:postgresql://host/db?ssl=1&password=hunter2")
    place: str = setting("", "host=h password = hunter2 port=1")
    rule: Mapping[str, str] = setting("", None)
    quickly: bool = setting("", True)
    columns: tuple[str, ...] = setting("", ("a", "b"))
    long: str = setting("", "x" * 1_000)


def test_steps_are_the_job_and_its_own_options() -> None:
    dedup = DedupOptions(queue="q", exchange="deduped", username="ann", by="header:order", checkpoint="/c")
    assert description_of(job_named("dedup"), dedup) == {
        "steps": ["dedup: by header:order, within 10 minutes"],
        "sink": "exchange deduped",
    }
    archive = ArchiveOptions(queue="q", path="/lake")
    assert description_of(job_named("archive"), archive) == {"steps": ["archive: compression zstd"], "sink": "/lake"}


def test_a_table_is_a_sink_unless_it_is_read() -> None:
    lake = LakeOptions(queue="q", table="s3://me:hunter2@lake/orders", schema="id INT")
    assert description_of(job_named("lake"), lake) == {
        "steps": ["lake: format delta, schema id INT, keep queue,offset,timestamp"],
        "sink": "table s3://lake/orders",
    }
    to_jdbc = ToJdbcOptions(queue="q", table="shop.orders", key="id", schema="id INT")
    assert description_of(job_named("to-jdbc"), to_jdbc)["sink"] == "table shop.orders"
    replay = ReplayOptions(table="/lake/orders", exchange="again", checkpoint="/c")
    described = description_of(job_named("replay"), replay)
    assert described["sink"] == "exchange again"
    assert "table /lake/orders" in str(described["steps"])


def test_secrets_are_left_out_and_texts_are_short() -> None:
    job = Job("strange", StrangeOptions, lambda spark, options: options)
    described: dict[str, Any] = description_of(job, StrangeOptions(rule={"a": "1"}))
    assert "hunter2" not in str(described)
    assert described["sink"] == "s3a://bucket/x"
    [step] = described["steps"]
    assert step.startswith(
        "strange: source http://host/x line, target jdbc:postgresql://host/db, place host=h … port=1, "
        "rule a=1, quickly, columns a, b, long xxx"
    )
    assert len(step) < 350
    refuse_invalid({"id": "i", **described})

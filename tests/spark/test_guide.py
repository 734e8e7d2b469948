"""What the guide shows works as it stands: the Python of spark.md, schemas.md, pipelines.md and README.md runs, the
commands of pipelines are understood."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from leveret.cli.pipeline import SUMMARIES, job_named
from leveret.cli.pipeline_run import command_of
from leveret.spark.jobs.archive import read_archive
from leveret.spark.options import CONNECTION, SINK, SOURCE
from tests.support.command_line import Cli
from tests.support.spark_broker import STREAM, SparkBroker

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
SPARK = (GUIDE / "spark.md").read_text()
PIPELINES = (GUIDE / "pipelines.md").read_text() + (GUIDE / "tables.md").read_text()
USUAL = "http://127.0.0.1:15672"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def in_the_test(block: str, broker: SparkBroker, folder: Path) -> str:
    """The same code, with this broker instead of the usual one, and files where tests have theirs."""
    code = block.replace(f"{USUAL},http://localhost:15672", broker.endpoint).replace(USUAL, broker.endpoint)
    code = code.replace('.format("leveret")', f'.format("leveret").option("endpoint", "{broker.endpoint}")')
    return code.replace("/tmp/", f"{folder}/")


def test_the_examples_of_the_spark_page_run(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = broker.channel
    monkeypatch.setenv("LEVERET_PASSWORD", "guest")
    for stream in ("orders", "orders-0", "orders-1"):
        channel.queue_declare(stream, durable=True, arguments=STREAM)
        broker.publish(stream, ['{"total": 250}', '{"total": 2}'])
    channel.exchange_declare("orders", "x-modulus-hash", durable=True)
    for number in (0, 1):
        channel.queue_bind(f"orders-{number}", "orders", str(number))
    channel.queue_declare("work", durable=True)
    broker.publish("work", ["a"])
    large, copied = broker.queue("large"), broker.queue("copied")
    channel.exchange_declare("large-orders", "fanout", durable=True)
    channel.queue_bind(large, "large-orders")
    channel.queue_bind(copied, "amq.topic", "copied")
    names: dict[str, object] = {}
    for block in blocks(SPARK, "python"):
        if "carry_code" not in block:  # would change the session for all other tests
            exec(in_the_test(block, broker, tmp_path), names)  # noqa: S102  the guide is ours
    spark.streams.removeListener(names["listener"])  # type: ignore[arg-type]
    names["query"].awaitTermination()  # type: ignore[attr-defined]
    assert broker.bodies(large) == [b'{"total": 250}']
    assert len(broker.bodies(copied)) == 2


def test_the_examples_of_the_schemas_page_run(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (GUIDE / "schemas.md").read_text()
    [schema] = blocks(page, "json")
    Path("orders.avsc").write_text(schema)
    cli = Cli(broker.endpoint, tmp_path)
    for line in "".join(blocks(page, "sh")).splitlines():
        cli.done(*shlex.split(line)[1:])
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        code = in_the_test(block, broker, tmp_path).replace("amqp://guest:guest@127.0.0.1:5672/", broker.amqp)
        exec(code, names)  # noqa: S102  the guide is ours
    [order] = names["orders"].collect()  # type: ignore[attr-defined]
    assert (order.id, str(order.total)) == ("7", "12.50")
    assert names["damaged"].count() == 1  # type: ignore[attr-defined]


def test_the_examples_of_the_readme_and_of_the_page_of_pipelines_run(
    spark: SparkSession, broker: SparkBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both queries run until they are stopped, here after the first messages."""
    monkeypatch.setenv("LEVERET_PASSWORD", "guest")
    broker.channel.queue_declare("orders", durable=True, arguments=STREAM)
    broker.publish("orders", ["small", "x" * 2_000])
    big = broker.queue("big")
    broker.channel.queue_bind(big, "amq.topic", "big.#")
    [sink] = [block for block in blocks((GUIDE.parents[1] / "README.md").read_text(), "python") if "pyspark" in block]
    assert '"checkpoint"' in sink  # relative to the directory in which Java was started
    exec(in_the_test(sink, broker, tmp_path).replace('"checkpoint"', f'"{tmp_path}/checkpoint"'), {})  # noqa: S102
    [query] = spark.streams.active
    query.processAllAvailable()
    query.stop()
    assert broker.bodies(big) == [b"x" * 2_000]
    [job] = [block for block in blocks(PIPELINES, "python") if "archive.start" in block]
    here = in_the_test(job, broker, tmp_path).replace("Options(", f'Options(endpoint="{broker.endpoint}", ')
    stopped = here.replace("running.wait()", "running.queries[0].processAllAvailable(); running.stop(); running.wait()")
    exec(stopped, {})  # noqa: S102  the guide is ours
    assert read_archive(spark, f"{tmp_path}/orders").where("length(body) = 2000").count() == 1


def test_the_spark_page_has_every_option() -> None:
    for name in (*CONNECTION, *SOURCE, *SINK):
        assert f"| `{name}` |" in SPARK, f"{name} is not in the tables"
        assert re.search(rf"\b{name}\b", "".join(blocks(SPARK, "python"))) or name in ("credentialsFile",), name


def commands() -> list[list[str]]:
    text = "\n".join(blocks(PIPELINES, "sh")).replace("\\\n", " ")
    found = [shlex.split(line) for line in text.splitlines() if line.startswith("leveret pipeline run")]
    return [words[3:] for words in found if "--help" not in words]


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_a_command_of_the_guide_is_understood(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr("leveret.cli.pipeline_run.run", lambda _, options, *__: seen.append(options) or 0)
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command_of(job_named(words[0])))
    told = CliRunner().invoke(app, words[1:])
    assert told.exit_code == 0, told.output
    assert len(seen) == 1


def test_every_pipeline_and_its_own_options_are_in_the_guide() -> None:
    assert {words[0] for words in commands()} == set(SUMMARIES)
    for name in SUMMARIES:
        [page] = re.findall(rf"^## {name}\n(.*?)(?=^## )", PIPELINES, re.DOTALL | re.MULTILINE)
        for option in job_named(name).options.__annotations__:
            assert f"--{option.replace('_', '-')}" in page, f"{name}: --{option} is not in the guide"

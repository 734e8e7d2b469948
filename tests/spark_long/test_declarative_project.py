"""The declarative project, run twice: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset
import pytest

from examples.demo import orders
from tests.support.programs import require_java
from tests.support.spark_broker import SparkBroker

PROJECT = Path(__file__).parents[2] / "examples" / "declarative_pipelines"


def run_project(folder: Path) -> None:
    program = Path(sys.executable).with_name("spark-pipelines")
    environ = os.environ | {
        "SPARK_CONF_DIR": str(folder / "conf"),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
    }
    command = [str(program), "--remote", "local[2]", "run"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert "Run is COMPLETED" in done.stdout + done.stderr, done.stdout + done.stderr


def parquet_in(folder: Path, table: str) -> list[str]:
    return [str(path) for path in (folder / "tables" / table).rglob("*.parquet")]


def archived(folder: Path) -> list[bytes]:
    return [
        bytes(body)
        for body in pyarrow.dataset.dataset(parquet_in(folder, "archive")).to_table(["body"])["body"].to_pylist()
    ]


@pytest.mark.timeout(1300)
def test_two_runs_archive_count_and_publish_every_message_once(broker: SparkBroker, tmp_path: Path) -> None:
    require_java()
    shutil.copytree(PROJECT, tmp_path, dirs_exist_ok=True)
    for file in ("spark-pipeline.yml", "conf/spark-defaults.conf"):
        text = (tmp_path / file).read_text().replace("http://127.0.0.1:15672", broker.endpoint)
        (tmp_path / file).write_text(text.replace("/tmp/leveret-pipelines", str(tmp_path)))
    orders.declare(broker.channel)
    broker.channel.exchange_declare("traffic", "fanout", durable=True)
    results = broker.queue("results")
    broker.channel.queue_bind(results, "traffic")
    dice = random.Random(5)
    sent: list[bytes] = []
    for _ in range(2):
        for key, body in (orders.order(dice) for _ in range(200)):
            broker.publish(key, [body], exchange=orders.EXCHANGE)
            sent.append(body)
        run_project(tmp_path)
        assert sorted(archived(tmp_path)) == sorted(sent)
        windows = pyarrow.dataset.dataset(parquet_in(tmp_path, "traffic")).to_table()
        assert sum(windows["messages"].to_pylist()) == len(sent)
        assert sum(windows["bytes"].to_pylist()) == sum(map(len, sent))
    measured = [json.loads(body) for body in broker.bodies(results)]
    assert Counter(one["size"] for one in measured) == Counter(map(len, sent))

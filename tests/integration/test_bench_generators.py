"""`make bench` needs nothing but this repository: its load generators compile once, and run against a broker."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import leveret
from benchmarks import generator
from benchmarks.generator import AMQPBENCH, GeneratorFailed, Generators
from tests.support.programs import require_program


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(generator, "BUILD", tmp_path / "bench")
    return tmp_path / "bench"


def test_the_load_generator_of_the_repository_measures_a_broker(compiler: Path) -> None:
    require_program("cc")
    programs = Generators.compile().programs
    assert set(programs) == {
        *("amqpbench", "amqpbench-by-cell", "celeryload", "cellload", "propload", "queueload", "rpcload"),
    }
    made = programs["amqpbench"].stat().st_mtime_ns
    assert Generators.compile(AMQPBENCH).programs["amqpbench"].stat().st_mtime_ns == made
    (folder,) = compiler.iterdir()
    with leveret.Broker() as broker:
        port = str(urlsplit(broker.amqp_url).port)
        login = ["--user", broker.username, "--pass", broker.password]
        options = [
            "--port",
            port,
            *login,
            "--warmup",
            "0",
            "--seconds",
            "60",
            "--count",
            "20000",
            "--broker-pid",
            str(os.getpid()),
        ]
        done = subprocess.run([folder / "amqpbench", *options], capture_output=True, text=True, timeout=60, check=False)
    line = json.loads(done.stdout)
    assert line["ok"], done.stdout
    assert line["received"] == 20000


def test_another_source_that_does_not_exist_is_named(compiler: Path) -> None:
    with pytest.raises(GeneratorFailed, match=r"no load generator nowhere\.c: leave AMQPBENCH out"):
        Generators.compile("nowhere.c")
    assert not compiler.exists()

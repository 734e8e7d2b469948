"""The commands of the guides run as they stand, in their order, at a real broker: each must succeed, or fail where the
page shows an error, and print what the page shows; numbers may differ.

Every command is run here, or by the test that ELSEWHERE names, or EXCEPTIONS has the reason. The same holds for blocks
of other languages (OTHERS).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.delivery.selector import compile_selector
from leveret.errors import PreconditionFailed
from tests.support.guide_commands import PAGES, Part, Typed, commands, parts
from tests.support.guide_pages import ROOT, SHELLS
from tests.support.guide_setups import BEFORE
from tests.support.guide_shell import Shell
from tests.support.programs import require_program

ELSEWHERE: dict[tuple[str, str], str] = {  # page, heading ("" for all): the test that runs the commands
    ("command-line", ""): "tests/integration/test_guide_walkthrough.py",
    ("first-hour", ""): "tests/integration/test_guide_walkthrough.py",
    ("sharding", "Over several cells"): "tests/integration/test_sharding_guide.py",
    ("sharding", "Over three nodes"): "tests/cluster/test_cells_guide.py",
    ("cluster", "Try three cells"): "tests/cluster/test_cells_guide.py",
    ("README", "Shard a queue over several processes"): "tests/integration/test_sharding_guide.py",
    ("README", "Several nodes"): "tests/cluster/test_cells_guide.py",
}

INSTALLS = "installs packages from an index"
SYSTEM = "needs root and systemd, and changes the machine"
CONTAINER = "needs podman or docker: tests/unit/test_packaging.py follows the steps of the container file"
KUBERNETES = "needs Kubernetes: tests/unit/test_kubernetes.py checks the manifests"
NODES = "needs NATS and several nodes: tests/cluster runs these commands"
SPARK = "needs Spark: tests/spark runs every pipeline, and its test_guide.py parses these commands"
DATABRICKS = "for the settings or a notebook of Databricks"
MACHINES = "needs a Spark cluster with this name"
RABBITMQ = "needs a running RabbitMQ"

EXCEPTIONS: dict[str, dict[str, str]] = {  # page: beginnings of commands; those of root have their prompt
    "README": {"make run": INSTALLS, "pip install": INSTALLS},
    "celery": {
        "celery -A shop worker": "has no end: tests/compat/test_celery_guide.py runs workers",
        "celery -A shop flower": "has no end: tests/compat/test_flower.py runs it",
    },
    "cluster": {
        "pip install": INSTALLS,
        "leveret cluster demo": NODES,
        "leveret cluster join": NODES,
        "leveret cluster status": NODES,
        "leveret cluster handover": NODES,
        "leveret cluster refound": NODES,
        "leveret serve --config /etc/leveret/leveret.toml --cells 3": NODES,
        "kubectl": KUBERNETES,
        "# useradd": SYSTEM,
        "# install": SYSTEM,
        "# cp": SYSTEM,
        "# leveret restore": SYSTEM,
        "# systemctl": SYSTEM,
    },
    "install": {"make run": INSTALLS, "pip install": INSTALLS},
    "kubernetes": {"kubectl": KUBERNETES, "podman build": CONTAINER},
    "migrate": {"curl -u admin": RABBITMQ},
    "operate": {
        "# python3 -m venv": INSTALLS,
        "# /opt/leveret/bin/pip install": INSTALLS,
        "# useradd": SYSTEM,
        "# install": SYSTEM,
        "# cp": SYSTEM,
        "# chown": SYSTEM,
        "# systemctl": SYSTEM,
        "# journalctl": SYSTEM,
        "podman": CONTAINER,
        "LEVERET_DEFAULT_PASSWORD='correct horse' docker compose": CONTAINER,
        "leveret cluster status": NODES,
        "leveret top": "has no end without a terminal",
    },
    "pipelines": {"leveret pipeline run": SPARK},
    "pipelines-monitoring": {"LEVERET_QUEUE=orders python": SPARK},
    "security": {"pip install": INSTALLS},
    "spark": {"spark-submit": MACHINES, "leveret pipeline run": MACHINES},
    "spark-cluster": {
        "pip install": INSTALLS,
        "python -m": INSTALLS,
        "spark-submit": MACHINES,
        "PYSPARK": MACHINES,
        "LEVERET_PASSWORD={{": DATABRICKS,
    },
    "tables": {"pip install": INSTALLS, "export PGPASSFILE": SPARK, "leveret pipeline run": SPARK},
}


def of_page(page: str) -> Iterator[tuple[Part, Typed]]:
    for part in parts(page):
        for typed in commands(part):
            yield part, typed


def found(beginnings: dict[str, str], typed: Typed) -> str | None:
    return next((begin for begin in beginnings if typed.name.startswith(begin)), None)


def place(page: str, part: Part) -> tuple[str, str] | None:
    return next((key for key in ((page, ""), (page, part.heading)) if key in ELSEWHERE), None)


@pytest.mark.parametrize("page", BEFORE)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    setups = dict(BEFORE[page])
    after = setups.pop("after", ())
    with Shell(tmp_path) as shell:
        for setup in setups.pop(""):
            setup(shell)
        for part, typed in of_page(page):
            if place(page, part) or found(EXCEPTIONS.get(page, {}), typed):
                continue
            for begin in [begin for begin in setups if f"{typed.name}\n".startswith(begin)]:
                for setup in setups.pop(begin):
                    setup(shell)
            shell.type(typed)
        for setup in after:
            setup(shell)
    assert setups == {}, "a setup without a command"


def test_every_command_has_a_place() -> None:
    """It is run here, or elsewhere, or it is an exception; and there is nothing else in the tables."""
    used: set[object] = set()
    for page in PAGES:
        for part, typed in of_page(page):
            begin = found(EXCEPTIONS.get(page, {}), typed)
            key = place(page, part)
            used |= {key, (page, begin)} - {None, (page, None)}
            assert page in BEFORE or key or begin, f"{page}: {typed.name} is not run"
    assert used == {*ELSEWHERE, *((page, begin) for page, begins in EXCEPTIONS.items() for begin in begins)}
    for (page, _), test in ELSEWHERE.items():
        assert f"{page}.md" in (ROOT / test).read_text(encoding="utf-8"), test


# ---- blocks of other languages

PIPELINE = "output of a pipeline on Spark: tests/spark compares it by its fields"
HERE = "tests/integration/test_guide_consoles.py"
OTHERS: dict[tuple[str, str], str] = {  # page ("" for all), language: the test, or the reason why there is none
    ("", "python"): "tests/integration/test_guide_examples.py",
    ("", "toml"): "tests/unit/cli/test_guide_commands.py",
    ("", "yaml"): "tests/unit/cli/test_guide_commands.py",
    ("client-transports", "nginx"): HERE,
    ("http", "json"): HERE,
    ("install", ""): HERE,
    ("operate", ""): HERE,
    ("operate", "ini"): "for systemctl edit: needs systemd",
    ("pipelines", ""): PIPELINE,
    ("pipelines", "json"): PIPELINE,
    ("proxies", "haproxy"): "tests/integration/test_proxies.py",
    ("proxies", "nginx"): HERE,
    ("schemas", "json"): HERE,
    ("selectors", ""): HERE,
    ("selectors", "sql"): HERE,
    ("spark-cluster", "text"): DATABRICKS,
    ("stomp", "js"): "tests/compat/test_stompjs.py",
}


def test_every_block_of_another_language_has_a_place() -> None:
    languages = {(page, part.language) for page in PAGES for part in parts(page) if part.language not in SHELLS}
    used = {key if key in OTHERS else ("", key[1]) for key in languages}
    assert used == {*OTHERS}
    for test in OTHERS.values():
        assert not test.startswith("tests/") or " " in test or (ROOT / test).exists(), test


NGINX = """\
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    upstream leveret {{ server 127.0.0.1:15672; }}
    map $http_upgrade $connection_upgrade {{ default upgrade; "" close; }}
    server {{ listen 127.0.0.1:8080; {location} }}
}}
"""
STREAM = "stream {"  # of a module that nginx-light does not have


@pytest.mark.parametrize(("page", "of_streams"), [("client-transports", 0), ("proxies", 1)])
def test_nginx_accepts_the_blocks_of_a_page(page: str, of_streams: int, tmp_path: Path) -> None:
    program, config = require_program("nginx"), tmp_path / "nginx.conf"
    found = [part.text for part in parts(page) if part.language == "nginx"]
    locations = [text for text in found if not text.startswith(STREAM)]
    assert len(found) - len(locations) == of_streams
    for location in locations:
        config.write_text(NGINX.format(folder=tmp_path, location=location))
        command = [program, "-t", "-p", str(tmp_path), "-c", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, f"{location}\n{done.stderr}"


def test_the_selectors_of_their_page() -> None:
    condition, error = [part.text for part in parts("selectors") if part.language in ("sql", "")]
    values = {"colour": "red", "weight": 2600, "JMSPriority": 4}
    assert compile_selector(condition).matches(values)
    assert not compile_selector(condition).matches({**values, "colour": "blue"})
    with pytest.raises(PreconditionFailed) as caught:
        compile_selector("colour = AND weight > 1")
    assert error == f"PRECONDITION_FAILED - {caught.value.text}\n"

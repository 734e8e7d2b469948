"""The commands of docs/guide/cluster.md and sharding.md about three cells run as they stand, on other ports.

Both pages and the README start the same demo: here it is started once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from tests.support.cell_node import until
from tests.support.cell_ports import free_ports
from tests.support.live_command import LiveCommand
from tests.support.management_api import ManagementApi

ROOT = Path(__file__).parents[2]
AMQP, HTTP = 5701, 15701  # the first ports in the guide


def blocks(page: str, heading: str) -> list[tuple[str, str]]:
    section = (ROOT / page).read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    section = re.split(rf"^#{{2,{heading.index(' ')}}} ", section, flags=re.MULTILINE)[0]
    return re.findall(r"^```(console|python)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


CLUSTER = blocks("docs/guide/cluster.md", "### Try three cells")
SHARDING = blocks("docs/guide/sharding.md", "## Over three nodes")
README = blocks("README.md", "## Several nodes")[1:]  # the first one starts a single cell


def commands(block: str) -> list[str]:
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def first_ports() -> tuple[int, int]:
    """Three free ports in a row, for AMQP and for HTTP."""
    while True:
        (first,) = free_ports(1)
        with ExitStack() as opened:
            try:
                for port in range(first, first + 6):
                    opened.enter_context(socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first, first + 3


def shards_of(exchange: str) -> set[str]:
    return {f"sharding: {exchange} - {cell} - {index}" for cell in ("c1", "c2", "c3") for index in range(2)}


class Page:
    """The blocks of a page, with other ports."""

    def __init__(self, blocks: list[tuple[str, str]], folder: Path, amqp: int, http: int) -> None:
        self._folder = folder
        folder.mkdir()
        text: dict[str, list[str]] = {"console": [], "python": []}
        for kind, block in blocks:
            for place in range(3):
                block = block.replace(str(HTTP + place), str(http + place)).replace(
                    str(AMQP + place), str(amqp + place)
                )
            text[kind].append(block)
        (self.start,), *self._shell = (commands(block) for block in text["console"])
        (self._python,) = text["python"]

    def shell(self, number: int) -> str:
        return run(self._shell[number], self._folder)

    def python(self) -> dict[str, Any]:
        names: dict[str, Any] = {}
        exec(self._python, names)  # noqa: S102  the guide is ours
        return names


@pytest.mark.timeout(400)
def test_sharded_exchanges_over_three_cells(tmp_path: Path) -> None:
    amqp, http = first_ports()
    cluster = Page(CLUSTER, tmp_path / "cluster", amqp, http)
    sharding = Page(SHARDING, tmp_path / "sharding", amqp, http)
    assert cluster.start == sharding.start
    with LiveCommand(*cluster.start.split()[1:], folder=tmp_path) as demo:
        demo.until("Press Ctrl-C")
        api = ManagementApi(f"http://127.0.0.1:{http}", "admin", "admin")
        until(lambda: all_up_to_date(api), 20, lambda: str(api.get("cluster/cells")))
        cluster.shell(0)
        assert {row["leader"] for row in api.get("cluster/cells")[1]} == {"n1", "n2", "n3"}
        until(lambda: shards(api).keys() == shards_of("images"), 20, lambda: str(shards(api)))
        names = cluster.python()
        assert sorted(names["received"]) == sorted(f"user-{number}" for number in range(100) for _ in range(3))
        for connection in names["connections"]:
            connection.close()
        listed = cluster.shell(1)
        assert all(shard in listed for shard in shards_of("images"))
        sharding.shell(0)
        until(lambda: shards(api).keys() > shards_of("orders"), 20, lambda: str(shards(api)))
        names = sharding.python()
        assert names["received"] == ["one tea", "one coffee"]
        names["connection"].close()
        demo.interrupt()
        assert demo.ended() == (0, "")


def test_the_readme_has_commands_of_the_guide() -> None:
    known = [line for kind, block in SHARDING if kind == "console" for line in commands(block)]
    found = [line for _, block in README for line in commands(block)]
    assert len(found) > 5
    assert [line for line in known if line in found] == found


def all_up_to_date(api: ManagementApi) -> bool:
    members = [member for row in api.get("cluster/cells")[1] for member in row["members"]]
    return len(members) == 9 and all(member["up_to_date"] for member in members)


def shards(api: ManagementApi) -> dict[str, int]:
    return {row["name"]: row.get("messages", 0) for row in api.get("queues")[1]}


def run(lines: list[str], folder: Path) -> str:
    """In one shell, which has the command ``leveret`` of this environment."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {
        **os.environ,
        "PATH": path,
        "XDG_CONFIG_HOME": str(folder),
        "LEVERET_PASSWORD": "admin",
        "COLUMNS": "300",
    }
    done = subprocess.run(["sh", "-ec", "\n".join(lines)], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

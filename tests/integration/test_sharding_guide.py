"""The commands of the sharding guide and of the README run as they stand: three cells, a sharded exchange."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import SRC, BrokerProcess

ROOT = Path(__file__).parents[2]
PAGES = {
    "guide": (ROOT / "docs" / "guide" / "sharding.md", "Over several cells", ["one tea", "one coffee"], 6),
    "readme": (ROOT / "README.md", "Shard a queue over several processes", ["one tea"], 0),
}


def run(*command: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(SRC)}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=60, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.feature("S2-01", "S2-02", "S2-16", "S2-27", "S2-28")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_run(tmp_path: Path, page: str) -> None:
    path, heading, consumed, listed = PAGES[page]
    section = path.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```(console|python)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    serve = shlex.split(blocks[0][1].removeprefix("$ "))
    assert serve[:2] == ["leveret", "serve"]
    flags = serve[2 : serve.index("--data-dir")]
    with BrokerProcess(tmp_path, *flags, "--http-port", "0") as broker:
        printed = {"console": "", "python": ""}
        for kind, text in blocks[1:]:
            if kind == "python":
                assert "amqp://guest:guest@127.0.0.1:5672/%2F" in text
                address = broker.url().split("@")[1].split("/")[0]
                printed[kind] += run("-c", text.replace("127.0.0.1:5672", address))
                continue
            for line in re.findall(r"^\$ leveret (.*)$", text, re.MULTILINE):
                printed[kind] += run("-m", "leveret.cli.main", *shlex.split(line), "--url", broker.url("http"))
        assert printed["python"].splitlines() == consumed
        assert printed["console"].count("sharding: orders - ") == listed

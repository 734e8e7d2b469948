"""The configurations of nats-server in packaging/: accepted by the real program, and safe."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support.nats_servers import PROGRAM

PACKAGING = Path(__file__).parents[2] / "packaging"


def in_kubernetes() -> str:
    documents = yaml.safe_load_all((PACKAGING / "kubernetes" / "nats.yaml").read_text())
    (found,) = (each["stringData"]["nats.conf"] for each in documents if each["kind"] == "Secret")
    return str(found)


def under_systemd() -> str:
    return (PACKAGING / "systemd" / "nats-server.conf").read_text()


@pytest.mark.parametrize("read", [in_kubernetes, under_systemd])
def test_the_configuration_is_valid_and_safe(read: Callable[[], str], tmp_path: Path) -> None:
    text = read()
    path = tmp_path / "nats.conf"
    path.write_text(re.sub(r'store_dir: ".*"', f'store_dir: "{tmp_path}"', text))
    checked = subprocess.run(
        [str(PROGRAM), "-t", "-c", str(path)], capture_output=True, text=True, env=os.environ | {"POD_NAME": "nats-0"}
    )
    assert checked.returncode == 0, checked.stderr
    assert "sync_interval: always" in text
    assert len(re.findall(r'"nats://route:\S+:6222"', text)) == 3

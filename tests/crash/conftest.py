"""Shared by the crash tests: a seed that failures name, mounted file systems, and the shim that makes calls fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.support.fault_shim import Shim, compile_shim
from tests.support.mounts import Mount, ext4_on_a_file, tmpfs


@pytest.fixture
def seed() -> int:
    """LEVERET_CRASH_SEED, or a fresh one; every failure names it."""
    given = os.environ.get("LEVERET_CRASH_SEED")
    return int(given) if given else SystemRandom().randrange(1 << 32)


@pytest.fixture
def random(seed: int) -> Random:
    return Random(seed)


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(shim_library: Path, tmp_path: Path) -> Shim:
    """Ready for a broker whose folder is ``tmp_path``; passes every call on until the test sets a fault."""
    return Shim(shim_library, tmp_path / "data", tmp_path)


@pytest.fixture
def loop_mount(tmp_path: Path) -> Iterator[Mount]:
    with ext4_on_a_file(tmp_path / "disk.img", tmp_path / "disk", 256 << 20) as mount:
        yield mount


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Mount]:
    with tmpfs(tmp_path / "disk", 48 << 20) as mount:
        yield mount

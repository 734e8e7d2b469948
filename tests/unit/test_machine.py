"""Memory and cores that a process may use, by its control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leveret.machine import FALLBACK_MEMORY, usable_cores, usable_memory


def groups(root: Path, own: str, files: dict[str, str]) -> Path:
    for name, text in {"proc/self/cgroup": own, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_tightest_control_group_bounds_the_memory(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/a/memory.max": "1000000\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}
    assert usable_memory(groups(tmp_path, "0::/a/b\n", files)) == 1_000_000


def test_a_version_one_limit_counts_too_even_when_the_path_is_the_hosts(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n"}
    assert usable_memory(groups(tmp_path, "3:cpu:/x\n4:memory:/docker/abc\n", files)) == 2_000_000


def test_without_control_groups_it_is_the_machines_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_memory(tmp_path) > 1 << 24
    monkeypatch.setattr("leveret.machine._physical_memory", lambda: None)
    assert usable_memory(tmp_path) == FALLBACK_MEMORY


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/a/b\n", {"sys/fs/cgroup/a/cpu.max": "50000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 0.5),
        (
            "3:cpu,cpuacct:/docker/abc\n",
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "75000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
            0.75,
        ),
        ("3:cpu:/x\n", {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}, None),
        ("", {}, None),
    ],
)
def test_the_tightest_quota_bounds_the_cores(
    own: str, files: dict[str, str], cores: float | None, tmp_path: Path
) -> None:
    assert usable_cores(groups(tmp_path, own, files)) == (cores or len(os.sched_getaffinity(0)))

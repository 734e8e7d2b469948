"""Facts of the machine that defaults depend on: host name, usable memory and cores."""

from __future__ import annotations

import gc
import os
import platform
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

FALLBACK_MEMORY = 1 << 30
"""Used if the size is unknown. A low value blocks publishers early; with a high one the broker may be killed."""

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc. With 32 MiB for the second, 20 MB stayed after any load; with 1 MiB,
# the joined output of a tick was mapped and faulted in anew each time.
HEAP_OPTIONS = ((-1, 256 << 20), (-3, 2 << 20))


def short_hostname() -> str:
    return platform.node().partition(".")[0] or "localhost"


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes of RAM, or the lowest limit of the control groups of this process if that is less."""
    limits = [limit for limit in (_physical_memory(), *_cgroup_limits(root)) if limit]
    return min(limits, default=FALLBACK_MEMORY)


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _windows_memory()


def _windows_memory() -> int | None:
    import ctypes

    if not hasattr(ctypes, "windll"):
        return None
    status = (ctypes.c_ulonglong * 8)()  # MEMORYSTATUSEX: two 32-bit fields, then seven of 64 bits
    status[0] = 64
    return int(status[1]) if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else None


def _cgroup_limits(root: Path) -> list[int]:
    return [
        int(text)
        for group, is_v2 in _groups(root, "memory")
        for text in _lines(group / ("memory.max" if is_v2 else "memory.limit_in_bytes"))
        if text.isdigit()
    ]


def usable_cores(root: Path = Path("/")) -> float:
    """Cores that this process may run on, or the lowest quota of its control groups if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *_cpu_quotas(root)])


def _cpu_quotas(root: Path) -> list[float]:
    """In cores. Without a quota, v2 has ``max`` in its place and v1 has -1."""
    found = []
    for group, is_v2 in _groups(root, "cpu"):
        files = ("cpu.max",) if is_v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota, period = [*" ".join(line for name in files for line in _lines(group / name)).split(), "", ""][:2]
        if quota.isdigit() and period.isdigit() and int(period):
            found.append(int(quota) / int(period))
    return found


def _groups(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """The folders of the process's own control group and of all above it, v2 (True) and v1.

    Inside a container the path in /proc/self/cgroup may be the host's and not exist here; the root of the mount is
    then the group of this process, and is always read as well.
    """
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            base = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            base = root / "sys/fs/cgroup" / controller
        else:
            continue
        own = base / path.lstrip("/")
        for group in (own, *own.parents):
            yield group, controllers == ""
            if group == base:
                break


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def resident_memory() -> int | None:
    """Bytes of RAM that this process uses; None where the system has no cheap way to read it."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def give_back_memory() -> None:
    """Return free memory to the system. Blocks all threads as long as a collection takes: measured 0.15 s for a
    million objects that refer to others, 3 ms for a few. The trim itself took 0.2 ms with a heap of 500 MiB.

    Python keeps small blocks of freed objects for new ones, each of which keeps a megabyte of them allocated: a full
    collection frees these. glibc keeps memory that is not at the end of its heap until malloc_trim is called.
    """
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Return free memory of the C library's heap to the system, also from between used blocks."""
    trim = _c_function("malloc_trim")
    if trim is not None:
        trim(0)


def keep_freed_memory() -> None:
    """Let glibc keep the buffers of large messages for the next ones, until ``trim_heap``: it would return each to the
    system at once, and fault it in again. For the whole process; see docs/decisions/0096-memory-after-a-load.md."""
    set_option = _c_function("mallopt")
    if set_option is not None:
        for option, size in HEAP_OPTIONS:
            set_option(option, size)


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    import ctypes

    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)  # without the interpreter's lock
    except (AttributeError, OSError, TypeError):
        return None
    return found

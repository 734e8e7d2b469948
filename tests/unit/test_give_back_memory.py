"""Memory that is free and still resident: kept for the next messages, and then given back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leveret.machine import resident_memory

# Arenas that a few objects of Python's free lists hold back, and a heap of the C library with holes.
PROGRAM = """
import gc
from leveret.machine import give_back_memory, resident_memory
gc.set_threshold(1_000_000_000)
tables = [{"a": {"b": {}}} for _ in range(100_000)]
cycles = [[] for _ in range(100_000)]
for each in cycles:
    each.append((each, bytes(400)))
blocks = [b"x" * 100_000 for _ in range(1_000)]
kept = blocks[::50]
full = resident_memory()
del tables, cycles, blocks, each
give_back_memory()
print(full >> 20, resident_memory() >> 20)
"""


# 256 blocks of 512 KiB, which glibc would map one by one, and unmap when they are freed.
KEPT = """
from leveret.machine import keep_freed_memory, resident_memory, trim_heap
keep_freed_memory()
blocks = [b"x" * (512 << 10) for _ in range(256)]
del blocks
kept = resident_memory()
trim_heap()
print(kept >> 20, resident_memory() >> 20)
"""

# Closed connections are cycles, which only a garbage collection frees.
CLOSED = """
import asyncio
from types import SimpleNamespace
from leveret.cli import serve
from leveret.machine import keep_freed_memory, resident_memory
keep_freed_memory()
serve.collect_garbage_rarely()
serve.COLLECT_EVERY = 0.01
async def until_small():
    cycles = [[] for _ in range(100_000)]
    for each in cycles:
        each.append((each, bytes(600)))
    full = resident_memory()
    del cycles, each
    collecting = asyncio.ensure_future(serve.collect_when_small(SimpleNamespace(message_memory=0)))
    while resident_memory() > full - (60 << 20):
        await asyncio.sleep(0.01)
    collecting.cancel()
asyncio.run(asyncio.wait_for(until_small(), 20))
"""


@pytest.mark.skipif(resident_memory() is None, reason="kernel: no /proc/self/statm")
def test_the_memory_of_closed_connections_is_returned() -> None:
    subprocess.run([sys.executable, "-c", CLOSED], timeout=30, check=True)


@pytest.mark.skipif(resident_memory() is None, reason="kernel: no /proc/self/statm")
def test_buffers_of_large_messages_are_kept_until_the_heap_is_trimmed() -> None:
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, timeout=30, check=True)
    kept, left = map(int, done.stdout.split())
    assert kept > 120
    assert left < 60


@pytest.mark.skipif(resident_memory() is None, reason="kernel: no /proc/self/statm")
def test_free_memory_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=True)
    full, left = map(int, done.stdout.split())
    assert full > 150
    assert left < 40

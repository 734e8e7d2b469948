"""Memory that is free and still resident is given back to the system."""

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


@pytest.mark.skipif(resident_memory() is None, reason="kernel: no /proc/self/statm")
def test_free_memory_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=True)
    full, left = map(int, done.stdout.split())
    assert full > 150
    assert left < 40

"""A time of day of its own for one process, which jumps while it runs: an LD_PRELOAD library with a file.

The kernel has namespaces for monotonic clocks only.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from struct import pack

from tests.support.programs import require_program

SOURCE = Path(__file__).parents[1] / "cluster" / "clock.c"


def compile_clock(folder: Path) -> Path:
    library = folder / "clock.so"
    command = [require_program("cc"), "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    done = subprocess.run(
        [*command, "-o", str(library), str(SOURCE), "-ldl"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return library


class OwnClock:
    """``environ``: for the process."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self._file.write_bytes(bytes(8))
        self.environ = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(file)}

    def jump(self, seconds: int) -> None:
        """From the time of the machine: forwards, or backwards if below 0."""
        with self._file.open("rb+") as file:
            file.write(pack("=q", seconds))

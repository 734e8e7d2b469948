"""Makes the file calls of a broker fail, from outside and while it runs: an LD_PRELOAD library with a control file.

Every write and sync of a file below ``root`` first reads the control file, and is noted in a trace with its outcome.
"""

from __future__ import annotations

import errno
import os
import subprocess
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.support.programs import require_program

SOURCE = Path(__file__).parents[1] / "crash" / "shim.c"


class Call(NamedTuple):
    """``outcome``: the result of the call, a number of bytes or a negative errno."""

    kind: str  # write or sync
    outcome: int
    path: str
    forged: bool


def compile_shim(folder: Path) -> Path:
    library = folder / "shim.so"
    command = [require_program("cc"), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
    done = subprocess.run(
        [*command, "-o", str(library), str(SOURCE), "-ldl"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return library


class Shim:
    def __init__(self, library: Path, root: Path, folder: Path) -> None:
        self._control = folder / "shim.control"
        self._trace = folder / "shim.trace"
        self._generations = count(1)
        self.environ = {
            "LD_PRELOAD": str(library),
            "SHIM_ROOT": str(root),
            "SHIM_CONTROL": str(self._control),
            "SHIM_TRACE": str(self._trace),
        }
        self._trace.write_bytes(b"")
        self.clear()

    # ---- switching

    def fail(self, kind: str, code: int, *, first: int = 1, times: int = 0, part: str = "") -> None:
        """The ``first`` call from now on, and ``times`` in all (0: all that follow), fail with this errno."""
        self._set(kind, f"errno:{code}", first, times, part)

    def shorten(self, *, part: str = "") -> None:
        """Writes take only a part of what they are given, at least one byte."""
        self._set("write", "short:0", 1, 0, part)

    def slow(self, kind: str, seconds: float, *, first: int = 1, times: int = 0, part: str = "") -> None:
        self._set(kind, f"sleep:{int(seconds * 1000)}", first, times, part)

    def hold(self, kind: str) -> None:
        """Calls wait until something else is set."""
        self._set(kind, "hold:0", 1, 0, "")

    def clear(self) -> None:
        self._set("none", "errno:0", 1, 0, "")

    def _set(self, kind: str, what: str, first: int, times: int, part: str) -> None:
        draft = self._control.with_suffix(".draft")
        draft.write_text(f"{next(self._generations)} {kind} {what} {first} {times} {part or '*'}\n")
        os.replace(draft, self._control)

    # ---- the trace

    def calls(self) -> list[Call]:
        found = []
        for line in self._trace.read_text().splitlines():
            kind, outcome, forged, path = line.split(" ", 3)
            found.append(Call(kind, int(outcome), path, forged == "forged"))
        return found

    def failures(self) -> list[int]:
        """Where in ``calls()`` the failures stand that were made here."""
        return [at for at, call in enumerate(self.calls()) if call.forged and call.outcome < 0]

    def written(self, part: str = "") -> int:
        """Bytes, to files whose path has this part."""
        return sum(
            call.outcome for call in self.calls() if call.kind == "write" and call.outcome > 0 and part in call.path
        )


EIO, ENOSPC = errno.EIO, errno.ENOSPC

"""Traps: named points of a pipeline at which it stops, once, until the test has done something to it.

A trap is a file that is armed by the test. The process that comes by at the right batch takes it by renaming it, which
only one of many can do; it says what it has seen, and either fails or waits to be released. So a test knows that what
it does then (kill the driver, kill the broker) hits exactly this point.

    name.armed ──taken──> name.taken ──seen──> name.hit ──test──> name.released
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

FOLDER = "PIPELINE_TRAPS"  # in the environment of every process of a driver
FAIL, WAIT = "fail", "wait"
LONGEST_WAIT = 400.0


class Sprung(Exception):
    """A trap that was armed to fail."""


class Failpoints:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    # ---- the test

    def arm(self, name: str, batch: int, deed: str = WAIT) -> str:
        """Call it before the driver starts, so that no process has passed the point."""
        for state in ("taken", "hit", "released"):
            self._file(name, state).unlink(missing_ok=True)
        self._put(name, "armed", {"batch": batch, "deed": deed})
        return name

    def await_hits(self, names: Sequence[str], is_alive: Callable[[], bool], seconds: float = 300.0) -> None:
        """Until a pipeline stands in each of them."""
        deadline = time.monotonic() + seconds
        while missing := [name for name in names if not self._file(name, "hit").exists()]:
            assert is_alive(), f"the driver ended before it came to {missing}"
            assert time.monotonic() < deadline, f"nobody came to {missing} for {seconds} seconds"
            time.sleep(0.02)

    def await_first(self, names: Sequence[str], is_alive: Callable[[], bool], seconds: float = 300.0) -> str:
        """Until a pipeline stands in one of them."""
        deadline = time.monotonic() + seconds
        while not (hit := [name for name in names if self._file(name, "hit").exists()]):
            assert is_alive(), f"the driver ended before it came to {names}"
            assert time.monotonic() < deadline, f"nothing came to {names} for {seconds} seconds"
            time.sleep(0.02)
        return hit[0]

    def seen(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file(name, "hit").read_text())
        return found

    def release(self, *names: str) -> None:
        for name in names:
            self._file(name, "released").touch()

    def notes(self, name: str) -> list[dict[str, Any]]:
        path = self._file(name, "notes")
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    # ---- the pipeline

    def pass_by(self, name: str, batch: int, **seen: object) -> None:
        """Continues at once unless the test armed this point for this batch."""
        armed = self._file(name, "armed")
        try:
            plan = json.loads(armed.read_text())
            if plan["batch"] != batch:
                return
            armed.rename(self._file(name, "taken"))
        except FileNotFoundError:
            return
        self._put(name, "hit", {"batch": batch, "pid": os.getpid(), **seen})
        if plan["deed"] == FAIL:
            raise Sprung(f"{name} fails in batch {batch}, as the test has asked for")
        self._wait_for(name)

    def note(self, name: str, **facts: object) -> None:
        """One line, whole even if the process is killed right after it."""
        with self._file(name, "notes").open("ab", buffering=0) as file:
            file.write(json.dumps(facts).encode() + b"\n")

    def _wait_for(self, name: str) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        while not self._file(name, "released").exists():
            if time.monotonic() > deadline:
                raise Sprung(f"{name} was never released")
            time.sleep(0.02)

    def _put(self, name: str, state: str, value: object) -> None:
        """Readers see all of it or nothing."""
        draft = self._file(name, f"draft-{os.getpid()}")
        draft.write_text(json.dumps(value))
        draft.rename(self._file(name, state))

    def _file(self, name: str, state: str) -> Path:
        return self.folder / f"{name}.{state}"

"""The load generators: compiled once, run once per measurement, judged by what they print."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.brokers import Broker

FOREIGN_CPU = 0.15  # of all cores during the window: above it, the work of other processes distorts the figure
Line = dict[str, Any]


class GeneratorFailed(Exception):
    """A run that gave no line at all."""


@dataclass(frozen=True, slots=True)
class Generators:
    """The compiled programs."""

    programs: dict[str, Path]

    @classmethod
    def compile(cls, amqpbench: Path, directory: Path) -> Generators:
        """Compiles all with the system's C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise GeneratorFailed("no C compiler found (cc, gcc or clang)")
        ours = {name: Path(__file__).with_name(f"{name}.c") for name in ("propload", "queueload")}
        programs = {}
        for name, source in {"amqpbench": amqpbench, **ours}.items():
            programs[name] = directory / name
            subprocess.run([compiler, "-O2", "-w", "-pthread", "-o", programs[name], source], check=True)
        return cls(programs)

    def run(self, name: str, broker: Broker, arguments: list[str], label: str) -> Line:
        """One run; the generator's line as it printed it."""
        command = [str(self.programs[name]), "--port", str(broker.port), "--broker-pid", str(broker.pid)]
        result = subprocess.run(
            [*command, "--label", label, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if not result.stdout.startswith("{"):
            raise GeneratorFailed(f"{label}: {result.stderr.strip() or f'exit status {result.returncode}'}")
        line: Line = json.loads(result.stdout)
        return line


def spoiled(line: Line, most: float = FOREIGN_CPU) -> str:
    """Why a run does not count; empty if it does. ``most``: the share of the CPU that may go elsewhere."""
    if line.get("mode") == "idle":
        return "" if line["alive"] == line["connections"] else "connections were lost"
    if not line["ok"]:
        faults = {key: line.get(key) for key in ("lost", "dup", "reordered", "corrupt", "nacked") if line.get(key)}
        return f"not ok: {faults or 'nothing arrived while it was measured'}"
    foreign = line.get("other_cpu_s", 0) + line.get("steal_s", 0)
    share = foreign / max(line["window_s"] * (os.cpu_count() or 1), 0.001)
    return f"{share:.0%} of the CPU went elsewhere" if share > most else ""

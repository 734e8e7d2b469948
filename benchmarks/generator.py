"""The load generators: compiled when their source changed, run once per measurement, judged by what they print."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.brokers import Broker

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build" / "bench"  # a folder for each state of the sources
AMQPBENCH = HERE / "amqpbench.c"
FLAGS = ("-O2", "-w", "-pthread")
FOREIGN_CPU = 0.15  # of all cores during the window: above it, the work of other processes distorts the figure
Line = dict[str, Any]


class GeneratorFailed(Exception):
    """A run that gave no line at all."""


@dataclass(frozen=True, slots=True)
class Generators:
    """The compiled programs."""

    programs: dict[str, Path]

    @classmethod
    def compile(cls, amqpbench: Path | str = "") -> Generators:
        """Compiles all with the system's C compiler, unless that is done. ``amqpbench``: another source of that one."""
        source = Path(amqpbench or AMQPBENCH)
        if not source.is_file():
            raise GeneratorFailed(f"there is no load generator {source}: leave AMQPBENCH out to use {AMQPBENCH.name}")
        folder = BUILD / _digest([source, *sorted(HERE.glob("*.[ch]"))])
        if not folder.is_dir():
            _compile_into(folder, source)
        compiled = {path.name: path for path in folder.iterdir() if not path.suffix}
        return cls({**compiled, "celeryload": HERE / "celeryload.py"})

    def run(
        self, name: str, broker: Broker, arguments: list[str], label: str, environment: Mapping[str, str] | None = None
    ) -> Line:
        """One run; the generator's line as it printed it."""
        program = self.programs[name]
        interpreter = [sys.executable] if program.suffix == ".py" else []
        command = [*interpreter, str(program), "--port", str(broker.port), "--broker-pid", broker.pids]
        result = subprocess.run(
            [*command, "--label", label, *arguments],
            env={**os.environ, **(environment or {})},
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


def add_source_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--amqpbench", default="", help=f"another source of the load generator {AMQPBENCH.name}")


def _digest(sources: list[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _compile_into(folder: Path, amqpbench: Path) -> None:
    """All programs appear at once, and only when all are compiled."""
    BUILD.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=BUILD))
    try:
        _compile_all(amqpbench, made)
        if not folder.is_dir():
            made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _compile_all(amqpbench: Path, folder: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise GeneratorFailed("no C compiler found (cc, gcc or clang); on Debian: apt-get install gcc")
    ours = {name: HERE / f"{name}.c" for name in ("propload", "queueload", "cellload", "rpcload")}
    for name, source in {"amqpbench": amqpbench, **ours}.items():
        subprocess.run([compiler, *FLAGS, "-o", folder / name, source], check=True)
    objects = (folder / "amqpbench.o", folder / "by_cell.o")
    subprocess.run([compiler, "-Dconnect=connect_by_cell", *FLAGS, "-c", "-o", objects[0], amqpbench], check=True)
    subprocess.run([compiler, *FLAGS, "-c", "-o", objects[1], HERE / "by_cell.c"], check=True)
    subprocess.run([compiler, "-pthread", "-o", folder / "amqpbench-by-cell", *objects], check=True)


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

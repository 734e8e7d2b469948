"""A shell for the commands of the guides: it runs them in a folder instead of the machine's.

Directories of the machine (``/var/lib/leveret``, ``/tmp``, ...) are below the folder, which is also the
home and the working directory. ``leveret`` is the one of this environment. A broker that a page starts listens on free
ports, and the commands after it reach it by a context.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.support.broker_process import SRC, BrokerProcess
from tests.support.guide_commands import Typed

PASSWORD = "correct horse"
DIRECTORIES = ("/var/lib/leveret", "/etc/leveret", "/srv/backup", "/tmp", "/data")
ABSOLUTE = re.compile(r"(?<![\w.~/])(?=/(?:var|etc|srv|tmp|data|opt|usr|home|root)\b)")
SERVE = re.compile(r"(\w+=('[^']*'|\S*) )*leveret serve")
QUICK = {
    '"wait": 5': '"wait": 0',
    "--cells 4": "--cells 2",
    "/opt/leveret/bin/leveret": "leveret",
    "0.0.0.0": "127.0.0.1",
}


class Shell:
    """``words`` of the page are replaced by what stands for them here; ``started`` are the brokers of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words = dict(QUICK)
        self.environ: dict[str, str] = {}
        self.username = "guest"
        self.started: list[BrokerProcess] = []
        self._stack = ExitStack()
        (folder / "bin").mkdir()
        (folder / "leveret").mkdir()
        (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
        (folder / "bin" / "leveret").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leveret.cli.main "$@"\n')
        (folder / "bin" / "leveret").chmod(0o755)
        for directory in DIRECTORIES:
            self.path(directory).mkdir(parents=True, mode=0o700)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def path(self, path: str) -> Path:
        """Of a file of the page."""
        return self.folder / path.lstrip("/")

    def reach(self, url: str) -> None:
        """``leveret`` without ``--url`` finds the broker there, and so do the addresses of the page."""
        self.words["127.0.0.1:15672"] = url.removeprefix("http://").rstrip("/")
        contexts = f'current = "guide"\n\n[contexts.guide]\nurl = "{url}"\nusername = "{self.username}"\n'
        (self.folder / "leveret" / "contexts.toml").write_text(contexts)

    def type(self, typed: Typed) -> None:
        """The command must succeed, unless the page shows an error, and print what the page shows."""
        if SERVE.match(self.placed(typed.line)):
            output = self._serve(typed.line)
        else:
            fails = any(line.startswith("leveret: ") for line in typed.shown)
            done = self.run(typed.line)
            output = done.stdout + done.stderr
            assert bool(done.returncode) == fails, f"{typed.line}\nexits with {done.returncode}:\n{output}"
        absent = missing(typed.shown, self.unplaced(output).splitlines())
        assert absent == [], f"{typed.line}\nprints:\n{output}"

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """What asks for passwords gets one, up to three times."""
        return subprocess.run(
            ["sh", "-c", self.placed(line)],
            cwd=self.folder,
            env=self._environment(),
            input=f"{PASSWORD}\n" * 3,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def placed(self, text: str) -> str:
        for word, here in self.words.items():
            text = text.replace(word, here)
        return ABSOLUTE.sub(str(self.folder), text)

    def unplaced(self, output: str) -> str:
        return output.replace(str(self.folder), "")

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}
        mine = {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder), "PYTHONPATH": str(SRC)}
        return {**kept, **mine, "PATH": f"{self.folder / 'bin'}:{kept['PATH']}", "COLUMNS": "300", **self.environ}

    def _serve(self, line: str) -> str:
        """Its banner. The flags are those of the page; ports are free ones, and what the page does not open is off."""
        words = shlex.split(self.placed(line), comments=True)
        begin = words.index("leveret")
        environ = dict(word.split("=", 1) for word in words[:begin])
        flags = [
            "0" if word.isdigit() and before.endswith("-port") else word for before, word in _pairs(words[begin + 2 :])
        ]
        more = ["--http-port", "0", "--shutdown-timeout", "0.5"]
        if "--tls-cert" in flags:
            more += ["--amqps-port", "0", "--https-port", "0"]
        (folder := self.folder / f"broker{len(self.started)}").mkdir()
        port = None if {"--config", "--amqp-port"} & {*flags} or "LEVERET_AMQP_PORT" in environ else "0"
        broker = BrokerProcess(folder, *more, *flags, environ={**self._environment(), **environ}, port=port)
        self.started.append(self._stack.enter_context(broker))
        if "json" in flags:
            return str(broker.ready_line())
        if re.search(r"^  http +http:", broker.banner(), re.MULTILINE):
            self.reach(broker.url("http"))
        return broker.banner()


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    return [*zip(["", *words], words, strict=False)]


# ---- comparison of outputs


def missing(shown: list[str], output: list[str]) -> list[str]:
    """The lines of the page that are not in the output, in its order. ``...`` stands for any lines."""
    if shown and shown[0].lstrip().startswith("{"):
        return [] if documents(shown) == documents(output) else shown
    rest = iter([alike(line) for line in output])
    return [line for line in shown if line.strip() not in ("", "...") and alike(line) not in rest]


def alike(line: str) -> str:
    """Without what differs from one run to the next: numbers, the plural behind them, and the width of columns."""
    line = re.sub(r"\d+(?:\.\d+)*", "0", line)
    return " ".join(re.sub(r"\b0 ([a-z]+[a-rt-z])s\b", r"0 \1", line).split())


def documents(lines: list[str]) -> list[Any]:
    """The JSON documents of an output, without numbers."""
    text, found = "\n".join(lines).strip(), []
    while text:
        document, end = json.JSONDecoder().raw_decode(text)
        found.append(_without_numbers(document))
        text = text[end:].strip()
    return found


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_numbers(each) for each in value]
    if isinstance(value, str):
        return alike(value)
    return 0 if isinstance(value, float | int) and not isinstance(value, bool) else value

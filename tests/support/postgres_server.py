"""A PostgreSQL server of its own for a test: on a Unix socket, with passwords, ended with the test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.programs import missing

BINARIES = Path("/usr/lib/postgresql")
USER, PASSWORD = "keeper", "s3cret of keeper"
PATIENCE = 30.0


def program(name: str) -> str:
    found = sorted(BINARIES.glob(f"*/bin/{name}"))
    if not found:
        missing("PostgreSQL's server is not installed (`make foreign` installs it)")
    return str(found[-1])


class PostgresServer:
    """PostgreSQL refuses to run as root: then it runs as `nobody`, in a folder of that user."""

    def __init__(self) -> None:
        self._as = ["runuser", "-u", "nobody", "--"] if os.getuid() == 0 else []
        self._initdb, self._postgres = program("initdb"), program("postgres")
        self.folder = Path(tempfile.mkdtemp(prefix="leveret-pg-"))  # short: the path of a socket has 107 characters
        if self._as:
            shutil.chown(self.folder, "nobody")
        self.conninfo = f"host={self.folder} dbname=postgres user={USER}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        passwords = self.folder / "password"
        passwords.write_text(PASSWORD)
        passwords.chmod(0o644)
        data = str(self.folder / "data")
        initdb = [self._initdb, "-D", data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={passwords}", "--no-sync"]
        subprocess.run([*self._as, *initdb, "--encoding=UTF8", "--locale=C"], check=True, capture_output=True, cwd="/")
        server = [self._postgres, "-D", data, "-k", str(self.folder), "-h", "", "-c", "fsync=off"]
        with (self.folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen([*self._as, *server], stdout=log, stderr=log, cwd="/")
        self._await_start()
        return self

    def _await_start(self) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.rows("SELECT 1")
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.folder / "server.log").read_text()
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        os.kill(int(lines[0]), signal.SIGINT)  # disconnects clients and ends
        self._process.wait(PATIENCE)
        shutil.rmtree(self.folder)

    def rows(self, statement: str) -> list[Any]:
        with psycopg.connect(self.conninfo, password=PASSWORD) as connection:
            done = connection.execute(statement)  # type: ignore[arg-type]
            return done.fetchall() if done.description else []

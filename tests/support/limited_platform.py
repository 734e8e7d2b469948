"""A process without the features that only some systems have; run as a program, with the name of a system and a task.

What other people's packages need is imported before: they know their platforms. From then on a name that is missing on
the system is missing here, wherever Leveret looks for it. The event loop stays this machine's own.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import types
from pathlib import Path
from typing import Any

OURS = ("leveret", "pyspark_leveret")
FOREIGN = "apsw argon2 h11 msgspec regex rich.console rich.live rich.progress starlette.routing typer typer.testing"
FOREIGN += " uvicorn.config uvicorn.protocols.http.h11_impl uvicorn.server pytest pyarrow"
MODULES = {
    "win32": ("fcntl", "resource", "termios", "tty", "pwd", "grp", "uvloop"),
    "darwin": ("uvloop",),
}
NAMES: dict[str, tuple[tuple[Any, str], ...]] = {
    "win32": (
        *((os, name) for name in ("fdatasync", "writev", "sysconf", "fchmod", "fork", "register_at_fork")),
        *((os, name) for name in ("getuid", "geteuid", "sync", "sendfile", "pread", "pwrite", "sched_getaffinity")),
        *((os, name) for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW")),
        *((signal, name) for name in ("SIGHUP", "SIGUSR1", "SIGQUIT")),
        *((socket, name) for name in ("AF_UNIX", "SO_REUSEPORT")),
    ),
    "darwin": tuple((os, name) for name in ("fdatasync", "sched_getaffinity", "O_DIRECT")),
}
KERNEL = ("/proc", "/sys")  # only Linux has them


def become(system: str) -> None:
    """From now on this process is as poor as one on that system; what was imported keeps what it has."""
    sysconfig.get_config_vars()  # it looks for a file by the name of the platform
    pair, family = socket.socketpair, socket.AF_UNIX
    socket.socketpair = lambda *given: pair(family)  # type: ignore[assignment]  # for the event loop
    sys.platform = system
    for module in MODULES[system]:
        sys.modules[module] = None  # type: ignore[assignment]  # an import of it fails
    for owner, name in NAMES[system]:
        if hasattr(owner, name):
            delattr(owner, name)
    for owner, name in ((builtins, "open"), (os, "listdir"), (os, "open")):
        setattr(owner, name, _without_kernel(getattr(owner, name)))
    if system == "win32":
        locks = types.ModuleType("msvcrt")
        vars(locks).update(LK_NBLCK=1, LK_UNLCK=2, locking=lambda handle, how, size: None)
        sys.modules["msvcrt"] = locks
    else:
        import fcntl

        vars(fcntl)["F_FULLFSYNC"] = fcntl.F_GETFD  # what it is for does not matter: it is called and returns


def _without_kernel(real: Any) -> Any:
    def opened(path: Any = ".", *more: Any, **named: Any) -> Any:
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(KERNEL):
            raise FileNotFoundError(2, "No such file or directory", path)
        return real(path, *more, **named)

    return opened


def import_all() -> None:
    """Every module there is; pyspark counts as foreign, and may be absent."""
    missing = set(MODULES[sys.platform])
    for package in OURS:
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            try:
                importlib.import_module(module.name)
            except ImportError as problem:
                if problem.name in missing or (problem.name or "").startswith(OURS):
                    raise
                print(f"passed over {module.name}: {problem}")
    print("imported")


def live() -> None:
    """A broker on a disk, twice, with a client, HTTP and the command line between."""
    import leveret
    from leveret.config import Settings

    folder = Path(tempfile.mkdtemp())
    settings = Settings(amqp_port=0, http_port=0, stomp_port=None, data_dir=folder / "data", shutdown_timeout=1.0)
    try:
        with leveret.Broker(settings) as broker:
            asyncio.run(_publish(broker.amqp_url))
            for command in (["status"], ["overview"], ["top", "--once"], ["doctor"], ["queues", "list"]):
                _run_command(broker.http_url, command)
            _run_command(broker.http_url, ["definitions", "export", str(folder / "all.json")])
        with leveret.Broker(settings) as broker:
            print(asyncio.run(_get(broker.amqp_url)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _publish(url: str) -> None:
    from leveret.client import connect
    from leveret.wire.properties import Properties

    async with await connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)
        await channel.confirm_select()
        await channel.publish(b"kept", routing_key="q", properties=Properties(delivery_mode=2))


async def _get(url: str) -> str:
    from leveret.client import connect

    async with await connect(url) as connection:
        channel = await connection.channel()
        found = await channel.get("q")
        return "nothing" if found is None else bytes(found.body).decode()


def _run_command(url: str, arguments: list[str]) -> None:
    from typer.testing import CliRunner

    from leveret.cli.main import app

    result = CliRunner(env={"LEVERET_PASSWORD": "guest"}).invoke(app, [*arguments, "--url", url])
    if result.exit_code != 0:
        raise SystemExit(f"leveret {' '.join(arguments)}: {result.output} {result.exception!r}")


def ran(system: str, task: str, source: Path) -> str:
    """What such a process wrote; it must have ended well."""
    command = [sys.executable, "-m", "tests.support.limited_platform", system, task]
    environ = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environ, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


if __name__ == "__main__":
    for name in FOREIGN.split():
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"without {name}")
    become(sys.argv[1])
    {"import": import_all, "live": live}[sys.argv[2]]()

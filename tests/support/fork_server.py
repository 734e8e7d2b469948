"""A process that has imported the whole broker and forks itself for every request to run ``leveret``.

Importing takes most of the start. A forked process is separate: it has its own memory, files, signals and exit, and
kill -9 ends it like any other. It runs ``leveret`` from the parsing of the command line on.

    control socket ->  {"arguments", "environ", "folder"} with stdout, stderr and a link
    link           <-  the process id, then, when it has ended, its exit status as in ``subprocess``
                   ->  nothing; when the other side closes it, the process is killed

Between the fork server and each process there is a keeper process, which alone waits for it. The process stays a zombie
until the link is closed, so that its process id is not reused as long as the test may send it a signal.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

MOST = 1 << 17  # bytes of a request
PRELOADED = (
    *("encodings.idna", "resource", "uvloop", "leveret.cli.data", "leveret.cli.serve", "leveret.node"),
    *("uvicorn", "leveret.http.app", "leveret.api.routes", "leveret.pipeline.routes"),
)


def preload() -> None:
    """All that ``serve`` imports, and what is built of classes on first use."""
    for name in PRELOADED:
        import_module(name)
    from leveret.cli.main import app

    with suppress(SystemExit):
        app(["serve", "--help"])


def serve_forks(control: socket.socket) -> None:
    """Returns in each new process, and when the control socket is closed."""
    while True:
        data, files, _, _ = socket.recv_fds(control, MOST, 3)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            keep(json.loads(data), *files)
            return
        for file in files:
            os.close(file)


def keep(request: dict[str, Any], stdout: int, stderr: int, link_file: int) -> None:
    """Returns only in the requested process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        os.close(link_file)
        become(request, stdout, stderr)
        return
    os.close(stdout)
    os.close(stderr)
    with socket.socket(fileno=link_file) as link:
        link.sendall(b"%d\n" % process)
        watch(process, link)
    os._exit(0)


def watch(process: int, link: socket.socket) -> None:
    handle = os.pidfd_open(process)
    ready, _, _ = select.select([handle, link], [], [])
    if handle not in ready:
        os.kill(process, signal.SIGKILL)
    ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    try:
        link.sendall(b"%d\n" % (ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))
        link.recv(1)
    except OSError:
        pass  # the test has closed the link
    os.waitpid(process, 0)


def become(request: dict[str, Any], stdout: int, stderr: int) -> None:
    for file, number in ((stdout, 1), (stderr, 2)):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv[1:] = request["arguments"]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    preload()
    assert threading.active_count() == len(os.listdir("/proc/self/task")) == 1, "a fork would lose the other threads"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by pytest
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are reaped by the kernel
    serve_forks(socket.socket(fileno=int(sys.argv[1])))

    from leveret.cli.main import main as leveret

    leveret()


if __name__ == "__main__":
    main()

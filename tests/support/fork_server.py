"""A process that has imported the whole broker and forks itself for every request to run ``leveret``.

Importing takes most of the start. A forked process is separate: it has its own memory, files, signals and exit, and
kill -9 ends it like any other. It runs ``leveret`` from the parsing of the command line on, or another module as
``python -m`` does, in the folder and the network of the request.

    control socket ->  {"module", "arguments", "environ", "folder"} with stdout, stderr, a network namespace and a link
    link           <-  the process id, then, when it has ended, its exit status as in ``subprocess``
                   ->  nothing; when the other side closes it, the process is killed

Between the fork server and each process there is a keeper process, which alone waits for it. The process stays a zombie
until the link is closed, so that its process id is not reused as long as the test may send it a signal.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

from tests.support.network import CLONE_NEWNET, set_namespace

LEVERET = "leveret.cli.main"
MOST = 1 << 17  # bytes of a request
PRELOADED = (
    *("encodings.idna", "resource", "uvloop", "leveret.cli.data", "leveret.cli.serve", "leveret.node"),
    *("uvicorn", "leveret.http.app", "leveret.api.routes", "leveret.pipeline.routes"),
    *("leveret.cli.many_cells", "leveret.cluster_node", "leveret.replicated_cell"),
)


def preload() -> None:
    """All that ``serve`` imports, and what is built of classes on first use."""
    for name in PRELOADED:
        import_module(name)
    from leveret.cli.main import app

    with suppress(SystemExit):
        app(["serve", "--help"])


def serve_forks(control: socket.socket) -> str:
    """Returns in each new process, with the module to run."""
    while True:
        data, files, _, _ = socket.recv_fds(control, MOST, 4)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            request = json.loads(data)
            keep(request, *files)
            return str(request["module"])
        for file in files:
            os.close(file)


def keep(request: dict[str, Any], stdout: int, stderr: int, network: int, link_file: int) -> None:
    """Returns only in the requested process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        os.close(link_file)
        become(request, stdout, stderr, network)
        return
    for file in (stdout, stderr, network):
        os.close(file)
    with socket.socket(fileno=link_file) as link:
        link.sendall(b"%d\n" % process)
        watch(process, link)
    os._exit(0)


def watch(process: int, link: socket.socket) -> None:
    handle = os.pidfd_open(process)
    ready, _, _ = select.select([handle, link.fileno()], [], [])
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


def become(request: dict[str, Any], stdout: int, stderr: int, network: int) -> None:
    if not os.path.sameopenfile(network, own := os.open("/proc/self/ns/net", os.O_RDONLY)):
        set_namespace(network, CLONE_NEWNET)  # the fork server is in that of the test that has started it
    for file in (network, own):
        os.close(file)
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
    module = serve_forks(socket.socket(fileno=int(sys.argv[1])))
    if module == LEVERET:
        from leveret.cli.main import main as leveret

        leveret()
        return
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

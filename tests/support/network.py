"""A network of its own for a test: a namespace with a loopback device that also has an address outside 127/8.

Threads and processes that start inside it stay in it, so a broker and its clients can talk over an address that is not
loopback, and no packet leaves the machine. Needs root on Linux, and ``ip``.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ADDRESS = "192.0.2.1"  # reserved for documentation: no host has it
CLONE_NEWNET = 0x4000_0000

_libc = ctypes.CDLL(None, use_errno=True)


class Network:
    def __init__(self, *addresses: str) -> None:
        self._namespace = -1
        self._addresses = addresses or (ADDRESS,)
        maker = threading.Thread(target=self._make)
        maker.start()
        maker.join()
        if self._namespace < 0:
            raise OSError("cannot make a network namespace: run as root on Linux")

    def _make(self) -> None:
        _checked(_libc.unshare(CLONE_NEWNET))
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for address in self._addresses:
            length = 128 if ":" in address else 32
            subprocess.run(["ip", "addr", "add", f"{address}/{length}", "dev", "lo"], check=True)
        self._namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What this thread opens or starts meanwhile belongs to the network."""
        outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        set_namespace(self._namespace, CLONE_NEWNET)
        try:
            yield
        finally:
            set_namespace(outside, CLONE_NEWNET)
            os.close(outside)

    def close(self) -> None:
        os.close(self._namespace)


def set_namespace(descriptor: int, kind: int) -> None:
    """Of this thread."""
    _checked(_libc.setns(descriptor, kind))


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

"""Machines with a network between them: a namespace for each, and one for the router, where the test itself runs.

    with Machines(3) as machines, machines.inside():
        subprocess.Popen([*machines[0].prefix, ...])        # on the first machine, whose address is machines[0].host
        machines.cut(0, 1)                                  # nothing arrives from the first at the second
        machines.slow(0, 1, Slowness(0.05, 0.05, 1e6))      # what arrives is late
        machines.heal()

Packets between two machines pass the router, which drops those of a link that was cut. Nothing is answered, as with a
broken cable. Needs root on Linux; a test without that is skipped with a ``kernel:`` reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import TracebackType
from typing import NamedTuple

import pytest

from tests.support.mounts import run
from tests.support.network import CLONE_NEWNET, set_namespace
from tests.support.programs import require_program
from tests.support.slow_link import SlowLink, Slowness

ADDRESS = "198.51.100."  # reserved for documentation: no host has it


class Machine(NamedTuple):
    """``prefix``: of commands that run there. ``network``: the file of its namespace, if it has one of its own."""

    host: str
    prefix: tuple[str, ...] = ()
    network: str = ""


HERE = Machine("127.0.0.1")


class Machines:
    def __init__(self, number: int) -> None:
        self._names = [f"leveret{os.getpid()}m{place}" for place in range(number)]
        self._router = f"leveret{os.getpid()}r"
        self._cuts: list[tuple[str, ...]] = []
        self.slow_links: list[SlowLink] = []

    def __enter__(self) -> Machines:
        if os.geteuid() != 0:
            pytest.skip("kernel: only root may make network namespaces")
        require_program("ip")
        try:
            self._ip("netns", "add", self._router)
            self._ip("-n", self._router, "link", "set", "lo", "up")
            for place, name in enumerate(self._names):
                self._add(place, name)
            with self.inside(), open("/proc/sys/net/ipv4/ip_forward", "w") as file:
                file.write("1")
            self.cut(0, 1)
            self.heal()
        except OSError as problem:
            self._remove()
            pytest.skip(f"kernel: no network of namespaces: {problem}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self._remove()

    def __getitem__(self, place: int) -> Machine:
        name = self._names[place]
        return Machine(self._host(place), ("ip", "netns", "exec", name), f"/run/netns/{name}")

    def __iter__(self) -> Iterator[Machine]:
        return (self[place] for place in range(len(self._names)))

    def _host(self, place: int) -> str:
        return f"{ADDRESS}{4 * place + 2}"

    def _add(self, place: int, name: str) -> None:
        """Each machine has a network of four addresses: its own, and one of the router."""
        link, gateway = f"m{place}", f"{ADDRESS}{4 * place + 1}"
        self._ip("netns", "add", name)
        self._ip("-n", self._router, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._ip("-n", self._router, "addr", "add", f"{gateway}/30", "dev", link)
        self._ip("-n", self._router, "link", "set", link, "up")
        self._ip("-n", name, "addr", "add", f"{self._host(place)}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._ip("-n", name, "link", "set", device, "up")
        self._ip("-n", name, "route", "add", "default", "via", gateway)

    def _remove(self) -> None:
        while self.slow_links:
            self.slow_links.pop().close()
        for name in (*self._names, self._router):
            run("ip", "netns", "delete", name)

    def _ip(self, *arguments: str) -> None:
        done = run("ip", *arguments)
        if done.returncode:
            raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What this thread opens meanwhile reaches the machines."""
        outside, router = (os.open(path, os.O_RDONLY) for path in ("/proc/thread-self/ns/net", self._path))
        try:
            set_namespace(router, CLONE_NEWNET)
            yield
        finally:
            set_namespace(outside, CLONE_NEWNET)
            os.close(outside)
            os.close(router)

    @property
    def _path(self) -> str:
        return f"/run/netns/{self._router}"

    # ---- faults

    def cut(self, source: int, target: int) -> None:
        """Packets from one machine to another are dropped; those in the other direction are not."""
        rule = ("from", self._host(source), "to", self._host(target), "blackhole")
        self._ip("-n", self._router, "rule", "add", *rule)
        self._cuts.append(rule)

    def slow(self, source: int, target: int, slowness: Slowness) -> None:
        """Packets from one machine to another take a way that delays and loses them."""
        device, table = f"slow{len(self.slow_links)}", str(100 + len(self.slow_links))
        try:
            with self.inside():
                self.slow_links.append(SlowLink(device, slowness, Random(1)))
                self._ip("link", "set", device, "up")
                for each in ("all", device):
                    with open(f"/proc/sys/net/ipv4/conf/{each}/rp_filter", "w") as file:
                        file.write("0")
        except OSError as problem:
            pytest.skip(f"kernel: no TUN device: {problem}")
        self._ip("-n", self._router, "route", "add", "default", "dev", device, "table", table)
        rule = ("from", self._host(source), "to", self._host(target), "iif", f"m{source}", "lookup", table)
        self._ip("-n", self._router, "rule", "add", *rule)
        self._cuts.append(rule)

    def isolate(self, place: int) -> None:
        """From the other machines, not from the test."""
        for other in range(len(self._names)):
            if other != place:
                self.cut(place, other)
                self.cut(other, place)

    def heal(self) -> None:
        while self._cuts:
            self._ip("-n", self._router, "rule", "delete", *self._cuts.pop())
        while self.slow_links:
            self.slow_links.pop().close()  # the device ends with it

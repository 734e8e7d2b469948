"""The connections between the cells of a cluster, on their cluster ports.

Every cell but the first keeps one connection to the first, for definitions (cells/definition_feed.py); on it, the first
cell also reports which cells have joined. For each other cell and virtual host with queues there, a cell keeps two
links (cells/home_cell.py). Connections that are lost are made again, to where the cell is then (cell_addresses.py). All
of them are checked once per second: one whose other side sends nothing for several checks is lost too. Requests of the
HTTP API and queues that move have links of their own, which are made when they are needed (cluster/api_links.py,
cluster/copy_links.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol

from leveret.broker.broker import Broker
from leveret.cells.definition_feed import DefinitionFeed
from leveret.cells.definition_requests import FirstCell
from leveret.cells.definition_service import DefinitionService
from leveret.cells.home_cell import HomeCell
from leveret.cells.home_cells import HomeCells
from leveret.cells.link import Link as QueueLink
from leveret.cluster.api_links import API, ApiLinks
from leveret.cluster.api_service import ApiService
from leveret.cluster.cell_addresses import Address, CellAddresses, abort_when_moved
from leveret.cluster.definition_marks import DefinitionMarks
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.errors import ClusterError
from leveret.logs import LogInterval, get_log
from leveret.server.link_protocol import CHECK_INTERVAL, HomeEnd, LinkTransport, NearEnd, Silence
from leveret.session.limits import Limits
from leveret.session.link_connection import LinkConnection

DEFINITIONS, QUEUES = "definitions", "queues"  # requests on the cluster port
PUBLISHING, CONSUMING = "publishing", "consuming"
LARGEST_FRAME = 1 << 30  # all definitions
MOST_UNSENT = 1 << 17  # frames that a cell has not read: it gets everything again
PAUSE = 0.2  # seconds before a connection that was lost is made again
LONGEST_PAUSE = 2.0
QUICK_SECONDS = 30.0  # after which the longer pause is enough
BETWEEN_COUNTS = 1.0  # seconds
BETWEEN_LINES = 5.0  # seconds between two log lines about a cell that cannot be reached


class FrameLink(Protocol):
    """A link with frames as JSON (cluster/link.py) or as MessagePack (cluster/copy_links.py)."""

    @property
    def received(self) -> int:
        """Bytes."""

    async def send(self, frame: Frame) -> None: ...

    def abort(self) -> None: ...


class FrameSender:
    """Sends frames in their order, without waiting in the caller. A link whose other side does not read is closed, and
    the reader of this side finds out."""

    def __init__(self, link: FrameLink, name: str) -> None:
        self.name = name
        self._link = link
        self._silence = Silence()
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()

    def send(self, frame: Frame) -> None:
        if self._frames.qsize() < MOST_UNSENT:
            self._frames.put_nowait(frame)
        else:
            self.abort()

    def is_alive(self) -> bool:
        """Called every CHECK_INTERVAL: whether the other side is. An empty frame is a heartbeat."""
        if self._silence.is_too_long(self._link.received):
            return False
        if self._frames.empty():
            self.send({})
        return True

    def abort(self) -> None:
        self._link.abort()

    async def run(self) -> None:
        with suppress(LinkLost):
            while True:
                await self._link.send(await self._frames.get())


class Tries:
    """To make one connection: quickly at first, as after a take-over, and less often to a cell that stays away."""

    def __init__(self) -> None:
        self._since = asyncio.get_running_loop().time()

    @property
    def pause(self) -> float:
        """Seconds before the next one."""
        is_quick = asyncio.get_running_loop().time() - self._since < QUICK_SECONDS
        return PAUSE if is_quick else LONGEST_PAUSE


class CellMembers(Protocol):
    """Follows which other cells are connected (sharding/membership.py)."""

    def joined(self, cell: str) -> None: ...

    def parted(self, cell: str) -> None:
        """Called in the first cell only."""


class CellLinks:
    """One of ``feed`` with ``service`` (the first cell) and ``first`` is given."""

    def __init__(
        self,
        broker: Broker,
        peer: Peer,
        homes: HomeCells,
        limits: Limits,
        members: CellMembers,
        addresses: CellAddresses,
        *,
        feed: DefinitionFeed | None = None,
        service: DefinitionService | None = None,
        first: FirstCell | None = None,
    ) -> None:
        self.cells: dict[str, Address] = {}  # those that have joined, as they were reported
        self.compared = asyncio.Event()  # the definitions are those of the first cell
        self._broker = broker
        self._peer = peer
        self._homes = homes
        self._limits = limits
        self._feed, self._service, self._first = feed, service, first
        self._members = members
        self._addresses = addresses
        self._senders: dict[str, FrameSender] = {}
        self._epochs: dict[str, int] = {}  # the highest of each cell that has connected
        self._epoch = 0
        self._marks = DefinitionMarks()
        self.api = ApiService(self._marks, self._mark)
        self.api_links = ApiLinks(peer, self._marks, addresses.of, self._mark)
        self._tasks: set[asyncio.Task[None]] = set()
        self.ends: set[LinkTransport | FrameSender] = set()  # checked for heartbeats
        self.is_started = self._is_stopped = False
        self._log = get_log("cells").bind(cell=peer.node)

    @property
    def services(self) -> Mapping[str, Callable[[Link, Frame], Awaitable[None]]]:
        """For the cluster port."""
        return {DEFINITIONS: self._serve_definitions, QUEUES: self._serve_queues, API: self.api.serve}

    def start(self, address: Address, epoch: int = 0) -> None:
        """``address``: of the own cluster port. ``epoch``: in which this node leads, if the cell is replicated."""
        self.is_started = True
        self._epoch = epoch
        self._homes.watch(self._home_added)
        self._start(self._check())
        if self._first is not None:
            self._start(self._follow(self._first, address))
            self._start(self._report_counts(self._first))

    async def stop(self) -> None:
        self._is_stopped = True
        self.api_links.close()
        for end in list(self.ends):
            end.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            for end in list(self.ends):
                if not end.is_alive():
                    self._log.warning("connection between cells lost: the other cell does not answer", link=end.name)
                    end.abort()

    # ---- definitions: the first cell

    async def _serve_definitions(self, link: Link, request: Frame) -> None:
        feed, service, cell = self._feed, self._service, str(request["node"])
        if feed is None or service is None:
            raise ClusterError(f"cell {self._peer.node} is not the first")
        self._refuse_former_leader(cell, int(request.get("epoch", 0)))
        await link.send({})
        sender = FrameSender(link, f"cell {cell} (definitions) -> cell {self._peer.node}")
        self._senders[cell] = sender
        self.ends.add(sender)
        self._marks.forget(cell)
        self._note({cell: (str(request["host"]), int(request["port"]))})
        self._log.info("cell connected", other=cell)
        feed.join(cell, sender.send)
        self._tell_addresses(cell)
        sending = asyncio.create_task(sender.run())
        try:
            while True:
                frame = await link.receive(LARGEST_FRAME)
                if self._senders.get(cell) is not sender:  # requests that the cell has given up
                    break
                if "to" in frame:
                    self._pass_on_mark(cell, frame)
                elif "mark" in frame:
                    self._marks.arrived(cell, frame["mark"])
                elif frame:
                    service.handle(cell, frame, sender.send)
        finally:
            self.ends.discard(sender)
            feed.leave(cell, sender.send)
            if self._senders.get(cell) is sender:
                del self._senders[cell]
                service.lost(cell)
                self._members.parted(cell)
                self.api_links.forget(cell)
            sending.cancel()
            self._log.info("cell disconnected", other=cell)

    def _refuse_former_leader(self, cell: str, epoch: int) -> None:
        """One that is cut off from the engine may connect again; a later one takes its place."""
        if epoch < self._epochs.get(cell, 0):
            raise ClusterError(f"cell {cell} has a later leader")
        self._epochs[cell] = epoch
        if (former := self._senders.pop(cell, None)) is not None:
            former.abort()
            if self._service is not None:
                self._service.lost(cell)

    def _note(self, cells: dict[str, Address]) -> None:
        self.cells |= cells
        self._addresses.reported(cells)
        for cell in cells:
            self._members.joined(cell)

    def _tell_addresses(self, joined: str) -> None:
        for cell, sender in self._senders.items():
            others = {name: list(address) for name, address in self.cells.items() if name != cell}
            sender.send({"cells": others, "joined": joined})

    def _mark(self, cell: str) -> int | None:
        """Put a mark behind the definitions that were sent to a cell; None if it is not connected. Two cells that are
        not the first get their definitions from it, and so their marks. While it is away, nothing changes: there is
        nothing to wait for."""
        if self._first is None or cell == self._first.name:
            sender, to = self._senders.get(cell), {}
        elif (sender := self._senders.get(self._first.name)) is None:
            return 0
        else:
            to = {"to": cell}
        if sender is None:
            return None
        mark = self._marks.make()
        sender.send({"mark": mark, **to})
        return mark

    def _pass_on_mark(self, cell: str, frame: Frame) -> None:
        if (sender := self._senders.get(str(frame["to"]))) is not None:
            sender.send({"mark": frame["mark"], "of": cell})

    # ---- definitions: the other cells

    async def _follow(self, first: FirstCell, address: Address) -> None:
        lines, tries = LogInterval(BETWEEN_LINES), Tries()
        details: Frame = {"host": address[0], "port": address[1], "epoch": self._epoch}
        while True:
            there = self._addresses.of(first.name)
            if there is not None:
                try:
                    link = await open_link(there, self._peer, DEFINITIONS, **details)
                    await self._exchange(first, link, there)
                    tries = Tries()
                except (OSError, LinkLost, LinkRefused) as problem:
                    if lines.is_due(asyncio.get_running_loop().time()):
                        self._log.warning("the first cell cannot be reached", reason=str(problem))
                except Exception:  # noqa: BLE001 - connect again
                    self._log.exception("internal error on the connection to the first cell")
            await self._addresses.changed(first.name, there, tries.pause)

    async def _report_counts(self, first: FirstCell) -> None:
        while True:
            await asyncio.sleep(BETWEEN_COUNTS)
            first.report_counts()

    async def _exchange(self, first: FirstCell, link: Link, there: Address) -> None:
        sender = FrameSender(link, f"cell {self._peer.node} (definitions) -> cell {first.name}")
        self.ends.add(sender)
        sending = asyncio.create_task(sender.run())
        moving = asyncio.create_task(abort_when_moved(self._addresses, first.name, there, link.abort))
        first.connected(sender.send)
        self._senders[first.name] = sender
        self._marks.forget_all()
        try:
            while True:
                frame = await link.receive(LARGEST_FRAME)
                if "mark" in frame:
                    self._marks.arrived(str(frame.get("of", first.name)), frame["mark"])
                elif "cells" in frame:
                    others = {name: (str(host), int(port)) for name, (host, port) in frame["cells"].items()}
                    self._note({first.name: there, **others})
                    self._marks.forget(frame.get("joined", ""))
                    self.api_links.forget(frame.get("joined", ""))
                elif frame:
                    first.receive(frame)
                    if first.is_current:
                        self.compared.set()
        except LinkLost as problem:
            if not self._is_stopped:
                self._log.warning("connection to the first cell lost", reason=str(problem))
        finally:
            self.ends.discard(sender)
            first.lost()
            self._senders.pop(first.name, None)
            sending.cancel()
            moving.cancel()
            link.close()

    # ---- queues: the cell where they live

    async def _serve_queues(self, link: Link, request: Frame) -> None:
        if not self.is_started:
            raise ClusterError(f"cell {self._peer.node} is starting")  # its queues may have moved
        vhost = self._broker.vhosts.get(str(request["vhost"]))
        if vhost is None:
            raise ClusterError(f"cell {self._peer.node} has no virtual host {request['vhost']!r}")
        cell, name = str(request["node"]), f"cell {request['node']} ({request['purpose']}) -> cell {self._peer.node}"
        epoch = int(request.get("epoch", 0))
        former = self._former_ends(cell, f"{name}, virtual host {vhost.name}", epoch)
        await link.send({})

        def open_session(end: HomeEnd) -> LinkConnection:
            session = LinkConnection(self._broker, end, self._limits, name, vhost, cell)
            self._broker.registry.add(session)
            self.ends.add(end)
            return session

        end = HomeEnd(open_session, lambda: self.ends.discard(end))
        end.name, end.epoch = f"{name}, virtual host {vhost.name}", epoch
        for each in former:
            each.abort()  # its loss was noticed there and not here: what it holds must be free for the new one
        await asyncio.get_running_loop().connect_accepted_socket(lambda: end, link.detach())

    def _former_ends(self, cell: str, name: str, epoch: int) -> list[HomeEnd]:
        """Of the same link. A former leader of the cell must not replace the link of the present one."""
        former = [each for each in self.ends if isinstance(each, HomeEnd) and each.name == name]
        if any(each.epoch > epoch for each in former):
            raise ClusterError(f"cell {cell} has a later leader")
        return former

    # ---- queues: the other cells

    def _home_added(self, vhost: str, home: HomeCell) -> None:
        for purpose, link in ((PUBLISHING, home.publishing), (CONSUMING, home.consuming)):
            self._start(self._keep(vhost, home, purpose, link))

    async def _keep(self, vhost: str, home: HomeCell, purpose: str, link: QueueLink) -> None:
        lines, tries = LogInterval(BETWEEN_LINES), Tries()
        while self._homes.has(vhost, home):
            address = self._addresses.of(home.name)
            is_removed = not home.queues and home.name in self._broker.cells.leaving
            if address is not None and not is_removed:
                try:
                    await self._connect(address, vhost, home, purpose, link)
                    tries = Tries()
                except (OSError, LinkLost, LinkRefused) as problem:
                    if lines.is_due(asyncio.get_running_loop().time()):
                        self._log.warning("another cell cannot be reached", other=home.name, reason=str(problem))
                except Exception:  # noqa: BLE001 - connect again
                    self._log.exception("internal error on a link to another cell", other=home.name)
            await self._addresses.changed(home.name, address, tries.pause)
        self._homes.forget(vhost, home)

    async def _connect(self, address: Address, vhost: str, home: HomeCell, purpose: str, link: QueueLink) -> None:
        """Until the link is lost."""
        accepted = await open_link(address, self._peer, QUEUES, vhost=vhost, purpose=purpose, epoch=self._epoch)
        lost = asyncio.Event()
        end = NearEnd(link, lost.set)
        end.name = f"cell {self._peer.node} ({purpose}) -> cell {home.name}, virtual host {vhost}"
        await asyncio.get_running_loop().create_connection(lambda: end, sock=accepted.detach())
        self.ends.add(end)
        moving = asyncio.create_task(abort_when_moved(self._addresses, home.name, address, end.abort))
        try:
            if home.is_up:
                home.link_is_up()
                self._broker.wake()
            await lost.wait()
        finally:
            moving.cancel()
            self.ends.discard(end)
            end.abort()

"""Reads the log from a position on, as it grows: for standbys, and for a node that has claimed.

An ordered consumer of the engine pushes the records. Deliveries are numbered: a missing number means that a delivery
was lost, and a new consumer is made behind the last record that was read. The engine sends a heartbeat every second
while there is nothing else to send.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from nats.aio.msg import Msg

from leveret.cluster.cell_stream import NANOSECONDS, CellStream, LogFacts, read_log
from leveret.cluster.engine import Engine, EngineConnection, EngineRefusal, EngineUnavailable
from leveret.cluster.log_faults import REFOUND, OtherLog, SnapshotNeeded
from leveret.logs import LogInterval, get_log
from leveret.replication.claims import Claim
from leveret.replication.log_reader import Completed, LogReader

HEARTBEAT = 1.0
SILENCE = 3.0  # seconds without anything from the engine: attach again
MOST_IDLE = 2  # heartbeats in a row while records are pending: a node that waits for them would never take over
PAUSE = 0.1
BETWEEN_LINES = 5.0  # seconds between two log lines about an engine that cannot be reached
STATUS, CONTROL = "Status", "100"
STALLED, LAST_DELIVERY = "Nats-Consumer-Stalled", "Nats-Last-Consumer"


class TailListener(Protocol):
    """Called for each record in the order of the log. The next one waits until the call returns."""

    async def claimed(self, claim: Claim) -> None:
        """A leader epoch begins."""

    async def completed(self, batch: Completed) -> None:
        """All parts of a batch were read."""


class LogTail:
    """``await run()`` reads until it is cancelled. Raises ClusterError when this member cannot follow the log."""

    def __init__(self, engine: Engine, stream: CellStream, reader: LogReader, listener: TailListener) -> None:
        self.reader = reader
        self.behind: int | None = None  # records that the engine has not delivered yet; None: not attached
        self._engine = engine
        self._stream = stream
        self._listener = listener
        self._deliveries = 0
        self._idle = 0  # heartbeats since the last delivery
        self._heard = 0.0
        self._is_busy = False
        self._over: asyncio.Future[None] | None = None
        self._lines = LogInterval(BETWEEN_LINES)
        self._log = get_log("cluster").bind(cell=stream.cell)

    async def run(self) -> None:
        while True:
            try:
                connection = await self._engine.connect()
            except EngineUnavailable as problem:
                if self._lines.is_due(asyncio.get_running_loop().time()):
                    self._log.warning("no server of the engine can be reached", reason=str(problem))
                await asyncio.sleep(PAUSE)
                continue
            try:
                await self._follow(connection)
            except EngineUnavailable as problem:
                self._log.info("reading the log from another server", server=connection.url, reason=str(problem))
                await asyncio.sleep(PAUSE)
            finally:
                self.behind = None
                await connection.close()

    async def _follow(self, connection: EngineConnection) -> None:
        loop = asyncio.get_running_loop()
        self._over = over = loop.create_future()
        self._deliveries, self._idle, self._heard, self._is_busy = 0, 0, loop.time(), False
        inbox = connection.new_inbox()
        await connection.receive(inbox, lambda message: self._received(connection, message, over))
        await self._attach(connection, inbox)
        while not over.done():
            await asyncio.wait((over,), timeout=SILENCE / 6)
            if connection.lost.is_set() or (not self._is_busy and loop.time() - self._heard > SILENCE):
                raise EngineUnavailable("connection lost" if connection.lost.is_set() else "no heartbeat")
        over.result()

    async def _attach(self, connection: EngineConnection, inbox: str) -> None:
        read = self.reader.position.sequence
        check_log(await read_log(connection, self._stream), self._stream, read)
        try:
            created = await connection.request(
                f"$JS.API.CONSUMER.CREATE.{self._stream.name}", self._consumer(inbox, read + 1)
            )
        except EngineRefusal as refusal:  # the stream was deleted just now: the next attempt finds out
            raise EngineUnavailable(str(refusal)) from refusal
        if not self._deliveries:  # which may arrive before this answer
            self.behind = int(created.get("num_pending", 0))

    def _consumer(self, inbox: str, start: int) -> dict[str, Any]:
        config = {
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": start,
            "ack_policy": "none",
            "max_deliver": 1,
            "num_replicas": 1,
            "mem_storage": True,
            "flow_control": True,
            "idle_heartbeat": int(HEARTBEAT * NANOSECONDS),
            "inactive_threshold": 10 * NANOSECONDS,
        }
        return {"stream_name": self._stream.name, "config": config}

    async def _received(self, connection: EngineConnection, message: Msg, over: asyncio.Future[None]) -> None:
        if over.done():
            return
        self._heard = asyncio.get_running_loop().time()
        self._is_busy = True
        try:
            await self._handle(connection, message)
        except Exception as problem:  # nats-py would only report it: the next record would be read without this one
            over.set_exception(problem)
            raise
        finally:
            self._is_busy = False

    async def _handle(self, connection: EngineConnection, message: Msg) -> None:
        headers = message.headers or {}
        if headers.get(STATUS) == CONTROL:
            if reply := message.reply or headers.get(STALLED):
                await connection.publish(reply, b"")  # flow control: all before this was handled
            else:
                self._idle += 1
            if int(headers.get(LAST_DELIVERY, self._deliveries)) != self._deliveries:
                raise EngineUnavailable("deliveries were lost")
            if self.behind and self._idle >= MOST_IDLE:
                raise EngineUnavailable(f"{self.behind} records are pending, and are not delivered")
            return
        metadata = message.metadata
        self._idle = 0
        self._deliveries += 1
        if metadata.sequence.consumer != self._deliveries:
            raise EngineUnavailable("deliveries were lost")
        event = self.reader.read(metadata.sequence.stream, message.data)
        if isinstance(event, Claim):
            await self._listener.claimed(event)
        elif event is not None:
            await self._listener.completed(event)
        self.behind = metadata.num_pending


def check_log(found: LogFacts, stream: CellStream, read: int) -> None:
    """Whether the log can be read behind record ``read``. Raises OtherLog or SnapshotNeeded."""
    if found.stream.log != stream.log:
        raise OtherLog(
            f"the stream {stream.name} has the log {found.stream.log or 'without an id'}, but this node follows "
            f"{stream.log or 'one without an id'}: start the NATS servers with the data directories that they had, or "
            f"{REFOUND}"
        )
    if found.last < read:
        raise OtherLog(
            f"the stream {stream.name} ends at record {found.last}, but this node has read record {read}: the engine "
            f"has lost data. Start the NATS servers with the data directories that they had, or {REFOUND}"
        )
    if found.first > read + 1:
        raise SnapshotNeeded(f"records {read + 1} to {found.first - 1} are not in the replicated log any more")

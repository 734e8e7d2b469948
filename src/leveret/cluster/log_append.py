"""The leader's appends, between the window (replication/append_window.py) and the engine."""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol

from nats.aio.msg import Msg

from leveret.cluster.cell_stream import CellStream, read_log
from leveret.cluster.engine import (
    WRONG_SEQUENCE,
    Engine,
    EngineConnection,
    EngineRefusal,
    EngineUnavailable,
    decode_answer,
)
from leveret.cluster.engine_checks import payload_problem
from leveret.cluster.log_faults import LogFault
from leveret.logs import LogInterval, get_log
from leveret.replication.append_window import AppendWindow, Read, Send, Token
from leveret.replication.claims import ClaimAttempt, Position

LEADER_SECONDS = 0.5
ANSWER_SECONDS = 2.0  # without an answer, the log is read
PAUSE = 0.05  # seconds before a request that failed is repeated
TICK = 0.5
BETWEEN_REFUSALS = 5.0  # seconds between two log lines about appends that are not stored
EXPECTED = "Nats-Expected-Last-Sequence"
MESSAGE_ID = "Nats-Msg-Id"


class AppendListener(Protocol[Token]):
    def granted(self, tokens: list[Token]) -> None:
        """These batches are in the log, in this order."""

    def deposed(self, reason: str) -> None:
        """No batch will be granted any more."""


class LogAppender(Generic[Token]):
    """``await run()`` appends until another node leads."""

    def __init__(
        self, engine: Engine, stream: CellStream, window: AppendWindow[Token], listener: AppendListener[Token]
    ) -> None:
        self.server = ""  # to which appends go
        self.waiting_since: float | None = None  # when the engine last answered, if it owes an answer
        self._engine = engine
        self._stream = stream
        self._window = window
        self._listener = listener
        self._wake = asyncio.Event()
        self._refusals = LogInterval(BETWEEN_REFUSALS)
        self._failure: Exception | None = None  # of the listener
        self._log = get_log("cluster").bind(cell=stream.cell, epoch=window.epoch)

    def has_room(self, size: int) -> bool:
        return self._window.has_room(size)

    @property
    def position(self) -> Position:
        """Of the last batch that was granted."""
        return self._window.position

    @property
    def granted_bytes(self) -> int:
        return self._window.granted_bytes

    @property
    def is_idle(self) -> bool:
        return self._window.is_idle

    def append(self, body: bytes, token: Token) -> None:
        if self.waiting_since is None:
            self.waiting_since = asyncio.get_running_loop().time()
        self._window.append(body, token)
        self._wake.set()

    async def run(self) -> None:
        while self._window.deposed is None:
            try:
                connection = await self._connect()
            except EngineUnavailable as problem:
                self._warn("no server of the engine can be reached", str(problem))
                await asyncio.sleep(TICK)
                continue
            try:
                if (limit := payload_problem(connection.url, connection.max_payload)) is not None:
                    self._warn("the engine does not store the journal", limit)
                    await asyncio.sleep(TICK)
                    continue
                await self._serve(connection)
            except EngineUnavailable as problem:
                self._log.info("changing to another server of the engine", server=connection.url, reason=str(problem))
                await asyncio.sleep(PAUSE)
            finally:
                await connection.close()
        self._listener.deposed(self._window.deposed)

    async def _connect(self) -> EngineConnection:
        """To the server that leads the stream, if there is one now: by way of another, an append takes longer."""
        connection = await self._engine.connect()
        leader = await self._leading_server(connection)
        for _ in self._engine.options.urls:
            if leader in ("", connection.server):
                break
            await connection.close()
            connection = await self._engine.connect()
        return connection

    async def _leading_server(self, connection: EngineConnection) -> str:
        try:
            return (await read_log(connection, self._stream, LEADER_SECONDS)).server
        except (EngineUnavailable, LogFault):
            return ""
        except asyncio.CancelledError:
            await connection.close()
            raise

    async def _serve(self, connection: EngineConnection) -> None:
        """Until the connection is lost, or this node is deposed."""
        self.server = connection.server
        inbox = connection.new_inbox()
        await connection.receive(f"{inbox}.>", lambda message: self._answered(message, len(inbox) + 1))
        watch = asyncio.create_task(self._watch(connection))
        try:
            self._window.reconnect()
            while self._window.deposed is None:
                for work in self._window.take_work():
                    if isinstance(work, Send):
                        await self._send(connection, work, inbox)
                    else:
                        await self._read(connection, work)
                await self._wake.wait()
                self._wake.clear()
                if self._failure is not None:
                    raise self._failure
                if connection.lost.is_set():
                    raise EngineUnavailable("connection lost")
        finally:
            watch.cancel()

    async def _watch(self, connection: EngineConnection) -> None:
        """Wake the sender when the connection is lost, or when answers are overdue."""
        loop = asyncio.get_running_loop()
        while not connection.lost.is_set():
            try:
                await asyncio.wait_for(connection.lost.wait(), TICK)
            except TimeoutError:
                if self.waiting_since is not None and loop.time() - self.waiting_since > ANSWER_SECONDS:
                    self._look()
        self._wake.set()

    async def _send(self, connection: EngineConnection, send: Send, inbox: str) -> None:
        headers = {MESSAGE_ID: send.message_id, EXPECTED: str(send.sequence - 1)}
        await connection.publish(self._stream.subject, send.payload, f"{inbox}.{send.message_id}", headers)

    async def _read(self, connection: EngineConnection, read: Read) -> None:
        try:
            payload = await connection.read(self._stream.name, read.sequence)
        except EngineRefusal as refusal:
            raise EngineUnavailable(str(refusal)) from refusal
        if payload is None:
            await asyncio.sleep(PAUSE)  # an earlier append may still be on its way
        self._granted(self._window.found(read.sequence, payload))
        self._wake.set()

    async def _answered(self, message: Msg, prefix: int) -> None:
        try:
            sequence = int(decode_answer(message)["seq"])
        except EngineRefusal as refusal:
            if refusal.code in WRONG_SEQUENCE:
                self._look()
            else:
                self._look_later(str(refusal))
        except EngineUnavailable as problem:
            self._look_later(str(problem))
        else:
            self.waiting_since = asyncio.get_running_loop().time()
            self._granted(self._window.acknowledge(message.subject[prefix:], sequence))
            self._wake.set()

    def _warn(self, text: str, reason: str) -> None:
        if self._refusals.is_due(asyncio.get_running_loop().time()):
            self._log.warning(text, reason=reason)

    def _look_later(self, reason: str) -> None:
        self._warn("the engine does not store the journal", reason)
        asyncio.get_running_loop().call_later(PAUSE, self._look)

    def _look(self) -> None:
        self._window.look()
        self._wake.set()

    def _granted(self, tokens: list[Token]) -> None:
        if self._window.is_idle:
            self.waiting_since = None
        if tokens:
            try:
                self._listener.granted(tokens)
            except Exception as problem:  # nats-py would only report it
                self._failure = problem
                self._wake.set()
                raise


async def append_claim(connection: EngineConnection, stream: CellStream, attempt: ClaimAttempt) -> bool | None:
    """Whether the claim is stored; None if that is not known. The log has the final word: read on."""
    try:
        sequence = await connection.append(stream.subject, attempt.payload, {EXPECTED: str(attempt.expected)})
    except EngineRefusal as refusal:
        return False if refusal.code in WRONG_SEQUENCE else None
    except EngineUnavailable:
        return None
    return sequence == attempt.expected + 1

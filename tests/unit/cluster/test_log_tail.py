"""What the tail of a log concludes from the heartbeats of the engine."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import Engine, EngineOptions, EngineUnavailable
from leveret.cluster.log_tail import LogTail
from leveret.replication.claims import Claim, Position
from leveret.replication.log_reader import Completed, LogReader

STREAM = CellStream.of("orders")


class Nothing:
    async def claimed(self, claim: Claim) -> None: ...

    async def completed(self, batch: Completed) -> None: ...


class Connection:
    def __init__(self) -> None:
        self.answered: list[str] = []

    async def publish(self, subject: str, payload: bytes) -> None:
        self.answered.append(subject)


def tail(behind: int) -> Any:
    made = LogTail(Engine(EngineOptions(()), "test"), STREAM, LogReader(STREAM.id, Position()), Nothing())
    made.behind = behind
    return made


def heartbeat(**headers: str) -> Any:
    return SimpleNamespace(headers={"Status": "100", "Nats-Last-Consumer": "0", **headers}, reply="", data=b"")


def record(sequence: int, pending: int) -> Any:
    numbers = SimpleNamespace(consumer=sequence, stream=sequence)
    metadata = SimpleNamespace(sequence=numbers, num_pending=pending)
    return SimpleNamespace(headers=None, reply="", data=b"of another program", metadata=metadata)


def handle(tail: Any, *messages: Any) -> Connection:
    connection = Connection()

    async def run() -> None:
        for message in messages:
            await tail._handle(connection, message)

    asyncio.run(run())
    return connection


def test_idle_heartbeats_while_records_are_pending_end_the_consumer() -> None:
    with pytest.raises(EngineUnavailable, match="3 records are pending, and are not delivered"):
        handle(tail(3), heartbeat(), heartbeat())


def test_one_heartbeat_may_come_before_the_records() -> None:
    reading = tail(1)
    handle(reading, heartbeat(), record(1, 0))
    assert reading.behind == 0
    handle(reading, *[heartbeat(**{"Nats-Last-Consumer": "1"})] * 5)


def test_heartbeats_of_a_consumer_that_waits_for_this_node_are_answered() -> None:
    stalled = heartbeat(**{"Nats-Consumer-Stalled": "$JS.FC.answer"})
    assert handle(tail(3), *[stalled] * 5).answered == ["$JS.FC.answer"] * 5


def test_a_missing_delivery_ends_the_consumer() -> None:
    with pytest.raises(EngineUnavailable, match="deliveries were lost"):
        handle(tail(0), heartbeat(**{"Nats-Last-Consumer": "1"}))

"""A node whose journal is replicated, with a log in the test's hands: nothing is confirmed before the log has it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from errno import ENOSPC
from pathlib import Path

import pytest

from leveret.client import ClientError, Properties, connect
from leveret.config import Settings
from leveret.errors import StoreError
from leveret.node import Node
from leveret.store.files import Files
from leveret.store.replica import Replica
from tests.support.cell_log import until
from tests.support.held_log import HeldLog, journal_of, play, url_of

PERSISTENT = Properties(delivery_mode=2)


def stored_queues(folder: Path) -> list[tuple[str]]:
    """By a connection of its own: the broker's is used by its writer."""
    with closing(sqlite3.connect(f"file:{folder / 'meta.db'}?mode=ro", uri=True)) as db:
        return db.execute("SELECT name FROM queues").fetchall()


def test_a_confirm_waits_for_the_log_while_the_local_write_does_not(tmp_path: Path) -> None:
    async def story(node: Node, log: HeldLog) -> None:
        async with await connect(url_of(node)) as connection:
            channel = await connection.channel()
            await channel.declare_queue("q", durable=True)
            await channel.confirm_select()
            log.is_held = True
            confirm = asyncio.create_task(channel.publish(b"held back", "", "q", PERSISTENT))
            await until(lambda: any(b"held back" in data for data in journal_of(tmp_path).values()))
            assert not confirm.done()
            log.is_held = False
            log.grant()
            await confirm

    play(tmp_path, story)


def test_a_definition_is_stored_here_only_after_the_log_has_it(tmp_path: Path) -> None:
    async def story(node: Node, log: HeldLog) -> None:
        async with await connect(url_of(node)) as connection:
            channel = await connection.channel()
            log.is_held = True
            number = len(log.bodies)
            declared = asyncio.create_task(channel.declare_queue("q", durable=True))
            await until(lambda: len(log.bodies) > number)
            assert stored_queues(tmp_path) == []
            assert not declared.done()
            log.is_held = False
            log.grant()
            await declared
            assert stored_queues(tmp_path) == [("q",)]

    play(tmp_path, story)


def test_a_deposed_leader_confirms_nothing(tmp_path: Path) -> None:
    async def story(node: Node, log: HeldLog) -> None:
        connection = await connect(url_of(node))
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)
        await channel.confirm_select()
        log.is_held = True
        number = len(log.bodies)
        confirm = asyncio.create_task(channel.publish(b"never granted", "", "q", PERSISTENT))
        await until(lambda: len(log.bodies) > number)
        log.replicator.stop("another node leads")
        log.grant()
        with pytest.raises(ClientError):
            await confirm
        await connection.close()

    assert play(tmp_path, story).reasons == []


def test_a_deposed_leader_delivers_nothing(tmp_path: Path) -> None:
    async def story(node: Node, log: HeldLog) -> None:
        connection = await connect(url_of(node))
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)
        await channel.confirm_select()
        for body in (b"1", b"2"):
            await channel.publish(body, "", "q", PERSISTENT)
        await channel.qos(1)
        async with await channel.consume("q") as consumer:
            first = await consumer.next(20)
            assert first is not None
            log.replicator.stop("another node leads")
            node.broker.resume_deliveries()
            channel.ack(first.delivery_tag)
            queue = node.broker.vhost("/").queues["q"]
            await until(lambda: not queue.unacked and not queue.dirty)
            assert queue.ready == 1
        await connection.close()

    play(tmp_path, story)


def test_a_leader_that_is_deposed_while_it_starts_does_not_wait(tmp_path: Path) -> None:
    async def run() -> None:
        log = HeldLog()
        log.is_held = True
        node = Node(Settings(data_dir=tmp_path, amqp_port=0, http_port=None, shutdown_timeout=2.0))
        assert node.store is not None
        node.store.replicator = log.replicator
        starting = asyncio.create_task(node.start())
        await until(lambda: bool(log.bodies and journal_of(tmp_path)))  # the writer's thread begins the first segment
        assert not starting.done()
        log.replicator.stop("another node leads")
        await asyncio.wait((starting,), timeout=20)
        assert starting.done()
        if starting.exception() is None:
            await node.stop()
        replica = Replica(tmp_path, "c")
        with pytest.raises(StoreError, match="in no cell"):  # and not: in use
            replica.open()

    asyncio.run(run())


def test_a_leader_whose_disk_fails_steps_down_and_confirms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Node, log: HeldLog) -> None:
        connection = await connect(url_of(node))
        channel = await connection.channel()
        await channel.declare_queue("q", durable=True)
        await channel.confirm_select()

        def fail(self: Files, handle: int, buffers: Sequence[bytes]) -> None:
            raise OSError(ENOSPC, "No space left on device")

        monkeypatch.setattr(Files, "append", fail)
        with pytest.raises(ClientError):
            await channel.publish(b"never granted", "", "q", PERSISTENT)
        await connection.close()

    assert play(tmp_path, story).reasons == ["the disk of this node failed (No space left on device)"]

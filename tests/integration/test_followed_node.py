"""The data directory of a member that follows a replicated node: the same journal, definitions, streams and indexes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest

from leveret.client import Properties, connect
from leveret.node import Node
from leveret.replication.batches import decode_batch
from leveret.store.checkpoint import checkpoint_path
from leveret.store.comparison import differences
from leveret.store.data_dir import read_lineage
from leveret.store.definitions import Definitions
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.files import Files
from leveret.store.recovery import recover
from leveret.store.replica import Replica
from leveret.store.replica_note import ReplicaNote, write_note
from leveret.store.store import Store
from leveret.store.stream_files import StreamFiles, StreamRun
from tests.support.cell_log import until
from tests.support.held_log import HeldLog, journal_of, play, url_of
from tests.support.replicated_streams import messages_of, replica_streams

PERSISTENT = Properties(delivery_mode=2)


def test_the_log_makes_the_same_data_directory(tmp_path: Path) -> None:
    async def story(node: Node, log: HeldLog) -> None:
        async with await connect(url_of(node)) as connection:
            channel = await connection.channel()
            for name in ("one", "two"):
                await channel.declare_queue(name, durable=True)
            await channel.confirm_select()
            for n in range(50):
                await channel.publish(b"%d" % n * 100, "", "one" if n % 2 else "two", PERSISTENT)
            for _ in range(10):
                fetched = await channel.get("one")
                assert fetched is not None
                channel.ack(fetched.delivery_tag)
            await channel.delete_queue("two")

    log = play(tmp_path / "leader", story)
    replica = Replica(tmp_path / "replica", "c")
    replica.open()
    for body in log.bodies:
        replica.apply(*decode_batch(body))
    replica.close()
    assert journal_of(tmp_path / "replica") == journal_of(tmp_path / "leader")
    definitions = []
    for name in ("leader", "replica"):
        db = DefinitionsDb(tmp_path / name / "meta.db")
        definitions.append(db.load())
        db.close()
    assert definitions[0] == definitions[1]
    applied = log.replicator.applied
    assert applied is not None
    assert applied.position == log.position


STREAM = {"x-queue-type": "stream"}


def apply_all(folder: Path, log: HeldLog) -> None:
    """What a member does that follows the log from its note on."""
    replica = Replica(folder, "c")
    for body in log.bodies[replica.open().batch :]:
        replica.apply(*decode_batch(body))
    replica.keep(*log.position)
    replica.close()


def test_the_log_makes_the_same_streams(tmp_path: Path) -> None:
    async def story(node: Node, log: HeldLog) -> None:
        async with await connect(url_of(node)) as connection:
            channel = await connection.channel()
            for name in ("one", "two", "deleted"):
                await channel.declare_queue(name, durable=True, arguments=STREAM)
            await channel.confirm_select()
            for n in range(60):
                await channel.publish(b"%d" % n * 100, "", ("one", "two", "deleted")[n % 3])
            await channel.delete_queue("deleted")
            await until(lambda: is_noted(log, len(log.bodies)))  # all is in the files

    log = play(tmp_path / "leader", story)
    apply_all(tmp_path / "replica", log)
    found = messages_of(replica_streams(tmp_path / "replica"))
    assert found == messages_of(replica_streams(tmp_path / "leader"))
    assert [len(messages) for messages in found.values()] == [20, 20]


def test_a_killed_leader_that_follows_completes_its_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream files were behind its journal: its note is not ahead of them, so the log has what is missing."""
    leader, killed, append = tmp_path / "leader", tmp_path / "killed", StreamFiles.append
    may_write = Event()
    may_write.set()

    def slow(self: StreamFiles, runs: Sequence[StreamRun]) -> None:
        may_write.wait()
        append(self, runs)

    monkeypatch.setattr(StreamFiles, "append", slow)

    async def story(node: Node, log: HeldLog) -> None:
        async with await connect(url_of(node)) as connection:
            channel = await connection.channel()
            await channel.declare_queue("s", durable=True, arguments=STREAM)
            await channel.confirm_select()
            for n in range(20):
                await channel.publish(b"%d" % n, "", "s")
            await until(lambda: is_noted(log, len(log.bodies)))
            may_write.clear()
            noted = len(log.bodies)
            for n in range(20, 40):
                await channel.publish(b"%d" % n, "", "s")
            applied = log.replicator.applied
            assert applied is not None
            assert applied.position.batch <= noted + 1  # a batch of settles may be in between
            shutil.copytree(leader, killed)
            write_note(killed, ReplicaNote("c", *applied.position, *applied.end))
            may_write.set()
            await until(lambda: is_noted(log, len(log.bodies)))  # all is in the files

    log = play(leader, story)
    assert [len(messages) for messages in messages_of(replica_streams(killed)).values()] == [20]
    apply_all(killed, log)
    found = messages_of(replica_streams(killed))
    assert found == messages_of(replica_streams(leader))
    assert [len(messages) for messages in found.values()] == [40]


def is_noted(log: HeldLog, batch: int) -> bool:
    applied = log.replicator.applied
    return applied is not None and applied.position.batch >= batch


def test_a_take_over_with_the_checkpoint_of_the_leader(tmp_path: Path) -> None:
    """What the checkpoint considers settled in a stream is in the files of the member that takes over."""
    leader, member = tmp_path / "leader", tmp_path / "member"
    fetched: list[tuple[int, int, bytes]] = []  # batches of the log by then, the segment that follows, the file

    async def story(node: Node, log: HeldLog) -> None:
        assert node.store is not None
        store = node.store
        await until(lambda: store.newest_checkpoint() is not None)  # soon after the start
        store.checkpoints.when_written(lambda following: fetched.append((len(log.bodies), *checkpoint_of(store))))
        async with await connect(url_of(node)) as connection:
            channel = await connection.channel()
            await channel.declare_queue("s", durable=True, arguments=STREAM)
            await channel.declare_queue("q", durable=True)
            await channel.confirm_select()
            for n in range(30):
                await channel.publish(b"event %d" % n, "", "s")
                await channel.publish(b"job %d" % n * 200, "", "q", PERSISTENT)
            for _ in range(10):
                got = await channel.get("q")
                assert got is not None
                channel.ack(got.delivery_tag)
            await until(lambda: is_noted(log, len(log.bodies)))  # the stream is settled
            store.checkpoints.hurry()
            for n in range(30, 40):
                await channel.publish(b"event %d" % n, "", "s")
                await channel.publish(b"job %d" % n * 200, "", "q", PERSISTENT)
            await until(lambda: bool(fetched))

    replica = Replica(leader, "c")  # a leader has followed before
    replica.open()
    replica.close()
    log = play(leader, story)
    reached, following, data = fetched[-1]
    killed = HeldLog()
    killed.bodies = log.bodies[: reached + 5]
    replica = Replica(member, "c")
    replica.open()
    replica.claimed(1)
    assert replica.install_checkpoint(1, following, data)
    for body in killed.bodies:
        replica.apply(*decode_batch(body))
    replica.cut()
    replica.keep(*killed.position)
    replica.close()
    assert (member / checkpoint_path(following)).exists()
    scanned = recover(Files(member), {row.id for row in rows_of(member).queues}, 1 << 20, repair=False, lineage=None)
    found = recover(
        Files(member), {row.id for row in rows_of(member).queues}, 1 << 20, repair=False, lineage=read_lineage(member)
    )
    assert found.checkpoint == following
    assert differences(found, scanned) == []
    assert found.bytes_read < scanned.bytes_read
    bodies: dict[str, list[bytes]] = {}

    async def taken_over(node: Node, log: HeldLog) -> None:
        assert node.store is not None
        assert node.store.newest_checkpoint() is not None
        async with await connect(url_of(node)) as connection:
            channel = await connection.channel()
            await channel.qos(prefetch_count=100)
            while (got := await channel.get("q")) is not None:
                bodies.setdefault("q", []).append(got.body)
            consumer = await channel.consume("s", arguments={"x-stream-offset": "first"})
            async for message in consumer:
                bodies.setdefault("s", []).append(message.body)
                if len(bodies["s"]) == len(bodies["q"]) + 10:
                    break

    play(member, taken_over)
    number = len(bodies["s"])
    assert number >= 30
    assert bodies["s"] == [b"event %d" % n for n in range(number)]
    assert bodies["q"] == [b"job %d" % n * 200 for n in range(10, number)]


def checkpoint_of(store: Store) -> tuple[int, bytes]:
    newest = store.newest_checkpoint()
    assert newest is not None
    return newest[0], newest[1].read_bytes()


def rows_of(folder: Path) -> Definitions:
    db = DefinitionsDb(folder / "meta.db")
    try:
        return db.load()
    finally:
        db.close()

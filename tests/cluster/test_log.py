"""The replicated log on three real servers: order, parts, rival leaders, lost acknowledgements."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from leveret.cluster.log_append import EXPECTED
from leveret.replication.claims import Position
from leveret.replication.log_reader import Completed
from leveret.replication.records import PART_SIZE, split
from tests.cluster.conftest import Play
from tests.support.cell_log import NOTHING, CellLog, Leader, Member, until
from tests.support.nats_servers import NatsServers


def bodies(name: str, number: int, size: int = 1000) -> list[bytes]:
    return [f"{name} {n} ".encode() + bytes(size) for n in range(number)]


def test_all_members_read_what_the_leader_appended_in_order(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        standby = cell.member("b")
        leader = await cell.lead("a")
        written = bodies("a", 200)
        leader.append(*written)
        await leader.settled()
        assert leader.acknowledged == written
        await until(lambda: len(standby.batches) == 200)
        assert standby.batches == await cell.all_batches() == written

    play(servers, story)


def test_appends_go_to_the_server_that_leads_the_stream(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        urls, place = cell.options.urls, await cell.stream_leader()
        for first in range(3):
            cell.options = replace(cell.options, urls=urls[first:] + urls[:first])
            leader = await cell.lead(f"node{first}")
            leader.append(b"one")
            await leader.settled()
            assert leader.appender.server == servers.name(place)

    play(servers, story)


def test_a_large_batch_is_granted_when_all_parts_are_stored(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")
        large = bytes(range(256)) * (PART_SIZE * 9 // 256) + b"end"
        leader.append(b"before", large, b"after")
        await leader.settled()
        assert leader.acknowledged == await cell.all_batches() == [b"before", large, b"after"]

    play(servers, story)


def test_of_two_leaders_only_the_later_one_is_granted_anything(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        old = await cell.lead("a")
        old.append(*bodies("before", 20))
        await old.settled()
        new = await cell.lead("b")  # misled: the other one is alive

        async def append(leader: Leader, name: str) -> None:
            for body in bodies(name, 50):
                leader.append(body)
                await asyncio.sleep(0)

        await asyncio.gather(append(old, "old"), append(new, "new"))
        await new.settled()
        await until(lambda: old.reason is not None)
        assert old.reason is not None
        assert "epoch 2 was claimed by another node" in old.reason
        assert old.acknowledged == bodies("before", 20)
        assert new.acknowledged == bodies("new", 50)
        assert await cell.all_batches() == old.acknowledged + new.acknowledged

    play(servers, story)


def test_records_of_a_deposed_leader_that_are_stored_late_are_passed_over(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        old = await cell.lead("a")
        new = await cell.lead("b")
        connection = await cell.connect()
        late = [payload for _, payload in split(cell.stream.id, old.window.epoch, 1, b"late")]
        await connection.append(cell.stream.subject, late[0], {EXPECTED: "2"})  # behind the second claim
        new.append(*bodies("new", 5))
        await new.settled()
        assert new.acknowledged == await cell.all_batches() == bodies("new", 5)

    play(servers, story)


async def store_before(cell: CellLog, leader: Leader, message_id: str | None) -> list[bytes]:
    """Store the leader's next record as if its acknowledgement had been lost."""
    ((_, payload),) = split(cell.stream.id, leader.window.epoch, leader.window.next_batch, b"one")
    connection = await cell.connect()
    headers = {EXPECTED: "1"} | ({} if message_id is None else {"Nats-Msg-Id": message_id})
    assert await connection.append(cell.stream.subject, payload, headers) == 2
    leader.append(b"one", b"two")
    await leader.settled()
    assert leader.acknowledged == [b"one", b"two"]
    return await cell.all_batches()


def test_a_repeated_append_is_stored_once(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")
        assert await store_before(cell, leader, "1/1/0/2") == [b"one", b"two"]

    play(servers, story)


def test_a_repeated_append_is_stored_once_when_the_engine_has_forgotten_its_id(
    servers: NatsServers, play: Play
) -> None:
    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")
        assert await store_before(cell, leader, None) == [b"one", b"two"]

    play(servers, story)


def test_a_restarted_leader_does_not_continue_its_epoch(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        first = await cell.lead("a")
        first.append(b"one")
        await first.settled()
        again = cell.member("a")
        again.candidate.life = "second life of a"
        await until(lambda: again.is_caught_up)
        assert again.own_claim() is None
        claim = await cell.claim(again)
        assert (claim.epoch, claim.batch) == (2, 2)

    play(servers, story)


def test_a_member_continues_where_it_was(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")
        leader.append(b"one", b"two", b"three")
        await leader.settled()
        member = cell.member("b", Position(3, 1, 2))
        await until(lambda: member.is_caught_up)
        assert member.batches == [b"three"]

    play(servers, story)


def test_a_member_that_was_away_for_too_long_cannot_follow(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")
        for body in bodies("large", 40, PART_SIZE // 2):
            leader.append(body)
        await leader.settled()
        member = cell.member("b", Position(1, 1, 0))
        await until(lambda: member.failure is not None)
        assert member.failure is not None
        assert "not in the replicated log any more" in member.failure

    play(servers, story, ring_bytes=4 << 20)


def test_a_member_notices_that_the_stream_is_another_one(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        await cell.lead("a")
        member = cell.member("b", Position(7, 1, 6))
        await until(lambda: member.failure is not None)
        assert member.failure is not None
        assert "ends at record 1, but this node has read record 7" in member.failure
        connection = await cell.connect()
        await connection.request(f"$JS.API.STREAM.DELETE.{cell.stream.name}")
        member = cell.member("c")
        await until(lambda: member.failure is not None)
        assert member.failure is not None
        assert "is not in the engine any more" in member.failure

    play(servers, story)


def test_a_member_that_cannot_apply_a_batch_reads_nothing_more(servers: NatsServers, play: Play) -> None:
    class Broken(Member):
        async def completed(self, batch: Completed) -> None:
            await super().completed(batch)
            if batch.body == b"two":
                raise ValueError("broken")

    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")
        leader.append(b"one", b"two", b"three")
        await leader.settled()
        member = Broken(cell, "b", NOTHING)
        with pytest.raises(ValueError, match="broken"):
            await member.tail.run()
        assert member.batches == [b"one", b"two"]

    play(servers, story)


def test_a_leader_whose_listener_fails_ends(servers: NatsServers, play: Play) -> None:
    async def story(cell: CellLog) -> None:
        leader = await cell.lead("a")

        def fail(tokens: list[bytes]) -> None:
            raise ValueError(f"broken by {tokens}")

        leader.granted = fail  # type: ignore[method-assign]
        leader.append(b"one")
        with pytest.raises(ValueError, match="broken by"):
            await cell.tasks[-1]

    play(servers, story)

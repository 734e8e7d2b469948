"""What a recovering channel knows over several connections: places in streams, names of queues, broker and locks."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from leveret.client.address import parsed
from leveret.client.messages import Delivery
from leveret.client.recovering_connection import BrokerIdentity
from leveret.client.subscriptions import StreamOffsets
from leveret.client.topology_record import LastQueue
from leveret.client.topology_recovery import SLACK, WITHOUT_HEARTBEATS, GracePeriod
from leveret.errors import AccessRefused, AmqpError, NotFound, ResourceLocked
from leveret.wire import methods as m
from leveret.wire.properties import Properties, encode_properties

LEVERET: dict[str, object] = {"platform": "Leveret 1", "cluster_name": "leveret@one"}
RABBIT: dict[str, object] = {"platform": "Erlang", "cluster_name": "rabbit@one"}
ONE = BrokerIdentity.of(parsed("amqp://one"), LEVERET)
FIRST = m.BasicConsume("s", "c", arguments={"x-stream-offset": "first"})


def delivered(offset: int, *, redelivered: bool = False) -> Delivery:
    head = encode_properties(Properties(headers={"x-stream-offset": offset}))
    return Delivery(cast(Any, None), "c", 1, redelivered, "", "s", head, b"")


def is_read(places: StreamOffsets, offset: int, *, redelivered: bool = False) -> bool:
    return places.is_read(delivered(offset, redelivered=redelivered), offset, ONE)


# ---- streams


def test_a_reader_goes_on_behind_the_last_message_and_reads_none_twice() -> None:
    places = StreamOffsets()
    assert places.continued(FIRST, ONE) is FIRST
    assert [is_read(places, offset) for offset in (0, 1, 2)] == [False] * 3
    assert places.continued(FIRST, ONE).arguments == {"x-stream-offset": 3}
    assert [is_read(places, offset) for offset in (2, 3)] == [True, False]
    assert not is_read(places, 1, redelivered=True)
    assert places.continued(FIRST, ONE).arguments == {"x-stream-offset": 4}
    assert FIRST.arguments == {"x-stream-offset": "first"}


def test_what_the_application_has_not_taken_is_read_again() -> None:
    places = StreamOffsets()
    for offset in (0, 1, 2):
        is_read(places, offset)
    places.step_back("c", delivered(1))
    places.step_back("other", delivered(0))
    assert places.continued(FIRST, ONE).arguments == {"x-stream-offset": 1}


def test_at_another_broker_a_reader_begins_anew() -> None:
    places = StreamOffsets()
    is_read(places, 7)
    assert places.continued(FIRST, BrokerIdentity.of(parsed("amqp://two"), LEVERET)) is FIRST
    assert places.continued(FIRST, ONE) is FIRST


def test_the_place_of_a_named_reader_is_the_brokers_matter() -> None:
    places = StreamOffsets()
    is_read(places, 7)
    named = m.BasicConsume("s", "c", arguments={"x-stream-consumer": "ann"})
    assert places.continued(named, ONE) is named


# ---- brokers


def test_a_broker_is_known_by_its_address_and_a_cluster_by_its_name() -> None:
    other = BrokerIdentity.of(parsed("amqp://two"), LEVERET)
    assert (ONE.is_surely(other), ONE.may_be(other)) == (False, True)
    assert ONE.is_surely(BrokerIdentity.of(parsed("amqp://one"), RABBIT))
    rabbits = [BrokerIdentity.of(parsed(f"amqp://{host}"), RABBIT) for host in ("three", "four")]
    assert rabbits[0].is_surely(rabbits[1])
    assert not ONE.may_be(rabbits[0])
    cell = {"platform": "Leveret 1", "cluster_name": "orders", "cluster_nodes": []}
    nodes = [BrokerIdentity.of(parsed(f"amqp://{host}"), cell) for host in ("five", "six")]
    assert nodes[0].is_surely(nodes[1])


# ---- locks


@pytest.mark.parametrize(
    ("problem", "is_covered"),
    [
        (ResourceLocked("of another connection"), True),
        (AccessRefused("queue 'q' in exclusive use"), True),
        (AccessRefused("you may not"), False),
        (NotFound("no queue"), False),
    ],
)
def test_only_what_is_locked_may_pass(problem: AmqpError, is_covered: bool) -> None:
    async def work() -> None:
        told: list[AmqpError] = []
        grace = GracePeriod(1, told.append)
        assert grace.covers(problem) is is_covered
        assert told == [problem] * is_covered
        grace.end()
        assert not grace.covers(problem)

    asyncio.run(work())


@pytest.mark.parametrize(("heartbeat", "seconds"), [(5, 10 + SLACK), (0, WITHOUT_HEARTBEATS + SLACK)])
def test_the_broker_is_given_two_heartbeats(heartbeat: int, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        monkeypatch.setattr(loop, "time", lambda: begun)
        grace = GracePeriod(heartbeat, lambda _: None)
        monkeypatch.setattr(loop, "time", lambda: begun + seconds - 0.1)
        assert grace.covers(ResourceLocked(""))
        monkeypatch.setattr(loop, "time", lambda: begun + seconds)
        assert not grace.covers(ResourceLocked(""))
        monkeypatch.undo()

    asyncio.run(work())


# ---- names


def test_a_queue_without_a_name_is_the_last_one_that_was_declared() -> None:
    last = LastQueue()
    assert last.spelled_out(m.BasicGet("")) == m.BasicGet("")
    last.note(m.QueueBindOk())
    last.note(m.QueueDeclareOk("q", 0, 0))
    assert last.spelled_out(m.BasicGet("")) == m.BasicGet("q")
    assert last.spelled_out(m.BasicGet("p")) == m.BasicGet("p")
    assert last.spelled_out(m.QueueDeclare("")) == m.QueueDeclare("")
    assert last.spelled_out(m.QueueBind("", "x", "")) == m.QueueBind("q", "x", "q")
    assert last.spelled_out(m.QueueUnbind("", "x", "key")) == m.QueueUnbind("q", "x", "key")

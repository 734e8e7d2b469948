"""Queues of the broker's own: known to the disk and to the harness-keeping, and to nobody else."""

from __future__ import annotations

import pytest

from leveret.backlog import pager
from leveret.broker.internal_queues import PREFIX, SCHEDULE
from leveret.store.definitions import Put, QueueRow
from leveret.wire.fields import encode_table
from leveret.wire.methods import BasicConsume, BasicGet, ChannelClose, QueueDeclare, QueueDelete, QueuePurge
from tests.support.peer_pair import Harness
from tests.support.stored_harness import StoredHarness


def schedule(harness: Harness, number: int = 1) -> None:
    client = harness.client()
    client.declare("q")
    for _ in range(number):
        client.publish("q", b"m" * 100, headers={"x-deliver-at": 1 << 50})


def test_they_are_made_when_they_are_needed_and_have_rows() -> None:
    harness = StoredHarness()
    assert harness.disk.queues() == set()
    schedule(harness)
    assert [row.name for row in harness.disk.definitions().queues] == [SCHEDULE]
    again = harness.stopped().again()
    assert list(again.vhost.internal.queues) == [SCHEDULE]
    schedule(again)
    assert len(again.disk.queues()) == 1, "the one from the earlier life is used"


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (QueueDeclare(SCHEDULE), 403),
        (QueueDeclare(SCHEDULE, passive=True), 404),
        (BasicConsume(SCHEDULE), 404),
        (BasicGet(SCHEDULE), 404),
        (QueuePurge(SCHEDULE), 404),
    ],
    ids=lambda value: getattr(value, "NAME", str(value)),
)
def test_no_client_can_use_them(method: object, code: int) -> None:
    harness = Harness()
    schedule(harness)
    closed = harness.client().ask(method)  # type: ignore[arg-type]
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == code


def test_deleting_one_by_name_deletes_nothing() -> None:
    harness = Harness()
    schedule(harness)
    harness.client().ask(QueueDelete(SCHEDULE))
    assert harness.vhost.schedules.count == 1


def test_they_do_not_count_against_the_limit_of_the_vhost() -> None:
    harness = Harness()
    schedule(harness)
    harness.broker.limit_vhost("/", max_queues=2, max_connections=None)
    harness.client().declare("second")


def test_they_give_up_memory_when_the_broker_is_short_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pager, "SQUEEZED", 1000)
    harness = StoredHarness(memory_high_watermark=10_000_000)
    schedule(harness, 400)
    harness.turn()
    queue = harness.vhost.internal.queues[SCHEDULE]
    harness.broker.gauge.used += 20_000_000
    harness.turn()
    assert harness.broker.gauge.is_short
    assert queue.lane.paged > 300


def test_a_row_of_an_unknown_kind_costs_itself(caplog: pytest.LogCaptureFixture) -> None:
    harness = StoredHarness()
    harness.client().declare("q", durable=True)
    harness.broker.log.record(Put(QueueRow(77, "/", f"{PREFIX}future", False, encode_table({}))))
    harness.turn()
    again = harness.stopped().again()
    assert list(again.vhost.queues) == ["q"]
    assert not again.vhost.internal.queues
    assert f"{PREFIX}future" in caplog.text

"""Jobs on queues of an embedded broker: calls from another thread, on a real loop and a real disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from leveret.embedded import EmbeddedVhost
from leveret.embedded_jobs import JobResult
from leveret.errors import NotFound, PreconditionFailed
from leveret.wire.properties import Properties


@pytest.fixture
def vhost(tmp_path: Path) -> Iterator[EmbeddedVhost]:
    """Queue work has 0 to 4; what dies there goes to queue dead."""
    settings = leveret.Settings(data_dir=tmp_path / "data", amqp_port=0, http_port=None, stomp_port=None)
    with leveret.Broker(settings) as broker:
        vhost = broker.vhost()
        vhost.declare_queue("dead", durable=True)
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        vhost.declare_queue("work", durable=True, arguments=to_dead)
        for n in range(5):
            vhost.publish("", "work", b"%d" % n, Properties(delivery_mode=2, headers={"n": n}))
        yield vhost


def test_browse_move_copy_delete(vhost: EmbeddedVhost) -> None:
    vhost.declare_queue("other", durable=True)
    assert [seen.body for seen in vhost.jobs.browse("work", selector="n >= 3")] == [b"3", b"4"]
    assert vhost.jobs.move_messages("work", "", "other", selector="n = 0") == JobResult(5, 1, 0)
    assert vhost.jobs.move_messages("work", "", "other", copy=True, limit=2) == JobResult(2, 2, 0)
    assert vhost.jobs.delete_messages("work", selector="n = 4").done == 1
    assert [seen.body for seen in vhost.jobs.browse("work")] == [b"1", b"2", b"3"]
    assert [seen.body for seen in vhost.jobs.browse("other")] == [b"0", b"1", b"2"]


@pytest.mark.feature("S4-76")
def test_dead_letters_and_back(vhost: EmbeddedVhost) -> None:
    for _ in range(2):
        got = vhost.get("work")
        assert got is not None
        vhost.nack(got.delivery_tag, requeue=False)
    died = [(seen.properties.headers or {})["x-first-death-queue"] for seen in vhost.jobs.browse("dead")]
    assert died == ["work", "work"]
    assert vhost.jobs.redrive("dead", dry_run=True).origins == {"work": 2}
    assert vhost.message_count("dead") == 2
    assert vhost.jobs.redrive("dead").origins == {"work": 2}
    assert (vhost.message_count("dead"), vhost.message_count("work")) == (0, 5)


def test_pause_and_resume(vhost: EmbeddedVhost) -> None:
    vhost.jobs.pause("work")
    assert vhost.get("work") is None
    vhost.jobs.resume("work")
    got = vhost.get("work")
    assert got is not None
    assert got.body == b"0"


def test_errors_name_what_is_wrong(vhost: EmbeddedVhost) -> None:
    with pytest.raises(NotFound, match="no queue 'nothing'"):
        vhost.jobs.browse("nothing")
    with pytest.raises(PreconditionFailed, match="x-selector"):
        vhost.jobs.browse("work", selector="n >")

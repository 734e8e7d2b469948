"""Moving and copying messages to a queue of another cell."""

from __future__ import annotations

import pytest

from leveret.broker import queue_jobs
from leveret.broker.queue_jobs import Forward
from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client


@pytest.fixture
def pair() -> CellPair:
    pair = CellPair()
    pair.declare("there")
    pair.here.vhost.declare_queue("here", durable=True)
    return pair


def fill(pair: CellPair, number: int) -> Client:
    client = pair.here.client()
    for n in range(number):
        client.publish("here", b"%d" % n)
    return client


def start(pair: CellPair, *, keeps: bool = False) -> Forward:
    vhost = pair.here.vhost
    job = Forward(vhost, vhost.queues["here"], pair.here.broker.background, "", "there", keeps=keeps)
    job.start()
    pair.here.rest()
    return job


@pytest.mark.parametrize("keeps", [False, True])
def test_messages_arrive_in_their_order(pair: CellPair, keeps: bool) -> None:
    client = fill(pair, 30)
    job = start(pair, keeps=keeps)
    assert (job.is_over, job.done, job.skipped) == (True, 30, 0)
    assert pair.here.queue("here").ready == (30 if keeps else 0)
    got = [client.get("there") for _ in range(30)]
    assert [each.body for each in got if each is not None] == [b"%d" % n for n in range(30)]


@pytest.mark.parametrize("most", [4, 1_000])
def test_a_job_ends_when_the_other_cell_has_everything(
    pair: CellPair, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_jobs, "MOST_UNANSWERED", most)
    fill(pair, 10)
    for wire in pair.wires:
        wire.is_held = True
    job = start(pair)
    assert not job.is_over
    assert job.done == min(most, 10)
    assert pair.home.queue("there").ready == 0
    assert pair.here.queue("here").bytes > 0  # what is on its way keeps its place
    for wire in pair.wires:
        wire.is_held = False
    pair.here.rest()
    assert (job.is_over, job.done, pair.home.queue("there").ready) == (True, 10, 10)
    assert (pair.here.queue("here").ready, pair.here.queue("here").bytes) == (0, 0)

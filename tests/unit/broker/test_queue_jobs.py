"""Looking into queues, and moving, copying, deleting and driving back what is in them; also what is on disk only."""

from __future__ import annotations

import pytest

from leveret.broker.queue_jobs import MOST_REDRIVES, Browse, Delete, Forward, Job, Redrive, Scope, matching
from leveret.errors import NotFound
from leveret.message import PERSISTENT, Address, Message
from leveret.wire.content import body_of, make_content, properties_of
from leveret.wire.properties import Properties
from tests.support.broker_harness import BrokerHarness
from tests.support.store_harness import look

LONG = 400  # messages of which most are on disk only


def real(body: bytes, **headers: object) -> Message:
    properties = Properties(delivery_mode=2, headers=headers or None)  # type: ignore[arg-type]
    return make_content(properties, body), Address("ex", "key", 1, 131072), PERSISTENT


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.begin()
    harness.make("q", "other")
    harness.rest()
    return harness


def fill(harness: BrokerHarness, name: str, number: int) -> list[bytes]:
    """Messages 0 to number; n of the header is odd for every other."""
    for n in range(number):
        harness.post_run(name, [real(b"%d" % n + b"." * 100, n=n, odd=bool(n % 2))])
        if n % 50 == 49:
            harness.rest()
    harness.rest()
    return [b"%d" % n for n in range(number)]


def run(harness: BrokerHarness, job: Job) -> Job:
    job.start()
    harness.rest()
    assert job.is_over
    return job


def bodies(harness: BrokerHarness, name: str) -> list[bytes]:
    """What is in a queue, in order, by a browse."""
    job = Browse(harness.queue(name), harness.broker.background)
    run(harness, job)
    return [body_of(seen.message[0]).rstrip(b".") for seen in job.found]


def test_browsing_shows_everything_in_order_and_leaves_it(harness: BrokerHarness) -> None:
    expected = fill(harness, "q", LONG)
    lane = harness.queue("q").lane
    assert lane.paged > LONG / 2  # or this shows nothing about the disk
    assert bodies(harness, "q") == expected
    assert bodies(harness, "q") == expected
    assert harness.queue("q").ready == LONG
    assert [body_of(taken.message[0]).rstrip(b".") for taken in harness.take("q", 3)] == expected[:3]


def test_browsing_begins_with_what_came_back_and_tells_how_often(harness: BrokerHarness) -> None:
    fill(harness, "q", 10)
    taken = harness.take("q", 3)
    harness.requeue("q", taken[1])
    job = Browse(harness.queue("q"), harness.broker.background, Scope(limit=2))
    run(harness, job)
    assert [(body_of(seen.message[0]).rstrip(b"."), seen.tries) for seen in job.found] == [(b"1", 1), (b"3", 0)]


def test_browsing_goes_from_the_highest_priority_to_the_lowest(harness: BrokerHarness) -> None:
    harness.make("p", max_priority=3)
    harness.post("p", b"low")
    harness.post("p", b"high", priority=3)
    job = Browse(harness.queue("p"), harness.broker.background)
    run(harness, job)
    assert [seen.message[0] for seen in job.found] == [b"high", b"low"]


def test_a_filter_chooses(harness: BrokerHarness) -> None:
    fill(harness, "q", 20)
    job = Browse(harness.queue("q"), harness.broker.background, Scope(matching("odd = TRUE AND n > 15")))
    run(harness, job)
    assert [body_of(seen.message[0]).rstrip(b".") for seen in job.found] == [b"17", b"19"]
    assert (job.examined, job.done) == (20, 2)


def test_deleting_by_filter_deletes_for_good(harness: BrokerHarness) -> None:
    expected = fill(harness, "q", LONG)
    job = run(harness, Delete(harness.queue("q"), harness.broker.background, Scope(matching("odd = TRUE"))))
    assert job.done == LONG / 2
    assert bodies(harness, "q") == expected[::2]
    assert harness.queue("q").ready == LONG / 2
    harness.journal.promise()
    harness.rest()
    assert len(look(harness.disk.copy()).messages) == LONG / 2


def test_a_move_takes_along_what_is_on_disk_only(harness: BrokerHarness) -> None:
    expected = fill(harness, "q", LONG)
    vhost = harness.broker.vhost("/")
    run(harness, Forward(vhost, harness.queue("q"), harness.broker.background, "", "other"))
    assert bodies(harness, "q") == []
    assert bodies(harness, "other") == expected
    assert harness.queue("q").bytes == 0
    found = look(harness.disk.copy())
    assert len(found.messages) == LONG
    assert {key[0] for key in found.messages} == {harness.queue("other").id}


def test_a_limited_move_takes_the_first(harness: BrokerHarness) -> None:
    expected = fill(harness, "q", 10)
    vhost = harness.broker.vhost("/")
    run(harness, Forward(vhost, harness.queue("q"), harness.broker.background, "", "other", Scope(limit=4)))
    assert bodies(harness, "other") == expected[:4]
    assert bodies(harness, "q") == expected[4:]


def test_a_copy_leaves_the_original(harness: BrokerHarness) -> None:
    expected = fill(harness, "q", 10)
    vhost = harness.broker.vhost("/")
    run(harness, Forward(vhost, harness.queue("q"), harness.broker.background, "", "other", keeps=True))
    assert bodies(harness, "q") == bodies(harness, "other") == expected


def test_what_nobody_would_take_stays(harness: BrokerHarness) -> None:
    expected = fill(harness, "q", 3)
    vhost = harness.broker.vhost("/")
    job = run(harness, Forward(vhost, harness.queue("q"), harness.broker.background, "", "nowhere"))
    assert (job.done, job.skipped) == (0, 3)
    assert bodies(harness, "q") == expected
    with pytest.raises(NotFound, match="no exchange 'nothing'"):
        Forward(vhost, harness.queue("q"), harness.broker.background, "nothing", "")


def test_a_move_to_itself_moves_nothing(harness: BrokerHarness) -> None:
    expected = fill(harness, "q", 3)
    vhost = harness.broker.vhost("/")
    assert run(harness, Forward(vhost, harness.queue("q"), harness.broker.background, "", "q")).skipped == 3
    assert bodies(harness, "q") == expected


def test_a_job_can_be_cancelled_and_a_deleted_queue_ends_it(harness: BrokerHarness) -> None:
    fill(harness, "q", 10)
    told: list[Job] = []
    job = Browse(harness.queue("q"), harness.broker.background, Scope(on_done=told.append))
    job.start()
    job.cancel()
    harness.rest()
    assert told == [job]
    assert job.examined == 0
    other = Browse(harness.queue("q"), harness.broker.background, Scope(on_done=told.append))
    other.start()
    harness.drop("q")
    harness.rest()
    assert told == [job, other]


# ---- dead letters go back


def bury_some(harness: BrokerHarness) -> None:
    """Three messages of queue work, rejected: in queue dead."""
    harness.make("dead")
    harness.make("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    harness.post_run("work", [real(b"%d" % n, n=n) for n in range(3)])
    harness.rest()
    for taken in harness.take("work", 3):
        harness.queue("work").drop(taken.lane, taken.sequence, [taken.message])
    harness.rest()


@pytest.mark.feature("S1-27")
def test_dead_letters_go_back_to_where_they_died_first(harness: BrokerHarness) -> None:
    """A dead letter queue is a queue like others."""
    bury_some(harness)
    job = Redrive(harness.broker.vhost("/"), harness.queue("dead"), harness.broker.background, harness.broker.timers)
    run(harness, job)
    assert job.origins == {"work": 3}
    assert bodies(harness, "dead") == []
    taken = harness.take("work", 3)
    assert [body_of(each.message[0]) for each in taken] == [b"0", b"1", b"2"]
    headers = properties_of(taken[0].message[0]).headers
    assert headers == {"n": 0, "x-redrive-count": 1}


def test_a_dry_run_only_counts(harness: BrokerHarness) -> None:
    bury_some(harness)
    vhost, background, timers = harness.broker.vhost("/"), harness.broker.background, harness.broker.timers
    job = Redrive(vhost, harness.queue("dead"), background, timers, Scope(matching("n > 0")), dry_run=True)
    run(harness, job)
    assert job.origins == {"work": 2}
    assert len(bodies(harness, "dead")) == 3


def test_going_back_and_dying_again_ends(harness: BrokerHarness) -> None:
    bury_some(harness)
    vhost, background, timers = harness.broker.vhost("/"), harness.broker.background, harness.broker.timers
    for _ in range(MOST_REDRIVES):
        assert run(harness, Redrive(vhost, harness.queue("dead"), background, timers)).done == 3
        for taken in harness.take("work", 3):
            harness.queue("work").drop(taken.lane, taken.sequence, [taken.message])
        harness.rest()
    job = run(harness, Redrive(vhost, harness.queue("dead"), background, timers))
    assert (job.done, job.skipped) == (0, 3)


def test_going_back_keeps_to_a_rate(harness: BrokerHarness) -> None:
    bury_some(harness)
    broker = harness.broker
    job = Redrive(broker.vhost("/"), harness.queue("dead"), broker.background, broker.timers, rate=2.0)
    job.start()
    harness.rest()
    assert job.done == 1
    broker.timers.advance(0.5, harness.rest)
    assert job.done == 2
    broker.timers.advance(0.4, harness.rest)
    assert job.done == 2
    broker.timers.advance(0.1, harness.rest)
    assert job.done == 3


def test_messages_that_never_died_stay(harness: BrokerHarness) -> None:
    fill(harness, "q", 2)
    broker = harness.broker
    job = run(harness, Redrive(broker.vhost("/"), harness.queue("q"), broker.background, broker.timers))
    assert (job.done, job.skipped) == (0, 2)
    assert len(bodies(harness, "q")) == 2

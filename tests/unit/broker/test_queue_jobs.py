"""Looking into queues, and moving, copying, deleting and driving back what is in them; also what is on disk only."""

from __future__ import annotations

import pytest

from leveret.broker.queue_jobs import MOST_REDRIVES, Browse, Delete, Forward, Job, Redrive, Scope, matching
from leveret.errors import NotFound
from leveret.message import PERSISTENT, Address, Message
from leveret.wire.content import body_of, make_content, properties_of
from leveret.wire.properties import Properties
from tests.support.broker_house import BrokerHouse
from tests.support.store_house import look

LONG = 400  # messages of which most are on disk only


def real(body: bytes, **headers: object) -> Message:
    properties = Properties(delivery_mode=2, headers=headers or None)  # type: ignore[arg-type]
    return make_content(properties, body), Address("ex", "key", 1, 131072), PERSISTENT


@pytest.fixture
def house() -> BrokerHouse:
    house = BrokerHouse()
    house.begin()
    house.make("q", "other")
    house.rest()
    return house


def fill(house: BrokerHouse, name: str, number: int) -> list[bytes]:
    """Messages 0 to number; n of the header is odd for every other."""
    for n in range(number):
        house.post_run(name, [real(b"%d" % n + b"." * 100, n=n, odd=bool(n % 2))])
        if n % 50 == 49:
            house.rest()
    house.rest()
    return [b"%d" % n for n in range(number)]


def run(house: BrokerHouse, job: Job) -> Job:
    job.start()
    house.rest()
    assert job.is_over
    return job


def bodies(house: BrokerHouse, name: str) -> list[bytes]:
    """What is in a queue, in order, by a browse."""
    job = Browse(house.queue(name), house.broker.background)
    run(house, job)
    return [body_of(seen.message[0]).rstrip(b".") for seen in job.found]


def test_browsing_shows_everything_in_order_and_leaves_it(house: BrokerHouse) -> None:
    expected = fill(house, "q", LONG)
    lane = house.queue("q").lane
    assert lane.paged > LONG / 2  # or this shows nothing about the disk
    assert bodies(house, "q") == expected
    assert bodies(house, "q") == expected
    assert house.queue("q").ready == LONG
    assert [body_of(taken.message[0]).rstrip(b".") for taken in house.take("q", 3)] == expected[:3]


def test_browsing_begins_with_what_came_back_and_tells_how_often(house: BrokerHouse) -> None:
    fill(house, "q", 10)
    taken = house.take("q", 3)
    house.requeue("q", taken[1])
    job = Browse(house.queue("q"), house.broker.background, Scope(limit=2))
    run(house, job)
    assert [(body_of(seen.message[0]).rstrip(b"."), seen.tries) for seen in job.found] == [(b"1", 1), (b"3", 0)]


def test_browsing_goes_from_the_highest_priority_to_the_lowest(house: BrokerHouse) -> None:
    house.make("p", max_priority=3)
    house.post("p", b"low")
    house.post("p", b"high", priority=3)
    job = Browse(house.queue("p"), house.broker.background)
    run(house, job)
    assert [seen.message[0] for seen in job.found] == [b"high", b"low"]


def test_a_filter_chooses(house: BrokerHouse) -> None:
    fill(house, "q", 20)
    job = Browse(house.queue("q"), house.broker.background, Scope(matching("odd = TRUE AND n > 15")))
    run(house, job)
    assert [body_of(seen.message[0]).rstrip(b".") for seen in job.found] == [b"17", b"19"]
    assert (job.looked_at, job.done) == (20, 2)


def test_deleting_by_filter_deletes_for_good(house: BrokerHouse) -> None:
    expected = fill(house, "q", LONG)
    job = run(house, Delete(house.queue("q"), house.broker.background, Scope(matching("odd = TRUE"))))
    assert job.done == LONG / 2
    assert bodies(house, "q") == expected[::2]
    assert house.queue("q").ready == LONG / 2
    house.journal.promise()
    house.rest()
    assert len(look(house.disk.copy()).messages) == LONG / 2


def test_a_move_takes_along_what_is_on_disk_only(house: BrokerHouse) -> None:
    expected = fill(house, "q", LONG)
    vhost = house.broker.vhost("/")
    run(house, Forward(vhost, house.queue("q"), house.broker.background, "", "other"))
    assert bodies(house, "q") == []
    assert bodies(house, "other") == expected
    assert house.queue("q").bytes == 0
    found = look(house.disk.copy())
    assert len(found.messages) == LONG
    assert {key[0] for key in found.messages} == {house.queue("other").id}


def test_a_limited_move_takes_the_first(house: BrokerHouse) -> None:
    expected = fill(house, "q", 10)
    vhost = house.broker.vhost("/")
    run(house, Forward(vhost, house.queue("q"), house.broker.background, "", "other", Scope(limit=4)))
    assert bodies(house, "other") == expected[:4]
    assert bodies(house, "q") == expected[4:]


def test_a_copy_leaves_the_original(house: BrokerHouse) -> None:
    expected = fill(house, "q", 10)
    vhost = house.broker.vhost("/")
    run(house, Forward(vhost, house.queue("q"), house.broker.background, "", "other", keeps=True))
    assert bodies(house, "q") == bodies(house, "other") == expected


def test_what_nobody_would_take_stays(house: BrokerHouse) -> None:
    expected = fill(house, "q", 3)
    vhost = house.broker.vhost("/")
    job = run(house, Forward(vhost, house.queue("q"), house.broker.background, "", "nowhere"))
    assert (job.done, job.skipped) == (0, 3)
    assert bodies(house, "q") == expected
    with pytest.raises(NotFound, match="no exchange 'nothing'"):
        Forward(vhost, house.queue("q"), house.broker.background, "nothing", "")


def test_a_move_to_itself_moves_nothing(house: BrokerHouse) -> None:
    expected = fill(house, "q", 3)
    vhost = house.broker.vhost("/")
    assert run(house, Forward(vhost, house.queue("q"), house.broker.background, "", "q")).skipped == 3
    assert bodies(house, "q") == expected


def test_a_job_can_be_cancelled_and_a_deleted_queue_ends_it(house: BrokerHouse) -> None:
    fill(house, "q", 10)
    told: list[Job] = []
    job = Browse(house.queue("q"), house.broker.background, Scope(on_done=told.append))
    job.start()
    job.cancel()
    house.rest()
    assert told == [job]
    assert job.looked_at == 0
    other = Browse(house.queue("q"), house.broker.background, Scope(on_done=told.append))
    other.start()
    house.drop("q")
    house.rest()
    assert told == [job, other]


# ---- dead letters go back


def bury_some(house: BrokerHouse) -> None:
    """Three messages of queue work, rejected: in queue dead."""
    house.make("dead")
    house.make("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    house.post_run("work", [real(b"%d" % n, n=n) for n in range(3)])
    house.rest()
    for taken in house.take("work", 3):
        house.queue("work").drop(taken.lane, taken.sequence, [taken.message])
    house.rest()


@pytest.mark.feature("S1-27")
def test_dead_letters_go_back_to_where_they_died_first(house: BrokerHouse) -> None:
    """A dead letter queue is a queue like others."""
    bury_some(house)
    job = Redrive(house.broker.vhost("/"), house.queue("dead"), house.broker.background, house.broker.timers)
    run(house, job)
    assert job.origins == {"work": 3}
    assert bodies(house, "dead") == []
    taken = house.take("work", 3)
    assert [body_of(each.message[0]) for each in taken] == [b"0", b"1", b"2"]
    headers = properties_of(taken[0].message[0]).headers
    assert headers == {"n": 0, "x-redrive-count": 1}


def test_a_dry_run_only_counts(house: BrokerHouse) -> None:
    bury_some(house)
    vhost, background, timers = house.broker.vhost("/"), house.broker.background, house.broker.timers
    job = Redrive(vhost, house.queue("dead"), background, timers, Scope(matching("n > 0")), dry_run=True)
    run(house, job)
    assert job.origins == {"work": 2}
    assert len(bodies(house, "dead")) == 3


def test_going_back_and_dying_again_ends(house: BrokerHouse) -> None:
    bury_some(house)
    vhost, background, timers = house.broker.vhost("/"), house.broker.background, house.broker.timers
    for _ in range(MOST_REDRIVES):
        assert run(house, Redrive(vhost, house.queue("dead"), background, timers)).done == 3
        for taken in house.take("work", 3):
            house.queue("work").drop(taken.lane, taken.sequence, [taken.message])
        house.rest()
    job = run(house, Redrive(vhost, house.queue("dead"), background, timers))
    assert (job.done, job.skipped) == (0, 3)


def test_going_back_keeps_to_a_rate(house: BrokerHouse) -> None:
    bury_some(house)
    broker = house.broker
    job = Redrive(broker.vhost("/"), house.queue("dead"), broker.background, broker.timers, rate=2.0)
    job.start()
    house.rest()
    assert job.done == 1
    broker.timers.advance(0.5, house.rest)
    assert job.done == 2
    broker.timers.advance(0.4, house.rest)
    assert job.done == 2
    broker.timers.advance(0.1, house.rest)
    assert job.done == 3


def test_messages_that_never_died_stay(house: BrokerHouse) -> None:
    fill(house, "q", 2)
    broker = house.broker
    job = run(house, Redrive(broker.vhost("/"), house.queue("q"), broker.background, broker.timers))
    assert (job.done, job.skipped) == (0, 2)
    assert len(bodies(house, "q")) == 2

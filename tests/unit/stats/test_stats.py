"""S4-77: rates and samples, on a clock that stands still until it is moved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.access import in_process_access
from leveret.broker.local import LocalSession
from leveret.http.errors import BadRequest
from leveret.stats import stats as stats_module
from leveret.stats.history import INTERVAL
from leveret.stats.samples import UNKNOWN, Samples, Window, Windows, windows_of
from leveret.stats.stats import STEP, Stats
from leveret.stats.totals import SLICE
from tests.support.stats_harness import Harness, samples_of


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.stats.start()
    made.broker.tick()
    return made


# ---- rates


@pytest.mark.feature("S4-77")
def test_a_rate_is_the_difference_of_the_last_two_samples(harness: Harness) -> None:
    queue = harness.queue("a")
    harness.publish("a", 50)
    harness.pass_by(INTERVAL)
    assert harness.publish_rate(queue) == 10.0
    harness.publish("a", 5)
    assert harness.publish_rate(queue) == 10.0  # not sampled yet
    assert harness.of(queue)["message_stats"]["publish"] == 55
    harness.pass_by(INTERVAL)
    assert harness.publish_rate(queue) == 1.0
    harness.pass_by(INTERVAL)
    assert harness.publish_rate(queue) == 0.0


def test_all_that_is_done_to_messages_has_a_rate(harness: Harness) -> None:
    queue = harness.queue("a")
    harness.publish("a", 30)
    first = harness.session.get("a")
    for _ in range(4):
        harness.session.get("a", auto_ack=True)
    harness.session.consume("a", auto_ack=True, prefetch=0)
    assert first is not None
    harness.session.ack(first.delivery_tag)
    harness.broker.tick()
    harness.pass_by(INTERVAL)
    stats = harness.of(queue)["message_stats"]
    counts = {name: stats[name] for name in ("get", "get_no_ack", "deliver", "deliver_no_ack", "deliver_get", "ack")}
    assert counts == {"get": 1, "get_no_ack": 4, "deliver": 0, "deliver_no_ack": 25, "deliver_get": 30, "ack": 1}
    assert {name: stats[f"{name}_details"]["rate"] for name in counts} == {
        name: number / INTERVAL for name, number in counts.items()
    }


def test_the_length_of_a_queue_that_shrinks_has_a_rate_below_zero(harness: Harness) -> None:
    queue = harness.queue("a")
    harness.publish("a", 20)
    harness.pass_by(INTERVAL)
    harness.vhost.purge_queue("a")
    harness.pass_by(INTERVAL)
    told = harness.of(queue)
    assert told["messages_details"]["rate"] == told["messages_ready_details"]["rate"] == -4.0
    assert told["messages_unacknowledged_details"]["rate"] == 0.0


def test_what_was_there_before_we_looked_is_no_rate() -> None:
    harness = Harness()
    queue = harness.queue("a")
    harness.publish("a", 100)
    harness.stats.start()
    harness.broker.tick()
    harness.pass_by(INTERVAL)
    assert harness.publish_rate(queue) == 0.0
    window = Windows(rates=Window(10, 5))
    assert samples_of(harness.of(queue, window)["message_stats"]["publish_details"]) == [
        100,
        100,
    ]  # none of the time before


def test_exchanges_have_rates_too(harness: Harness) -> None:
    harness.queue("a")
    harness.publish("a", 10)
    harness.publish("nobody", 5)
    harness.pass_by(INTERVAL)
    stats = harness.stats.of_exchange("/", "")["message_stats"]
    assert (stats["publish_in"], stats["publish_out"]) == (15, 10)
    assert (stats["publish_in_details"], stats["publish_out_details"]) == ({"rate": 3.0}, {"rate": 2.0})
    assert harness.stats.of_exchange("/", "amq.topic")["message_stats"]["publish_in"] == 0


# ---- samples


@pytest.mark.feature("S4-77")
def test_samples_are_told_newest_first_at_round_times(harness: Harness) -> None:
    queue = harness.queue("a")
    for number in (10, 20, 0):
        harness.publish("a", number)
        harness.pass_by(INTERVAL)
    told = harness.of(queue, Windows(rates=Window(20, 5), lengths=Window(10, 5)))
    detail = told["message_stats"]["publish_details"]
    now = int(harness.broker.clock.wall() * 1000)
    assert detail["samples"] == [
        {"sample": 30, "timestamp": now},
        {"sample": 30, "timestamp": now - 5_000},
        {"sample": 10, "timestamp": now - 10_000},
        {"sample": 0, "timestamp": now - 15_000},
    ]  # the time before the start is a gap
    assert (detail["rate"], detail["avg"], detail["avg_rate"]) == (0.0, 17.5, 1.5)
    assert samples_of(told["messages_details"]) == [30, 30, 10]


def test_the_node_looks_hours_back_by_the_minute(harness: Harness) -> None:
    harness.queue("a")
    for _ in range(120):
        harness.publish("a", 2)
        harness.pass_by(60)
    detail = harness.stats.of_node(Windows(rates=Window(3600, 60)))["message_stats"]["publish_details"]
    seen = samples_of(detail)
    assert len(seen) == 61
    assert seen[0] == 240
    assert [later - earlier for later, earlier in pairwise(seen)] == [2] * 60


def test_nothing_is_kept_of_queues_that_never_moved_or_are_gone(harness: Harness) -> None:
    harness.queue("still")
    queue = harness.queue("a")
    harness.publish("a", 1)
    harness.pass_by(INTERVAL)
    assert [type(thing).__name__ for thing in harness.stats._objects.by_object] == ["ClassicQueue", "ExchangeCounters"]
    harness.vhost.delete_queue("a")
    harness.pass_by(INTERVAL)
    assert queue not in harness.stats._objects.by_object


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=40), st.integers(1, 6), st.integers(0, 100))
def test_samples_are_what_a_list_of_all_rows_would_say(steps: list[tuple[int, int]], most: int, asked: int) -> None:
    samples, told, tick = Samples(1, most), {-1: (0,)}, 0
    kept: list[int] = []
    for ahead, value in steps:
        tick += ahead
        if not kept or told[kept[-1]] != (value,):
            kept.append(tick)
            told[tick] = (value,)
        samples.add(tick, (value,))
    known = kept[-most - 1 :]
    at_or_before = [each for each in known if each <= asked]
    if at_or_before:
        assert samples.at(asked) == told[at_or_before[-1]]
    elif len(kept) > most + 1:
        assert samples.at(asked) == (UNKNOWN,)
    else:
        assert samples.at(asked) == (0,)


# ---- sums


def test_sums_do_not_shrink_when_what_was_counted_goes(harness: Harness) -> None:
    for name in ("a", "b"):
        harness.queue(name)
        harness.publish(name, 10)
        harness.session.get(name, auto_ack=True)
    other = harness.broker.add_vhost("other")
    other.declare_queue("c")
    LocalSession(in_process_access(other), lambda tag, delivered: None).publish("", "c", b"x")
    harness.vhost.declare_exchange("e", "fanout")
    harness.session.publish("e", "", b"x")
    harness.pass_by(INTERVAL)
    before = harness.stats.of_node()
    assert (before["message_stats"]["publish"], before["messages"]) == (22, 19)
    harness.vhost.delete_queue("a")
    harness.vhost.delete_exchange("e")
    harness.broker.delete_vhost("other")
    harness.pass_by(INTERVAL)
    after = harness.stats.of_node()
    assert {name: after["message_stats"][name] for name in ("publish", "get_no_ack", "drop_unroutable")} == {
        "publish": 22,
        "get_no_ack": 2,
        "drop_unroutable": 1,
    }
    assert after["messages"] == 9
    assert (after["churn_rates"]["queue_created"], after["churn_rates"]["queue_deleted"]) == (3, 2)
    assert min(detail["rate"] for detail in rates_of(after["message_stats"])) == 0.0


def rates_of(stats: dict[str, Any]) -> list[dict[str, float]]:
    return [value for name, value in stats.items() if name.endswith("_details")]


def test_virtual_hosts_are_counted_apart_and_together(harness: Harness) -> None:
    harness.queue("a")
    harness.publish("a", 10)
    other = harness.broker.add_vhost("other")
    other.declare_queue("c")
    LocalSession(in_process_access(other), lambda tag, delivered: None).publish("", "c", b"x")
    harness.broker.tick()
    harness.pass_by(INTERVAL)
    one, both = harness.stats.of_vhosts(["other"]), harness.stats.of_vhosts(["/", "other", "no such"])
    assert (one["messages"], one["message_stats"]["publish_details"]["rate"]) == (1, 0.2)
    assert (both["messages"], both["message_stats"]["publish_details"]["rate"]) == (11, 2.2)


def test_a_large_broker_is_shown_as_it_was_at_the_last_tick(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.queue("a")
    harness.pass_by(INTERVAL)
    harness.publish("a", 3)
    assert harness.stats.of_node()["messages"] == 3
    monkeypatch.setattr(stats_module, "FEW", 0)
    assert harness.stats.of_node()["messages"] == 0
    harness.pass_by(INTERVAL)
    assert harness.stats.of_node()["messages"] == 3


# ---- many queues


def test_many_queues_are_looked_at_in_slices_and_shown_when_all_were(harness: Harness) -> None:
    number = 4 * STEP
    queues = [harness.queue(f"q{n}") for n in range(number)]
    harness.publish("q0", 5)
    harness.publish(f"q{number - 1}", 5)
    clock, broker = harness.broker.clock, harness.broker
    clock.move_to(clock.now() + INTERVAL)
    broker.timers.run_due()
    turns = 0
    while broker.background.under_way:
        assert harness.publish_rate(queues[0]) == 0.0  # the walk is not over
        looked_at = len(harness.stats._objects.by_object)
        broker.tick()
        turns += 1
        assert len(harness.stats._objects.by_object) - looked_at <= STEP + SLICE
    assert turns >= number // (STEP + SLICE)
    assert harness.publish_rate(queues[0]) == harness.publish_rate(queues[-1]) == 1.0


def test_a_walk_that_takes_too_long_leaves_ticks_out(harness: Harness) -> None:
    queue = harness.queue("slow")
    for n in range(4 * STEP):
        harness.queue(f"q{n}")
    harness.publish("slow", 50)
    clock, broker = harness.broker.clock, harness.broker
    for _ in range(2):  # the second is due before the first has ended
        clock.move_to(clock.now() + INTERVAL)
        broker.timers.run_due()
    while broker.background.under_way:
        broker.tick()
    assert harness.publish_rate(queue) == 10.0
    harness.publish("slow", 30)
    clock.move_to(clock.now() + INTERVAL)
    broker.timers.run_due()
    while broker.background.under_way:
        broker.tick()
    assert harness.publish_rate(queue) == 3.0  # 30 in the ten seconds between the two walks


def test_a_clock_that_is_made_to_fly_is_not_followed_at_every_step(harness: Harness) -> None:
    looks = 0

    def count() -> None:
        nonlocal looks
        looks += 1
        harness.broker.tick()

    queue = harness.queue("a")
    harness.broker.timers.advance(90 * 86_400, count)
    assert looks < 4_000
    harness.publish("a", 5)
    assert harness.publish_rate(queue) == 0.0  # somebody looks: from now on each tick counts again
    harness.pass_by(INTERVAL)
    assert harness.of(queue)["messages_details"]["rate"] > 0
    harness.publish("a", 5)
    harness.pass_by(INTERVAL)
    assert harness.publish_rate(queue) == 1.0


def test_a_clock_that_runs_is_followed_for_ever() -> None:
    harness = Harness()
    real = iter(range(0, 1 << 30, int(INTERVAL)))
    harness.stats = Stats(harness.broker, real_time=lambda: float(next(real)))
    harness.stats.start()
    queue = harness.queue("a")
    harness.pass_by(1_500 * INTERVAL)
    harness.publish("a", 5)
    harness.pass_by(INTERVAL)
    assert harness.publish_rate(queue) == 1.0


# ---- what is asked for


def test_windows_are_asked_for_by_rabbitmqs_names() -> None:
    query = {"msg_rates_age": "60", "msg_rates_incr": "5", "lengths_age": "600"}
    assert windows_of(query) == Windows(rates=Window(60, 5), lengths=None)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"msg_rates_age": "x", "msg_rates_incr": "5"}, "msg_rates_age"),
        ({"lengths_age": "60", "lengths_incr": "0"}, "lengths_incr"),
        ({"lengths_age": "86400", "lengths_incr": "1"}, "more than 1000 samples"),
    ],
)
def test_windows_that_cannot_be_are_refused_by_name(query: dict[str, str], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        windows_of(query)

"""S4-77: rates and samples, on a clock that stands still until it is moved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.access import in_process_access
from leveret.broker.broker import Broker
from leveret.broker.local import LocalSession
from leveret.clock import FrozenClock
from leveret.http.errors import BadRequest
from leveret.queues.classic import ClassicQueue
from leveret.stats import stats as stats_module
from leveret.stats.samples import NO_WINDOWS, Samples, Window, Windows, windows_of
from leveret.stats.stats import INTERVAL, KEPT, STEP, Stats
from leveret.stats.totals import SLICE
from leveret.store.memory_log import MemoryLog


class House:
    def __init__(self) -> None:
        self.broker = Broker(node_name="house", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=1 << 30)
        self.vhost = self.broker.add_vhost("/")
        self.session = LocalSession(in_process_access(self.vhost), lambda tag, delivered: None)
        self.stats = Stats(self.broker)

    def queue(self, name: str) -> ClassicQueue:
        return self.vhost.declare_queue(name)

    def publish(self, key: str, number: int = 1) -> None:
        for _ in range(number):
            self.session.publish("", key, b"x")
        self.broker.tick()

    def pass_by(self, seconds: float) -> None:
        self.broker.timers.advance(seconds, self.broker.tick)

    def of(self, queue: ClassicQueue, windows: Windows = NO_WINDOWS) -> dict[str, Any]:
        told: dict[str, Any] = self.stats.of_queue(queue, windows)
        return told

    def publish_rate(self, queue: ClassicQueue) -> float:
        return float(self.of(queue)["message_stats"]["publish_details"]["rate"])


@pytest.fixture
def house() -> House:
    made = House()
    made.stats.start()
    made.broker.tick()
    return made


def samples_of(detail: dict[str, Any]) -> list[int]:
    return [sample["sample"] for sample in detail["samples"]]


# ---- rates


@pytest.mark.feature("S4-77")
def test_a_rate_is_the_difference_of_the_last_two_samples(house: House) -> None:
    queue = house.queue("a")
    house.publish("a", 50)
    house.pass_by(INTERVAL)
    assert house.publish_rate(queue) == 10.0
    house.publish("a", 5)
    assert house.publish_rate(queue) == 10.0  # not sampled yet
    assert house.of(queue)["message_stats"]["publish"] == 55
    house.pass_by(INTERVAL)
    assert house.publish_rate(queue) == 1.0
    house.pass_by(INTERVAL)
    assert house.publish_rate(queue) == 0.0


def test_all_that_is_done_to_messages_has_a_rate(house: House) -> None:
    queue = house.queue("a")
    house.publish("a", 30)
    first = house.session.get("a")
    for _ in range(4):
        house.session.get("a", auto_ack=True)
    house.session.consume("a", auto_ack=True, prefetch=0)
    assert first is not None
    house.session.ack(first.delivery_tag)
    house.broker.tick()
    house.pass_by(INTERVAL)
    stats = house.of(queue)["message_stats"]
    counts = {name: stats[name] for name in ("get", "get_no_ack", "deliver", "deliver_no_ack", "deliver_get", "ack")}
    assert counts == {"get": 1, "get_no_ack": 4, "deliver": 0, "deliver_no_ack": 25, "deliver_get": 30, "ack": 1}
    assert {name: stats[f"{name}_details"]["rate"] for name in counts} == {
        name: number / INTERVAL for name, number in counts.items()
    }


def test_the_length_of_a_queue_that_shrinks_has_a_rate_below_zero(house: House) -> None:
    queue = house.queue("a")
    house.publish("a", 20)
    house.pass_by(INTERVAL)
    house.vhost.purge_queue("a")
    house.pass_by(INTERVAL)
    told = house.of(queue)
    assert told["messages_details"]["rate"] == told["messages_ready_details"]["rate"] == -4.0
    assert told["messages_unacknowledged_details"]["rate"] == 0.0


def test_what_was_there_before_we_looked_is_no_rate() -> None:
    house = House()
    queue = house.queue("a")
    house.publish("a", 100)
    house.stats.start()
    house.broker.tick()
    house.pass_by(INTERVAL)
    assert house.publish_rate(queue) == 0.0
    window = Windows(rates=Window(10, 5))
    assert samples_of(house.of(queue, window)["message_stats"]["publish_details"]) == [100, 100, 100]


def test_exchanges_have_rates_too(house: House) -> None:
    house.queue("a")
    house.publish("a", 10)
    house.publish("nobody", 5)
    house.pass_by(INTERVAL)
    stats = house.stats.of_exchange("/", "")["message_stats"]
    assert (stats["publish_in"], stats["publish_out"]) == (15, 10)
    assert (stats["publish_in_details"], stats["publish_out_details"]) == ({"rate": 3.0}, {"rate": 2.0})
    assert house.stats.of_exchange("/", "amq.topic")["message_stats"]["publish_in"] == 0


# ---- samples


@pytest.mark.feature("S4-77")
def test_samples_are_told_newest_first_at_round_times(house: House) -> None:
    queue = house.queue("a")
    for number in (10, 20, 0):
        house.publish("a", number)
        house.pass_by(INTERVAL)
    told = house.of(queue, Windows(rates=Window(20, 5), lengths=Window(10, 5)))
    detail = told["message_stats"]["publish_details"]
    now = int(house.broker.clock.wall() * 1000)
    assert detail["samples"] == [
        {"sample": 30, "timestamp": now},
        {"sample": 30, "timestamp": now - 5_000},
        {"sample": 10, "timestamp": now - 10_000},
        {"sample": 0, "timestamp": now - 15_000},
        {"sample": 0, "timestamp": now - 20_000},
    ]
    assert (detail["rate"], detail["avg"], detail["avg_rate"]) == (0.0, 14.0, 1.5)
    assert samples_of(told["messages_details"]) == [30, 30, 10]


def test_the_node_looks_hours_back_by_the_minute(house: House) -> None:
    house.queue("a")
    for _ in range(120):
        house.publish("a", 2)
        house.pass_by(60)
    detail = house.stats.of_node(Windows(rates=Window(3600, 60)))["message_stats"]["publish_details"]
    seen = samples_of(detail)
    assert len(seen) == 61
    assert seen[0] == 240
    assert [later - earlier for later, earlier in pairwise(seen)] == [2] * 60


def test_a_queue_keeps_so_many_intervals_with_both_their_ends_and_no_more(house: House) -> None:
    queue = house.queue("a")
    for _ in range(KEPT + 40):
        house.publish("a", 1)
        house.pass_by(INTERVAL)
    window = Windows(rates=Window(int((KEPT + 39) * INTERVAL), int(INTERVAL)))
    seen = samples_of(house.of(queue, window)["message_stats"]["publish_details"])
    assert seen[: KEPT + 1] == list(range(KEPT + 40, 39, -1))
    assert set(seen[KEPT + 1 :]) == {40}  # what is known of the time before


def test_nothing_is_kept_of_queues_that_never_moved_or_are_gone(house: House) -> None:
    house.queue("still")
    queue = house.queue("a")
    house.publish("a", 1)
    house.pass_by(INTERVAL)
    assert [type(thing).__name__ for thing in house.stats._samples] == ["ClassicQueue", "ExchangeCounters"]
    house.vhost.delete_queue("a")
    house.pass_by(INTERVAL)
    assert queue not in house.stats._samples


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
        assert samples.at(asked) == told[known[0]]
    else:
        assert samples.at(asked) == (0,)


# ---- sums


def test_sums_do_not_shrink_when_what_was_counted_goes(house: House) -> None:
    for name in ("a", "b"):
        house.queue(name)
        house.publish(name, 10)
        house.session.get(name, auto_ack=True)
    other = house.broker.add_vhost("other")
    other.declare_queue("c")
    LocalSession(in_process_access(other), lambda tag, delivered: None).publish("", "c", b"x")
    house.vhost.declare_exchange("e", "fanout")
    house.session.publish("e", "", b"x")
    house.pass_by(INTERVAL)
    before = house.stats.of_node()
    assert (before["message_stats"]["publish"], before["messages"]) == (22, 19)
    house.vhost.delete_queue("a")
    house.vhost.delete_exchange("e")
    house.broker.delete_vhost("other")
    house.pass_by(INTERVAL)
    after = house.stats.of_node()
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


def test_virtual_hosts_are_counted_apart_and_together(house: House) -> None:
    house.queue("a")
    house.publish("a", 10)
    other = house.broker.add_vhost("other")
    other.declare_queue("c")
    LocalSession(in_process_access(other), lambda tag, delivered: None).publish("", "c", b"x")
    house.broker.tick()
    house.pass_by(INTERVAL)
    one, both = house.stats.of_vhosts(["other"]), house.stats.of_vhosts(["/", "other", "no such"])
    assert (one["messages"], one["message_stats"]["publish_details"]["rate"]) == (1, 0.2)
    assert (both["messages"], both["message_stats"]["publish_details"]["rate"]) == (11, 2.2)


def test_a_large_broker_is_shown_as_it_was_at_the_last_tick(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.queue("a")
    house.pass_by(INTERVAL)
    house.publish("a", 3)
    assert house.stats.of_node()["messages"] == 3
    monkeypatch.setattr(stats_module, "FEW", 0)
    assert house.stats.of_node()["messages"] == 0
    house.pass_by(INTERVAL)
    assert house.stats.of_node()["messages"] == 3


# ---- many queues


def test_many_queues_are_looked_at_in_slices_and_shown_when_all_were(house: House) -> None:
    number = 4 * STEP
    queues = [house.queue(f"q{n}") for n in range(number)]
    house.publish("q0", 5)
    house.publish(f"q{number - 1}", 5)
    clock, broker = house.broker.clock, house.broker
    clock.move_to(clock.now() + INTERVAL)
    broker.timers.run_due()
    turns = 0
    while broker.background.under_way:
        assert house.publish_rate(queues[0]) == 0.0  # the walk is not over
        looked_at = len(house.stats._samples)
        broker.tick()
        turns += 1
        assert len(house.stats._samples) - looked_at <= STEP + SLICE
    assert turns >= number // (STEP + SLICE)
    assert house.publish_rate(queues[0]) == house.publish_rate(queues[-1]) == 1.0


def test_a_walk_that_takes_too_long_leaves_ticks_out(house: House) -> None:
    queue = house.queue("slow")
    for n in range(4 * STEP):
        house.queue(f"q{n}")
    house.publish("slow", 50)
    clock, broker = house.broker.clock, house.broker
    for _ in range(2):  # the second is due before the first has ended
        clock.move_to(clock.now() + INTERVAL)
        broker.timers.run_due()
    while broker.background.under_way:
        broker.tick()
    assert house.publish_rate(queue) == 10.0
    house.publish("slow", 30)
    clock.move_to(clock.now() + INTERVAL)
    broker.timers.run_due()
    while broker.background.under_way:
        broker.tick()
    assert house.publish_rate(queue) == 3.0  # 30 in the ten seconds between the two walks


def test_a_clock_that_is_made_to_fly_is_not_followed_at_every_step(house: House) -> None:
    looks = 0

    def count() -> None:
        nonlocal looks
        looks += 1
        house.broker.tick()

    queue = house.queue("a")
    house.broker.timers.advance(90 * 86_400, count)
    assert looks < 4_000
    house.publish("a", 5)
    assert house.publish_rate(queue) == 0.0  # somebody looks: from now on each tick counts again
    house.pass_by(INTERVAL)
    assert house.of(queue)["messages_details"]["rate"] > 0
    house.publish("a", 5)
    house.pass_by(INTERVAL)
    assert house.publish_rate(queue) == 1.0


def test_a_clock_that_runs_is_followed_for_ever() -> None:
    house = House()
    real = iter(range(0, 1 << 30, int(INTERVAL)))
    house.stats = Stats(house.broker, real_time=lambda: float(next(real)))
    house.stats.start()
    queue = house.queue("a")
    house.pass_by(1_500 * INTERVAL)
    house.publish("a", 5)
    house.pass_by(INTERVAL)
    assert house.publish_rate(queue) == 1.0


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

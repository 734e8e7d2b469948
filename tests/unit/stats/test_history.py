"""Histories: how far they reach back, and those that survive a restart."""

from __future__ import annotations

import sys
import zlib
from array import array
from itertools import pairwise

import msgspec
import pytest

from leveret.broker.access import in_process_access
from leveret.broker.local import LocalSession
from leveret.stats import history as history_module
from leveret.stats import stats as stats_module
from leveret.stats.history import DAY, FEWER, HOUR, INTERVAL, RECENT, History, SavedHistory, decoded, encoded
from leveret.stats.samples import Window, Windows
from leveret.stats.totals import TOTAL
from tests.support.stats_harness import Harness, samples_of

COLUMNS_OF_0_2_0 = (
    *("publish", "deliver", "deliver_no_ack", "get", "get_no_ack", "redeliver", "ack"),
    *("messages_ready", "messages_unacknowledged"),
    *("confirm", "return_unroutable", "drop_unroutable", "get_empty", "received_confirm", "to_queues"),
    *("connection_created", "connection_closed", "channel_created", "channel_closed"),
    *("queue_declared", "queue_created", "queue_deleted", "mem_used"),
    *("disk_free", "fd_used", "sockets_used", "proc_used", "loop_lag"),
    *("cpu_time", "io_sync_count", "io_sync_time", "io_write_count", "io_write_bytes"),
    *("memory_queue_procs", "memory_definitions", "memory_unfinished_messages", "memory_transactions"),
    *("memory_unread_output", "memory_routes", "memory_connections", "memory_uploads"),
)


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    in_real_time(made)
    made.stats.start()
    made.broker.tick()
    return made


def in_real_time(harness: Harness) -> None:
    """The clock is not taken for one that is advanced."""
    harness.stats._real_time = harness.broker.clock.now


def test_the_node_and_some_virtual_hosts_look_back_a_day_the_others_eight_hours(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats_module, "MOST_VHOSTS", 1)
    harness.queue("a")
    other = harness.broker.add_vhost("other")
    other.declare_queue("a")
    session = LocalSession(in_process_access(other), lambda tag, delivered: None)
    for _ in range(DAY + 60):
        session.publish("", "a", b"x")
        harness.publish("a")
        harness.pass_by(60)
    day = Windows(rates=Window(24 * 3600, 900))
    for told, hours in ((harness.stats.of_node(day), 24), (harness.stats.of_vhosts(["/"], day), 24)):
        seen = samples_of(told["message_stats"]["publish_details"])
        assert len(seen) == hours * 4 + 1
        assert {later - earlier for later, earlier in pairwise(seen)} == {15 * (1 if "churn_rates" not in told else 2)}
    assert len(samples_of(harness.stats.of_vhosts(["other"], day)["message_stats"]["publish_details"])) == 32


def test_a_queue_has_ten_minutes_and_an_hour(harness: Harness) -> None:
    queue = harness.queue("a")
    for _ in range(60 * 12 + 40):
        harness.publish("a", 1)
        harness.pass_by(INTERVAL)
    for step, age in ((5, 600), (60, 3600)):
        window = Window(age, step)
        told = harness.of(queue, Windows(rates=window, lengths=window))
        for detail in (told["message_stats"]["publish_details"], told["messages_ready_details"]):
            seen = samples_of(detail)
            assert len(seen) == age // step + 1
            assert {later - earlier for later, earlier in pairwise(seen)} == {step // 5}


def test_objects_beyond_a_number_keep_five_minutes_and_what_was_before_is_unknown(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MOST_LONG", 1)
    queues = [harness.queue(name) for name in ("a", "b", "c")]

    def seen() -> list[int]:
        window = Windows(rates=Window(600, 5))
        return [len(samples_of(harness.of(queue, window)["message_stats"]["publish_details"])) for queue in queues]

    for name in ("a", "b"):
        harness.publish(name)
        harness.pass_by(INTERVAL)
    for _ in range(150):
        harness.publish("a")
        harness.publish("b")
        harness.pass_by(INTERVAL)
    assert seen() == [RECENT + 1, FEWER + 1, RECENT + 1]
    harness.vhost.delete_queue("a")
    harness.pass_by(INTERVAL)
    harness.publish("c")
    harness.pass_by(INTERVAL)
    kept = harness.stats._objects.by_object
    assert [kept[queue].is_long for queue in queues[1:]] == [False, True]


def test_the_history_of_an_object_is_small(harness: Harness) -> None:
    """In bytes: of a queue in use all the time, and of one that was used once."""
    busy, idle = harness.queue("busy"), harness.queue("idle")
    harness.publish("idle")
    for _ in range(HOUR * 12 + 20):
        harness.publish("busy")
        harness.pass_by(INTERVAL)
    sizes = [bytes_of(harness.stats._objects.by_object[queue]) for queue in (busy, idle)]
    assert sizes[0] < 19_000
    assert sizes[1] < 1_000


def bytes_of(history: History) -> int:
    parts = [history, history.recent, history._minutes]
    return sum(sys.getsizeof(part) + sys.getsizeof(getattr(part, "_rows", None)) for part in parts)


def test_a_history_goes_on_after_a_restart_with_a_gap() -> None:
    """The second broker starts ten minutes after the first has ended. Its counters begin at zero."""
    first, second = Harness(), Harness()
    for harness in (first, second):
        harness.queue("a")
    first.stats.start()
    first.broker.tick()
    for _ in range(20):
        first.publish("a", 6)
        first.pass_by(60)
    ended = first.broker.clock.wall()
    saved = decoded(encoded(first.stats.saved()))
    second.pass_by(20 * 60 + 600)
    second.stats.start()
    second.broker.tick()
    second.stats.restore(saved)
    second.pass_by(60)
    second.publish("a", 3)
    second.pass_by(60)
    window = Window(3600, 60)
    told = second.stats.of_node(Windows(rates=window, lengths=window))
    samples = told["message_stats"]["publish_details"]["samples"]
    before = [one["sample"] for one in samples if one["timestamp"] <= ended * 1000]
    assert [one["sample"] for one in samples if one["timestamp"] > ended * 1000] == [3, 0]
    assert before == list(range(120, 0, -6))
    assert told["message_stats"]["publish_details"]["avg_rate"] == 3 / 3600
    assert (
        second.stats.of_vhosts(["/"], Windows(rates=window))["message_stats"]["publish_details"]["samples"] == samples
    )
    assert len(decoded(encoded(second.stats.saved())).spans) == 2  # the third run has both
    of_queue = second.of(second.vhost.queues["a"], Windows(rates=window, lengths=window))  # this run only
    for detail in (of_queue["message_stats"]["publish_details"], of_queue["messages_details"]):
        assert [one["sample"] for one in detail["samples"]] == [3, 0]


def test_a_history_of_0_2_0_is_kept_with_gaps_in_what_it_did_not_count() -> None:
    harness = Harness()
    harness.pass_by(3600)
    wall = harness.broker.clock.wall()
    node = b"".join(
        array("q", (tick, *(1000 * tick + place for place in range(len(COLUMNS_OF_0_2_0))))).tobytes()
        for tick in range(3)
    )
    vhost = array("q", (2, *range(len(TOTAL)))).tobytes()
    file = {"version": 1, "byte_order": sys.byteorder, "columns": COLUMNS_OF_0_2_0, "epoch": wall - 50}
    file |= {"spans": [[0, 2]], "node": (node, node), "vhosts": {"/": (vhost, vhost)}}
    harness.stats.start()
    harness.broker.tick()
    harness.stats.restore(decoded(zlib.compress(msgspec.msgpack.encode(file))))
    harness.pass_by(5)
    window = Window(60, 5)
    told = harness.stats.of_node(Windows(window, window, window))
    for name, row in (("publish", told["message_stats"]), ("queue_created", told["churn_rates"])):
        place = COLUMNS_OF_0_2_0.index(name)
        samples = [one["sample"] for one in row[f"{name}_details"]["samples"]]
        assert samples == [0, 0, 2000 + place, 1000 + place, place], name
    place = COLUMNS_OF_0_2_0.index("memory_uploads")
    samples = told["measures"]["memory_uploads_details"]["samples"]
    assert [one["sample"] for one in samples] == [0, 0, 2000 + place, 1000 + place, place]
    assert [one["sample"] for one in told["traffic"]["recv_oct_details"]["samples"]] == [0, 0]
    assert told["traffic"]["recv_oct_details"]["avg"] == 0
    vhosts = harness.stats.of_vhosts(["/"], Windows(window))
    of_vhost, bytes_received = vhosts["message_stats"], vhosts["recv_oct_details"]
    assert of_vhost["deliver_details"]["samples"][2]["sample"] == 1
    assert [one["sample"] for one in bytes_received["samples"]] == [0, 0]  # not counted by then
    assert decoded(encoded(harness.stats.saved())).node == harness.stats.saved().node  # for the next run


def test_a_saved_history_that_does_not_fit_is_refused_or_left_out() -> None:
    harness = Harness()
    harness.stats.start()
    harness.broker.tick()
    good = encoded(harness.stats.saved())
    for bad in (b"", b"\0" * 100, good[: len(good) // 2], encoded(harness.stats.saved()._replace(node=(b"123", b"")))):
        with pytest.raises(ValueError, match=r"."):
            decoded(bad)
    ahead = SavedHistory(harness.broker.clock.wall() + 3600, [[0, 10]], (b"", b""), {})
    harness.stats.restore(ahead)  # the clock was set back since
    assert len(harness.stats.saved().spans) == 1

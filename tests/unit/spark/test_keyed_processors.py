"""Any order of queues, batches, restarts and moments gives the same sessions and pairs, and all rows add up.

The processors run in PySpark's tester of stateful processors: its state, timers and clock, without a session.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.durations import LATEST
from leveret.spark.jobs.join import JoinProcessor
from leveret.spark.jobs.join_windows import LEFT, RIGHT, JoinWindows
from leveret.spark.jobs.keyed_state import CLOSE, HOLD, REFUSED, RESULT, STATE, TERMS, WAIT, KeyedProcessor
from leveret.spark.jobs.session_windows import SessionWindows
from leveret.spark.jobs.sessions import SessionsProcessor

LENGTH = 100  # the gap, or the time within which pairs are found
NOTHING: dict[str, Any] = dict.fromkeys(("reason", "ask", "until", "side", "hold"))
Make = Callable[[], KeyedProcessor]


def sessions() -> KeyedProcessor:
    return SessionsProcessor(SessionWindows(LENGTH, 10_000), (), "count")


def outer_join() -> KeyedProcessor:
    return JoinProcessor(JoinWindows(LENGTH), is_outer=True)


class Query:
    """A query over messages of (key, side, time): its results, and its rows."""

    def __init__(self, make: Make, clock: int = 1, *, hold: bool) -> None:
        self._make, self._hold = make, hold
        self._tester = TwsTester(make(), timeMode="ProcessingTime")
        self._keys: set[str] = set()
        self._now = clock
        self._tester.setProcessingTime(clock)
        self.results: list[dict[str, Any]] = []
        self.counts = Counts()

    def batch(self, messages: list[tuple[str, str, int]]) -> None:
        for key in sorted({message[0] for message in messages}):
            rows = [(side, time) for name, side, time in messages if name == key]
            self._keys.add(key)
            body = {"body": b"{}", "envelope": '{"routing_key": "k"}', "values": []}
            given_ = [
                Row(**(NOTHING | body | {"side": side, "time": time, "hold": self._hold, "body": b"%d" % time}))
                for side, time in rows
            ]
            self.counts += Counts(read=len(rows))
            self._seen(self._tester.test(f"={key}", given_))

    def ask(self, request: str, until: int | None = None) -> None:
        self._hold = self._hold if request == CLOSE else request == HOLD
        for key in sorted(self._keys):
            self._seen(self._tester.test(f"={key}", [Row(**(NOTHING | {"ask": request, "until": until}))]))

    def pass_time(self, milliseconds: int) -> None:
        self._now += milliseconds
        self._seen(self._tester.setProcessingTime(self._now))  # type: ignore[arg-type]

    def restart(self) -> None:
        """Without timers: sessions and rows that are held have none."""
        after = TwsTester(self._make(), timeMode="ProcessingTime")
        for key in self._keys:
            after.updateListState(STATE, f"={key}", self._tester.peekListState(STATE, f"={key}"))
        after.setProcessingTime(self._now)
        self._tester = after

    def _seen(self, rows: list[Row]) -> None:
        assert all(row.kind != REFUSED for row in rows)
        self.results += [json.loads(row.body) for row in rows if row.kind == RESULT]
        self.counts += sum((Counts(**{term: row[term] for term in TERMS}) for row in rows), Counts())
        assert self.counts.adds_up


def in_order(results: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(one, sort_keys=True) for one in results)


def read_at_once(make: Make, messages: list[tuple[str, str, int]]) -> list[str]:
    query = Query(make, hold=True)
    query.batch(messages)
    query.ask(CLOSE, LATEST)
    assert query.counts.held == 0
    return in_order(query.results)


MESSAGES = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([LEFT, RIGHT]), st.integers(0, 400)), max_size=15, unique=True
)
ORDERS = MESSAGES.flatmap(lambda messages: st.tuples(st.just(messages), st.permutations(messages)))
SIZES = st.lists(st.integers(1, 3), min_size=8, max_size=15)
CLOCKS = st.sampled_from([1, 400, 10_000])  # messages of the future and of the moment, and a backlog
JOBS = st.sampled_from([sessions, outer_join])


def batches_of(messages: list[Any], sizes: list[int]) -> list[list[Any]]:
    found, rest = [], list(messages)
    for size in sizes:
        found.append(rest[:size])
        rest = rest[size:]
    return [batch for batch in (*found, rest) if batch]


@settings(deadline=None)
@given(
    JOBS, CLOCKS, ORDERS, SIZES, st.lists(st.integers(1, 400), min_size=16, max_size=16), st.sets(st.integers(0, 15))
)
def test_a_run_that_ends_does_not_depend_on_order_batches_moments_and_restarts(
    make: Make, clock: int, orders: tuple[list[Any], list[Any]], sizes: list[int], pauses: list[int], restarts: set[int]
) -> None:
    messages, other = orders
    query = Query(make, clock, hold=True)
    for number, batch in enumerate(batches_of(other, sizes)):
        query.batch(batch)
        query.pass_time(pauses[number])
        if number in restarts:
            query.restart()
    assert query.counts.late == 0
    query.ask(CLOSE, LATEST)
    assert in_order(query.results) == read_at_once(make, messages)
    assert query.counts.held == 0


@settings(deadline=None)
@given(JOBS, CLOCKS, ORDERS, SIZES, st.lists(st.integers(1, 5), min_size=16, max_size=16))
def test_a_continuous_run_does_not_depend_on_order_and_batches_that_are_read_in_time(
    make: Make, clock: int, orders: tuple[list[Any], list[Any]], sizes: list[int], pauses: list[int]
) -> None:
    messages, other = orders
    query = Query(make, clock, hold=False)
    for batch, pause in zip(batches_of(other, sizes), pauses, strict=False):
        query.batch(batch)
        query.pass_time(pause)  # all of them together are less than the gap
    for _ in range(10):
        query.pass_time(LENGTH)
    assert in_order(query.results) == read_at_once(make, messages)
    assert (query.counts.held, query.counts.late) == (0, 0)


@settings(deadline=None)
@given(JOBS, MESSAGES, SIZES, st.lists(st.integers(1, 400), min_size=16, max_size=16), st.sets(st.integers(0, 15)))
def test_rows_add_up_whenever_timers_fire_and_runs_change(
    make: Make, messages: list[Any], sizes: list[int], pauses: list[int], changes: set[int]
) -> None:
    query = Query(make, hold=False)
    for number, batch in enumerate(batches_of(messages, sizes)):
        query.batch(batch)
        query.pass_time(pauses[number])
        if number in changes:
            query.ask(WAIT if number % 2 else HOLD)
    query.ask(WAIT)
    for _ in range(20):
        query.pass_time(LENGTH)
    assert query.counts.held == 0
    assert query.counts.out + query.counts.late + query.counts.filtered == len(messages)
    if make is sessions:
        assert sum(one["messages"] for one in query.results) == len(messages)

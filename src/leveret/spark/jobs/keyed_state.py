"""State by key for jobs whose results need several messages, with timers that depend on no watermark.

Spark's watermark is the highest time that any queue has shown, and rows behind it are dropped: behind a backlog in
several queues, these are messages that are only read later. So these jobs use transformWithState by processing time.
The state of a key is a list of rows, each with the time when it is ``due``; one timer is set for the earliest.

Of the input rows, those with a ``reason`` are refused and touch no state, those with ``hold`` wait without a timer, and
those with ``ask`` are no messages but requests (see state_requests.py). Output rows are messages of several kinds, and
tallies for the sum of rows (see accounting.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import ArrayType, BinaryType, BooleanType, LongType, MapType, StringType, StructField, StructType

from leveret.spark.jobs.accounting import Counts, summed
from leveret.spark.jobs.durations import FOREVER
from leveret.spark.jobs.messages import own_headers, with_header
from leveret.spark.schema import PROPERTIES

STATE = "rows"  # the name of the state variable
ROWS = StructType(  # that a processor takes
    [
        StructField("key", StringType()),
        StructField("reason", StringType()),
        StructField("time", LongType()),
        StructField("side", StringType()),
        StructField("values", ArrayType(StringType())),
        StructField("body", BinaryType()),
        StructField("envelope", StringType()),
        StructField("hold", BooleanType()),
        StructField("ask", StringType()),
        StructField("until", LongType()),
    ]
)
ENVELOPE = StructType(
    [
        StructField("routing_key", StringType()),
        StructField("headers", MapType(StringType(), StringType())),
        StructField("properties", PROPERTIES),
    ]
)
TERMS = ("out", "filtered", "refused", "late", "held")
OUTPUT = "kind STRING, body BINARY, envelope STRING, reason STRING, " + ", ".join(f"{term} INT" for term in TERMS)
CLOSE, HOLD, WAIT = "close", "hold", "wait"  # requests
RESULT, REFUSED, TALLY = "result", "refused", "tally"


@dataclass
class Step:
    """What one call has done: the state of the key after it, messages, and how many rows went where."""

    state: list[Any]
    messages: list[Row] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    def emit(self, kind: str, body: bytes | None, envelope: str | None, reason: str | None = None) -> None:
        self.messages.append(Row(kind=kind, body=body, envelope=envelope, reason=reason, **dict.fromkeys(TERMS, 0)))

    def count(self, **terms: int) -> None:
        self.counts += Counts(**terms)

    def rows(self) -> Iterator[Row]:
        yield from self.messages
        terms = {term: getattr(self.counts, term) for term in TERMS}
        if any(terms.values()):
            yield Row(kind=TALLY, body=None, envelope=None, reason=None, **terms)


class KeyedProcessor(StatefulProcessor):
    """``columns``: those of a row of the state. Rows have the attribute ``due``."""

    columns: ClassVar[str]

    def take(self, step: Step, key: str, rows: list[Row], now: int) -> None:
        """Add messages to the state."""
        raise NotImplementedError

    def pass_time(self, step: Step, key: str, now: int) -> None:
        """Handle the rows of the state that are due."""
        raise NotImplementedError

    def close_until(self, step: Step, key: str, until: int, now: int) -> None:
        """Handle the rows of the state that are not later than ``until`` as if they were due."""
        raise NotImplementedError

    def wait_again(self, step: Step, now: int, *, hold: bool) -> None:
        """Open rows of the state wait without a timer, or with one from now on."""
        raise NotImplementedError

    def decoded(self, kept: tuple[Any, ...]) -> Any:
        """A row of the state, from its columns."""
        raise NotImplementedError

    def encoded(self, row: Any) -> tuple[Any, ...]:
        raise NotImplementedError

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getListState(STATE, self.columns)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        now = timerValues.getCurrentProcessingTimeInMs()
        given = list(rows)
        step = self._step()
        before = step.state
        for row in given:
            if row.reason is not None:
                step.emit(REFUSED, row.body, row.envelope, row.reason)
                step.count(refused=1)
        messages = [row for row in given if row.reason is None and row.ask is None]
        if messages:
            self.take(step, key[0][1:], messages, now)
        for row in given:
            if row.ask == CLOSE:
                self.close_until(step, key[0][1:], row.until, now)
            elif row.ask is not None:
                self.wait_again(step, now, hold=row.ask == HOLD)
        if step.state is not before:
            self._keep(step.state)
        yield from step.rows()

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Any]:
        step = self._step()
        self.pass_time(step, key[0][1:], timerValues.getCurrentProcessingTimeInMs())
        self._keep(step.state, expiredTimerInfo.getExpiryTimeInMs())
        yield from step.rows()

    def _step(self) -> Step:
        return Step([self.decoded(tuple(kept)) for kept in self._state.get()])

    def _keep(self, state: Sequence[Any], fired: int | None = None) -> None:
        """Store the state of the key and set its timer. Spark deletes the timer that has ``fired`` by itself."""
        if state:
            self._state.put([self.encoded(row) for row in state])
        else:
            self._state.clear()
        due = min((row.due for row in state if row.due < FOREVER), default=None)
        armed = set(self._handle.listTimers())
        for old in armed - {due, fired}:
            self._handle.deleteTimer(old)
        if due is not None and due not in armed:
            self._handle.registerTimer(due)


def input_rows(messages: DataFrame, key: Column, time: Column, reason: Column, **columns: Column) -> DataFrame:
    """The messages as a processor takes them. A refused one has a key of its own, so that they are spread evenly."""
    place = F.concat(F.lit("!"), "queue", F.lit("/"), F.col("offset").cast("string"))
    given = {
        "key": F.when(reason.isNull(), F.concat(F.lit("="), key.cast("string"))).otherwise(place),
        "reason": reason,
        "time": time,
        "body": F.col("body"),
        "envelope": envelope(),
        **columns,
    }
    nothing = F.lit(None)
    return messages.select(*(given.get(one.name, nothing).cast(one.dataType).alias(one.name) for one in ROWS))


def envelope() -> Column:
    """What surrounds a body, as text: state and results have few types."""
    properties = F.col("properties").dropFields("user_id")
    return F.to_json(F.struct("routing_key", own_headers().alias("headers"), properties.alias("properties")))


def result_envelope(type_: str, routing_key: str) -> str:
    properties = {"content_type": "application/json", "type": type_}
    return json.dumps({"routing_key": routing_key, "headers": {}, "properties": properties})


class Target(NamedTuple):
    """Where messages of one kind go, and the header that says why; without an exchange they are only counted."""

    exchange: str | None
    header: str | None = None


def output_messages(rows: DataFrame, targets: Mapping[str, Target]) -> DataFrame:
    """The messages for the sink, by their kind."""
    counted = summed(rows, **{term: F.col(term) for term in TERMS})
    exchange, headers = F.lit(None).cast("string"), F.col("inside.headers")
    for kind, (name, header) in targets.items():
        is_it = F.col("kind") == kind
        exchange = F.when(is_it, F.lit(name)).otherwise(exchange)
        if header is not None:
            headers = F.when(is_it, with_header(headers, header, F.col("reason"))).otherwise(headers)
    inside = F.from_json("envelope", ENVELOPE)
    opened = counted.withColumn("exchange", exchange).where("exchange IS NOT NULL").withColumn("inside", inside)
    return opened.select(
        "body",
        F.col("inside.routing_key").alias("routing_key"),
        "exchange",
        headers.alias("headers"),
        F.col("inside.properties").dropFields("user_id").alias("properties"),
    )

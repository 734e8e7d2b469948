"""join: messages of two sources with the same key, within a time, as one message.

Each pair is published once, as a JSON object with the key and the two bodies, which stay as they are. With ``--how
left``, a message of the left side that found no partner is published with ``null`` as its right side. Other messages
without a partner are counted, and published to another exchange if one is given.

Spark's own join of two streams needs watermarks, and drops rows behind them. Here both sides are one stream of rows
with state by key; see join_windows.py for how long a message waits, and state_requests.py for runs that end.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.bodies import json_problem
from leveret.spark.jobs.durations import milliseconds_of
from leveret.spark.jobs.job import Job, PassingOptions, SourceOptions, required, setting
from leveret.spark.jobs.join_windows import LEFT, RIGHT, JoinWindows, Waiting
from leveret.spark.jobs.keyed_messages import ARRIVAL, key_of, milliseconds_since_1970, reason_of
from leveret.spark.jobs.keyed_state import (
    REFUSED,
    RESULT,
    KeyedProcessor,
    Step,
    Target,
    input_rows,
    output_messages,
    result_envelope,
)
from leveret.spark.jobs.messages import read_stream
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.refusals import HELP, refusal
from leveret.spark.jobs.route import with_fields
from leveret.spark.jobs.running_job import Queries
from leveret.spark.jobs.state_requests import KeyedQuery, run
from leveret.spark.offsets import Source

UNMATCHED = "unmatched"
EQUALS = re.compile(r"(?<![<>=!])=(?!=)")


@dataclass(frozen=True, kw_only=True)
class JoinOptions(PassingOptions):
    on: str = setting("The keys: SQL of the left side = SQL of the right side, or one SQL for both.", metavar="SQL")
    within: str = setting("How far the times of two messages may be apart.", "10 minutes", metavar="TIME")
    left_queue: str | None = setting("Queue or stream of the left side.", None, metavar="QUEUE")
    left_super_stream: str | None = setting("Super stream of the left side.", None, metavar="EXCHANGE")
    right_queue: str | None = setting("Queue or stream of the right side.", None, metavar="QUEUE")
    right_super_stream: str | None = setting("Super stream of the right side.", None, metavar="EXCHANGE")
    left_schema: str | None = setting("Fields of a JSON body of the left side.", None, metavar="DDL")
    right_schema: str | None = setting("Fields of a JSON body of the right side.", None, metavar="DDL")
    time: str = setting("SQL for the time of a message; timestamp is its arrival.", ARRIVAL, metavar="SQL")
    how: str = setting("inner or left.", "inner", choices=("inner", "left"), metavar="WORD")
    unmatched_exchange: str | None = setting("Exchange for messages without a partner.", None, metavar="EXCHANGE")
    close_open: bool = setting("No message waits for a partner at the end of the run.", False)
    dead_letter_exchange: str | None = setting(HELP, None, metavar="EXCHANGE")

    def needs_queues(self) -> bool:
        return False

    def check(self) -> None:
        super().check()
        if any(name is not None for name in self.chosen()):
            raise ConfigError(
                "join reads two sources: give --left-queue and --right-queue (or --left-super-stream ...)"
            )
        for side in (LEFT, RIGHT):
            self.source(side)
            self.key(side)
        milliseconds_of(self.within, "--within")
        if self.close_open and self.continuous:
            raise ConfigError("--close-open ends the waiting at the end of a run: remove --continuous")

    def source(self, side: str) -> SourceOptions:
        """The options of one side, as of a job that reads only this."""
        queue, super_stream = getattr(self, f"{side}_queue"), getattr(self, f"{side}_super_stream")
        if (queue is None) == (super_stream is None):
            raise ConfigError(f"specify the {side} side with exactly one of --{side}-queue and --{side}-super-stream")
        shared = {one.name: getattr(self, one.name) for one in fields(SourceOptions)}
        consumer = f"{self.consumer_name or 'join'}-{side}"
        return SourceOptions(**(shared | {"queue": queue, "super_stream": super_stream, "consumer_name": consumer}))

    def key(self, side: str) -> str:
        """The SQL of this side in ``--on``."""
        sides = [part.strip() for part in EQUALS.split(self.on)]
        if len(sides) > 2 or not all(sides):
            raise ConfigError(f"--on is {self.on!r}: write SQL = SQL, as order_id = id, or one SQL for both sides")
        return sides[0] if side == LEFT else sides[-1]


def start(spark: SparkSession, options: JoinOptions) -> Queries:
    required(options.exchange, "exchange", "the pairs are published to this exchange")
    sides = [rows_of(read_stream(spark, options.source(side), side), options, side) for side in (LEFT, RIGHT)]
    within = milliseconds_of(options.within, "--within")
    query = KeyedQuery(
        "join",
        sides[0].unionByName(sides[1]),
        JoinProcessor(JoinWindows(within), is_outer=options.how == "left"),
        lambda rows: messages_of(rows, options),
        last=F.col("time"),
        is_open=F.lit(True),
    )
    return run(spark, query, options, within, lambda: sources_of(options), close_open=options.close_open)


def sources_of(options: JoinOptions) -> list[Source]:
    return [queue for side in (LEFT, RIGHT) for queue in queues_of(options.source(side))]


def rows_of(messages: DataFrame, options: JoinOptions, side: str) -> DataFrame:
    by = options.key(side)
    rows = with_fields(messages, options.left_schema if side == LEFT else options.right_schema)
    rows = rows.select(*messages.columns, key_of(by).alias("key"), milliseconds_since_1970(options.time).alias("time"))
    reason = F.coalesce(reason_of(by, options.time), json_problem())
    rows = rows.withColumn("reason", refusal("join", options.dead_letter_exchange, reason))
    return input_rows(rows, F.col("key"), F.col("time"), F.col("reason"), side=F.lit(side))


def messages_of(rows: DataFrame, options: JoinOptions) -> DataFrame:
    targets = {
        RESULT: Target(options.exchange),
        REFUSED: Target(options.dead_letter_exchange, "x-join-error"),
        UNMATCHED: Target(options.unmatched_exchange, "x-unmatched"),
    }
    return output_messages(rows, targets)


class JoinProcessor(KeyedProcessor):
    columns = (
        "side STRING, time BIGINT, body BINARY, envelope STRING, due BIGINT, is_matched BOOLEAN, is_postponed BOOLEAN"
    )

    def __init__(self, windows: JoinWindows, *, is_outer: bool) -> None:
        self._windows = windows
        self._is_outer = is_outer

    def take(self, step: Step, key: str, rows: list[Row], now: int) -> None:
        new = [
            Waiting(row.side, row.time, bytes(row.body), row.envelope, self._windows.due(row.time, now, hold=row.hold))
            for row in rows
        ]
        step.state, pairs, matched = self._windows.add(step.state, new)
        step.count(out=matched, held=len(rows) - matched)
        for pair in pairs:
            publish(step, key, pair.left, pair.right.body)

    def pass_time(self, step: Step, key: str, now: int) -> None:
        step.state, gone = self._windows.pass_time(step.state, now)
        self._leave(step, key, gone)

    def close_until(self, step: Step, key: str, until: int, now: int) -> None:
        step.state, gone = self._windows.close(step.state, until)
        self._leave(step, key, gone)

    def wait_again(self, step: Step, now: int, *, hold: bool) -> None:
        step.state = self._windows.wait_again(step.state, now, hold=hold)

    def _leave(self, step: Step, key: str, gone: list[Waiting]) -> None:
        for one in gone:
            if one.is_matched:
                continue
            if self._is_outer and one.side == LEFT:
                step.count(out=1, held=-1)
                publish(step, key, one, b"null")
            else:
                step.count(filtered=1, held=-1)
                step.emit(UNMATCHED, one.body, one.envelope, one.side)

    def decoded(self, kept: tuple[Any, ...]) -> Waiting:
        side, time, body, *rest = kept
        return Waiting(side, time, bytes(body), *rest)

    def encoded(self, row: Waiting) -> tuple[Any, ...]:
        return tuple(row)


def publish(step: Step, key: str, left: Waiting, right: bytes) -> None:
    """The bodies are JSON, and stay as they are."""
    name = json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass")
    body = b'{"key": %b, "left": %b, "right": %b}' % (name, left.body, right)
    step.emit(RESULT, body, result_envelope("join", json.loads(left.envelope or "{}")["routing_key"]))


JOB = Job("join", JoinOptions, start)

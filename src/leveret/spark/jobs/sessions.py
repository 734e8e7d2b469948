"""sessions: one message for each session, that is for messages of one key without a gap between them.

A session of a key ends when no message follows for ``--gap``. It is published once, when it closes, with its key, its
first and last time, and the number of its messages; ``--sum`` adds sums. See session_windows.py for when it closes, and
state_requests.py for runs that end.

A late message would have belonged to a session that is closed already. ``--late count`` puts it into a session of its
own, whose message says how many of its messages were late; ``side`` publishes it to another exchange; ``drop`` drops
it. Late messages are counted in any case.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from itertools import compress
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.durations import milliseconds_of
from leveret.spark.jobs.job import Job, PassingOptions, required, setting
from leveret.spark.jobs.keyed_messages import ARRIVAL, HEADER, key_of, milliseconds_since_1970, reason_of
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
from leveret.spark.jobs.session_windows import Event, Session, SessionWindows
from leveret.spark.jobs.state_requests import KeyedQuery, run

LATE = "late"
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"


@dataclass(frozen=True, kw_only=True)
class SessionsOptions(PassingOptions):
    by: str = setting("Key of a session: header:NAME, routing-key or SQL.", metavar="WHAT")
    gap: str = setting("A session ends when its key has no message for this time.", "30 minutes", metavar="TIME")
    time: str = setting("SQL for the time of a message; timestamp is its arrival.", ARRIVAL, metavar="SQL")
    sum: tuple[str, ...] = setting("SQL for a number to sum up; repeatable.", (), metavar="SQL")
    schema: str | None = setting("Fields of a JSON body, such as amount DOUBLE, at TIMESTAMP.", None, metavar="DDL")
    late: str = setting(
        "Late messages: count, side or drop.", "count", choices=("count", "side", "drop"), metavar="WORD"
    )
    late_exchange: str | None = setting("With --late side: exchange for late messages.", None, metavar="EXCHANGE")
    remember: str = setting("How long late messages of a closed session are recognized.", "1 day", metavar="TIME")
    close_open: bool = setting("Close all sessions at the end of the run.", False)
    dead_letter_exchange: str | None = setting(HELP, None, metavar="EXCHANGE")

    def check(self) -> None:
        super().check()
        self.windows()
        if self.by == HEADER:
            raise ConfigError("--by is 'header:': give the name of the header, as header:customer")
        if (self.late == "side") != (self.late_exchange is not None):
            raise ConfigError("--late side and --late-exchange belong together: --late side --late-exchange late")
        if self.close_open and self.continuous:
            raise ConfigError("--close-open closes sessions at the end of a run: remove --continuous")

    def windows(self) -> SessionWindows:
        return SessionWindows(milliseconds_of(self.gap, "--gap"), milliseconds_of(self.remember, "--remember"))


def start(spark: SparkSession, options: SessionsOptions) -> Queries:
    required(options.exchange, "exchange", "the sessions are published to this exchange")
    query = KeyedQuery(
        "sessions",
        rows_of(read_stream(spark, options, "sessions"), options),
        SessionsProcessor(options.windows(), options.sum, options.late),
        lambda rows: messages_of(rows, options),
        last=F.col("end"),
        is_open=~F.col("is_closed"),
    )
    length = options.windows().gap
    return run(spark, query, options, length, lambda: queues_of(options), close_open=options.close_open)


def rows_of(messages: DataFrame, options: SessionsOptions) -> DataFrame:
    rows = with_fields(messages, options.schema)
    numbers = [F.coalesce(F.expr(sql).cast("string"), F.lit("0")) for sql in options.sum]
    rows = rows.select(
        *messages.columns,
        key_of(options.by).alias("key"),
        milliseconds_since_1970(options.time).alias("time"),
        F.array(*numbers).cast("array<string>").alias("values"),
    )
    reason = reduce(
        lambda known, at: known.when(
            ~F.col("values")[at].rlike(NUMBER), F.lit(f"--sum {options.sum[at]} is no number")
        ),
        range(len(numbers)),
        reason_of(options.by, options.time),
    )
    rows = rows.withColumn("reason", refusal("sessions", options.dead_letter_exchange, reason))
    # Bodies are only needed where the message itself may be published.
    needed = F.lit(True) if options.late == "side" else F.col("reason").isNotNull()
    body = F.when(needed, F.col("body"))
    return input_rows(rows, F.col("key"), F.col("time"), F.col("reason"), values=F.col("values"), body=body)


def messages_of(rows: DataFrame, options: SessionsOptions) -> DataFrame:
    targets = {
        RESULT: Target(options.exchange),
        REFUSED: Target(options.dead_letter_exchange, "x-sessions-error"),
        LATE: Target(options.late_exchange, "x-late"),
    }
    return output_messages(rows, targets)


class SessionsProcessor(KeyedProcessor):
    columns = (
        "start BIGINT, end BIGINT, messages BIGINT, late BIGINT, sums STRING, due BIGINT, "
        "is_closed BOOLEAN, is_postponed BOOLEAN"
    )

    def __init__(self, windows: SessionWindows, sums: tuple[str, ...], late: str) -> None:
        self._windows = windows
        self._sums = sums
        self._late = late

    def take(self, step: Step, key: str, rows: list[Row], now: int) -> None:
        late = self._windows.late(step.state, [row.time for row in rows])
        step.count(late=sum(late), held=len(rows) - sum(late))
        if self._late == "side":
            for row in compress(rows, late):
                step.emit(LATE, row.body, row.envelope, "its session is closed")
        taken = [row for row, is_late in zip(rows, late, strict=True) if self._late == "count" or not is_late]
        events = [Event(row.time, tuple(map(Decimal, row["values"]))) for row in taken]
        if events:
            step.state = self._windows.add(step.state, events, now, hold=taken[0].hold)

    def pass_time(self, step: Step, key: str, now: int) -> None:
        step.state, closed = self._windows.pass_time(step.state, now)
        self._publish(step, key, closed)

    def close_until(self, step: Step, key: str, until: int, now: int) -> None:
        step.state, closed = self._windows.close(step.state, until, now)
        self._publish(step, key, closed)

    def wait_again(self, step: Step, now: int, *, hold: bool) -> None:
        step.state = self._windows.wait_again(step.state, now, hold=hold)

    def _publish(self, step: Step, key: str, closed: list[Session]) -> None:
        for session in sorted(closed):
            on_time = session.messages - session.late
            step.count(out=on_time, held=-on_time)
            step.emit(RESULT, self.body_of(key, session), result_envelope("session", "session"))

    def body_of(self, key: str, session: Session) -> bytes:
        facts = {
            "key": key,
            "start": iso(session.start),
            "end": iso(session.end),
            "messages": session.messages,
            "late": session.late,
        }
        text = json.dumps(facts, ensure_ascii=False)
        if self._sums:
            # Written by hand: json has no exact decimals.
            sums = ", ".join(
                f"{json.dumps(sql)}: {total:f}" for sql, total in zip(self._sums, session.sums, strict=True)
            )
            text = f'{text[:-1]}, "sums": {{{sums}}}}}'
        return text.encode("utf-8", "surrogatepass")

    def decoded(self, kept: tuple[Any, ...]) -> Session:
        start, end, messages, late, sums, *rest = kept
        return Session(start, end, messages, late, tuple(map(Decimal, sums.split())), *rest)

    def encoded(self, row: Session) -> tuple[Any, ...]:
        return (*row[:4], " ".join(map(str, row.sums)), *row[5:])


def iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).replace(microsecond=milliseconds % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


JOB = Job("sessions", SessionsOptions, start)

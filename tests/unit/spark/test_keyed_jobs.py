"""Options of mask, sessions and join, and what their processors do with late and unmatched messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import Counts
from leveret.spark.jobs.durations import FOREVER, milliseconds_of
from leveret.spark.jobs.join import JoinOptions, JoinProcessor
from leveret.spark.jobs.join_windows import LEFT, RIGHT, JoinWindows
from leveret.spark.jobs.keyed_state import Step
from leveret.spark.jobs.mask import MaskOptions, key_of
from leveret.spark.jobs.session_windows import SessionWindows
from leveret.spark.jobs.sessions import SessionsOptions, SessionsProcessor, iso

ENVELOPE = json.dumps({"routing_key": "k"})


def event(time: int, *values: str) -> Row:
    return Row(time=time, values=values, body=b"{}", envelope=ENVELOPE, hold=True)


def shown(step: Step) -> list[tuple[str, bytes, str | None]]:
    return [(row.kind, row.body, row.reason) for row in step.messages]


LATE_BODY = (
    b'{"key": "a", "start": "1970-01-01T00:00:00.050Z", "end": "1970-01-01T00:00:00.050Z", "messages": 1, "late": 1'
)


@pytest.mark.parametrize(
    ("late", "messages"),
    [
        ("count", [("result", LATE_BODY + b', "sums": {"n": 0.30000000000000000004}}', None)]),
        ("side", [("late", b"{}", "its session is closed")]),
        ("drop", []),
    ],
)
def test_late_messages_are_counted_and_treated_as_asked(late: str, messages: list[Any]) -> None:
    processor = SessionsProcessor(SessionWindows(100, 1_000), ("n",), late)
    step = Step([])
    processor.take(step, "a", [event(0, "1E+2")], now=0)
    processor.close_until(step, "a", 0, now=0)
    assert step.counts == Counts(out=1)
    assert b'"sums": {"n": 100}}' in step.messages[0].body
    after = Step([processor.decoded(processor.encoded(one)) for one in step.state])
    assert after.state == step.state
    processor.take(after, "a", [event(50, "0.30000000000000000004")], now=0)
    processor.close_until(after, "a", FOREVER, now=0)
    assert after.counts == Counts(late=1)
    assert shown(after) == messages


@pytest.mark.parametrize(
    ("is_outer", "out", "messages"),
    [
        (True, 1, [("result", b'{"key": "\xc3\xa9", "left": {}, "right": null}', None), ("unmatched", b"{}", RIGHT)]),
        (False, 0, [("unmatched", b"{}", LEFT), ("unmatched", b"{}", RIGHT)]),
    ],
)
def test_messages_without_a_partner_are_counted_and_published_as_asked(
    is_outer: bool, out: int, messages: list[Any]
) -> None:
    processor = JoinProcessor(JoinWindows(100), is_outer=is_outer)
    step = Step([])
    for side, time in ((LEFT, 0), (RIGHT, 101)):
        processor.take(step, "é", [Row(side=side, **event(time).asDict())], now=0)
    assert step.counts == Counts(held=2)
    assert [processor.decoded(processor.encoded(one)) for one in step.state] == step.state
    processor.close_until(step, "é", FOREVER, now=0)
    assert step.counts == Counts(out=out, filtered=2 - out)
    assert shown(step) == messages
    assert step.state == []


def test_lengths_of_time_have_a_unit() -> None:
    assert [milliseconds_of(text, "--gap") for text in ("5 milliseconds", "1 minute", " 2 Hours ")] == [
        5,
        60_000,
        7_200_000,
    ]
    for text in ("5", "minutes", "0 seconds", "1 month", "-1 seconds"):
        with pytest.raises(ConfigError, match=r"--gap is .*: write a number and a unit, as 500 milliseconds"):
            milliseconds_of(text, "--gap")
    assert iso(1_001) == "1970-01-01T00:00:01.001Z"


SIDES = {"left_queue": "l", "right_queue": "r", "on": "id"}


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        (MaskOptions, {"queue": "q"}, "nothing to mask: give at least one --hash"),
        (MaskOptions, {"queue": "q", "hash": ("a..b",)}, "the path 'a..b' cannot be read"),
        (SessionsOptions, {"queue": "q", "by": "header:"}, "give the name of the header, as header:customer"),
        (SessionsOptions, {"queue": "q", "by": "a", "gap": "soon"}, "--gap is 'soon'"),
        (SessionsOptions, {"queue": "q", "by": "a", "late": "side"}, "--late side and --late-exchange belong together"),
        (SessionsOptions, {"queue": "q", "by": "a", "late_exchange": "x"}, "--late side and --late-exchange belong"),
        (SessionsOptions, {"queue": "q", "by": "a", "close_open": True, "continuous": True}, "remove --continuous"),
        (JoinOptions, {**SIDES, "close_open": True, "continuous": True}, "remove --continuous"),
        (JoinOptions, {**SIDES, "queue": "q"}, "join reads two sources: give --left-queue and --right-queue"),
        (JoinOptions, {**SIDES, "right_queue": None}, "the right side with exactly one of --right-queue and"),
        (JoinOptions, {**SIDES, "left_super_stream": "s"}, "the left side with exactly one of"),
        (JoinOptions, {**SIDES, "on": "a = b = c"}, "write SQL = SQL, as order_id = id, or one SQL for both sides"),
        (JoinOptions, {**SIDES, "within": "1"}, "--within is '1'"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(kind: Any, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        kind(**given)


def test_the_keys_of_a_join_are_one_for_both_sides_or_one_for_each() -> None:
    both, each = JoinOptions(**SIDES), JoinOptions(**(SIDES | {"on": " if(a == 1, b, c) = d "}))
    assert [both.key(side) for side in (LEFT, RIGHT)] == ["id", "id"]
    assert [each.key(side) for side in (LEFT, RIGHT)] == ["if(a == 1, b, c)", "d"]
    assert [both.source(side).consumer_name for side in (LEFT, RIGHT)] == ["join-left", "join-right"]


def test_the_key_of_hashes_is_in_a_file_or_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "mask.key"
    file.write_bytes(b"sixteen bytes or more\r\n")
    assert key_of(str(file), {}) == key_of(None, {"LEVERET_MASK_KEY": "sixteen bytes or more"})
    with pytest.raises(ConfigError, match=r"in LEVERET_MASK_KEY has 0 bytes, and 16 are the least: create one with"):
        key_of(None, {})
    with pytest.raises(ConfigError, match=r"--key-file .*/none cannot be read: No such file"):
        key_of(str(tmp_path / "none"), {})

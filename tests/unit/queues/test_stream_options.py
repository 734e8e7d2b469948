"""What the arguments of a stream and of its readers ask for, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leveret.errors import PreconditionFailed
from leveret.queues.options import QueueOptions
from leveret.queues.stream_options import FAMILIES, NOT_FOR_STREAMS, Retention, reader_options
from tests.support.stream_harness import StreamHarness

STREAM = {"x-queue-type": "stream"}
WALL = 1_700_000_000.0


def options(**arguments: object) -> QueueOptions:
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return QueueOptions.of({**STREAM, **table}, durable=True)


def test_a_stream_keeps_everything_unless_it_is_told_otherwise() -> None:
    made = options()
    assert (made.kind, made.max_bytes, made.max_age, made.segment_bytes) == ("stream", None, None, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("5m", 300), ("2h", 7200), ("7D", 7 * 86400), ("1M", 30 * 86400), ("1Y", 365 * 86400)],
)
def test_age_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert options(max_age=text).max_age == seconds


@pytest.mark.parametrize("age", ["", "7", "D", "0s", "-1D", "1.5h", "7d", "1w", " 1h", "1h ", 60, True])
def test_another_age_is_refused(age: object) -> None:
    with pytest.raises(PreconditionFailed, match="x-max-age"):
        options(max_age=age)


def test_sizes_are_whole_numbers_within_reason() -> None:
    made = options(max_length_bytes=1 << 40, stream_max_segment_size_bytes=1 << 20)
    assert (made.max_bytes, made.segment_bytes) == (1 << 40, 1 << 20)
    for wrong in (0, 100, 1 << 40, "1MB"):
        with pytest.raises(PreconditionFailed, match="x-stream-max-segment-size-bytes"):
            options(stream_max_segment_size_bytes=wrong)
    with pytest.raises(PreconditionFailed, match="x-max-length-bytes"):
        options(max_length_bytes=-1)


@pytest.mark.parametrize("name", [*NOT_FOR_STREAMS, *(f"{family}s" for family in FAMILIES)])
def test_what_other_queues_understand_is_refused(name: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"invalid arg '{name}' for a queue of type stream"):
        QueueOptions.of({**STREAM, name: 1}, durable=True)


def test_arguments_that_nobody_knows_are_kept_and_have_no_effect() -> None:
    assert options(initial_cluster_size=3, stream_filter_size_bytes=32) == options()


@pytest.mark.parametrize(
    ("durable", "exclusive", "named"), [(False, False, "non-durable"), (True, True, "exclusive-owner")]
)
def test_a_stream_is_durable_and_for_all(durable: bool, exclusive: bool, named: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"invalid property '{named}' for a queue of type stream"):
        QueueOptions.of(STREAM, durable, exclusive)


def test_retention_follows_the_options() -> None:
    harness = StreamHarness()
    stream = harness.stream(max_age="1h", max_length_bytes=5000)
    assert stream.retention == Retention(5000, 3600)
    stream.apply(options())
    assert stream.retention == Retention(None, None)


# ---- readers


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ("first", "first"),
        ("last", "last"),
        ("next", "next"),
        (0, 0),
        (12345, 12345),
        ("1h", WALL - 3600),
        ("10s", WALL - 10),
        (datetime.fromtimestamp(WALL, UTC), WALL),
    ],
)
def test_a_reader_says_where_it_begins(given: object, start: object) -> None:
    found = reader_options({"x-stream-offset": given}, WALL).start
    assert found == start
    assert type(found) is type(start)


def test_a_reader_begins_at_the_end_if_it_says_nothing() -> None:
    made = reader_options({}, WALL)
    assert (made.start, made.name, made.pinned, made.filters, made.unfiltered) == ("next", None, False, None, False)


@pytest.mark.parametrize("offset", ["", "begin", "1x", "-1s", -1, 1.5, True, None, [1]])
def test_other_offsets_are_refused(offset: object) -> None:
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-stream-offset'"):
        reader_options({"x-stream-offset": offset}, WALL)


def test_filters_are_one_string_or_many() -> None:
    assert reader_options({"x-stream-filter": "eu"}, WALL).filters == {"eu"}
    made = reader_options({"x-stream-filter": ["eu", "us"], "x-stream-match-unfiltered": True}, WALL)
    assert made.filters == {"eu", "us"}
    assert made.unfiltered


@pytest.mark.parametrize("value", [[], [1], ["a", None], 5, {"a": 1}, ["x"] * 101])
def test_other_filters_are_refused(value: object) -> None:
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-stream-filter'"):
        reader_options({"x-stream-filter": value}, WALL)


def test_flags_are_true_or_false() -> None:
    with pytest.raises(PreconditionFailed, match="x-stream-match-unfiltered"):
        reader_options({"x-stream-filter": "a", "x-stream-match-unfiltered": "yes"}, WALL)
    with pytest.raises(PreconditionFailed, match="x-stream-pinned"):
        reader_options({"x-stream-consumer": "a", "x-stream-pinned": 1}, WALL)


def test_a_pinned_reader_needs_a_name() -> None:
    made = reader_options({"x-stream-consumer": "billing", "x-stream-pinned": True}, WALL)
    assert (made.name, made.pinned) == ("billing", True)
    for arguments in ({"x-stream-pinned": True}, {"x-stream-consumer": ""}, {"x-stream-consumer": 5}):
        with pytest.raises(PreconditionFailed, match="x-stream-consumer"):
            reader_options(arguments, WALL)

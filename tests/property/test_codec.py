"""The codec reads back what it writes, and any other bytes give a value or an AmqpError, never anything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from leveret.errors import AmqpError
from leveret.wire.content import body_of, body_size, make_content, properties_of, refit, with_properties
from leveret.wire.fields import decode_table, decode_value, encode_table
from leveret.wire.frames import decode_method, frame
from leveret.wire.grammar import ChannelStep, Role, Step, channel_step, connection_step
from leveret.wire.methods import METHODS, Method
from leveret.wire.properties import Properties, decode_properties, encode_properties
from tests.support.frame_reader import FrameReader
from tests.support.method_arguments import arguments_of

shorts = st.text(max_size=60)
times = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)).map(
    lambda time: time.replace(microsecond=0)
)
decimals = st.builds(
    lambda number, places: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -places)),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 255),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    decimals,
    st.text(),
    st.binary(),
    times,
)
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(shorts, inner), max_leaves=20)
tables = st.dictionaries(shorts, values, max_size=6)

OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers(0, 255),
    "str": shorts,
    "bytes": st.binary(),
    "Table": tables,
}
NAMED = {
    "delivery_tag": st.integers(0, 2**64 - 1),
    "reply_code": st.integers(0, 65535),
    "frame_max": st.integers(0, 2**32 - 1),
    "message_count": st.integers(0, 2**32 - 1),
}


@st.composite
def methods(draw: st.DrawFn) -> Method:
    method: Any = draw(st.sampled_from(list(METHODS.values())))
    made: Method = method(**{name: draw(NAMED.get(name, OF_TYPE[kind])) for name, kind in arguments_of(method).items()})
    return made


optional = st.none() | shorts
octets = st.none() | st.integers(0, 255)
properties = st.builds(
    Properties,
    **{f.name: optional for f in fields(Properties)}
    | {"headers": st.none() | tables, "timestamp": st.none() | times, "delivery_mode": octets, "priority": octets},
)
near_tables = st.binary(max_size=60).map(lambda raw: len(raw).to_bytes(4, "big") + raw)


def exact(value: object) -> object:
    """Equal only if the types are equal too, down to 1, 1.0, True and Decimal(1)."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    return type(value), str(value) if isinstance(value, Decimal) else value


@given(tables)
def test_a_table_comes_back(table: dict[str, Any]) -> None:
    wire = encode_table(table)
    back, offset = decode_table(b"\x00" + wire + b"\x00", 1, len(wire) + 1)
    assert exact(back) == exact(table)
    assert offset == len(wire) + 1


@given(properties)
def test_properties_come_back(given_properties: Properties) -> None:
    wire = encode_properties(given_properties)
    assert decode_properties(wire, 0, len(wire)) == given_properties


@given(methods())
def test_a_method_comes_back(method: Method) -> None:
    assert decode_method(method.encode()) == method


@given(st.binary(max_size=200) | near_tables)
@example(b"\x00\x00\x00\x0a\x00T" + b"\xff" * 8)
def test_any_bytes_are_a_table_or_an_error(data: bytes) -> None:
    for decode in (decode_table, decode_value):
        try:
            _, offset = decode(data, 0, len(data))  # type: ignore[operator]
        except AmqpError:
            continue
        assert offset <= len(data)


@given(tables, st.data())
def test_a_damaged_table_is_a_table_or_an_error(table: dict[str, Any], data: st.DataObject) -> None:
    wire = bytearray(encode_table(table))
    place = data.draw(st.integers(0, len(wire) - 1))
    wire[place] = data.draw(st.integers(0, 255))
    try:
        decode_table(bytes(wire), 0, len(wire))
    except AmqpError:
        pass


@given(st.binary(max_size=100))
def test_any_bytes_are_properties_or_an_error(data: bytes) -> None:
    try:
        decode_properties(data, 0, len(data))
    except AmqpError:
        pass


@given(st.sampled_from(list(METHODS)), st.binary(max_size=100))
def test_any_bytes_are_a_method_or_an_error(ids: tuple[int, int], data: bytes) -> None:
    for payload in (data, ids[0].to_bytes(2, "big") + ids[1].to_bytes(2, "big") + data):
        try:
            decode_method(payload)
        except AmqpError:
            pass


def slices(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def outcome(parts: list[bytes], limit: int) -> object:
    reader, frames = FrameReader(limit), []
    try:
        for part in parts:
            frames += reader.feed(part)
    except AmqpError as error:
        return error.text
    return frames


frames_in = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 8]), st.integers(0, 65535), st.binary(max_size=40)), max_size=6
)
cuts = st.lists(st.integers(0, 1000), max_size=12)


@given(frames_in, cuts)
def test_frames_are_the_same_in_any_slicing(given_frames: list[tuple[int, int, bytes]], where: list[int]) -> None:
    data = b"".join(frame(*parts) for parts in given_frames)
    assert outcome(slices(data, where), 131072) == given_frames


@given(frames_in, st.binary(max_size=30), cuts)
def test_any_bytes_give_the_same_frames_or_the_same_error(
    given_frames: list[tuple[int, int, bytes]], noise: bytes, where: list[int]
) -> None:
    data = b"".join(frame(*parts) for parts in given_frames) + noise
    single = [data[n : n + 1] for n in range(len(data))]
    assert outcome([data], 30) == outcome(slices(data, where), 30) == outcome(single, 30)


@given(
    properties,
    st.binary(max_size=300),
    st.integers(0, 65535),
    st.integers(0, 65535),
    st.integers(0, 120),
    st.integers(0, 120),
)
def test_refit_keeps_properties_and_body(
    given_properties: Properties, body: bytes, published: int, consumed: int, in_max: int, out_max: int
) -> None:
    content = refit(make_content(given_properties, body, published, in_max), consumed, out_max)
    assert properties_of(content) == given_properties
    assert body_of(content) == body
    assert body_size(content) == len(body)
    frames = FrameReader(0).feed(content)
    assert {channel for _, channel, _ in frames} == {consumed}
    if out_max > 8:
        assert all(len(payload) <= out_max - 8 for kind, _, payload in frames if kind == 3)


@given(properties, properties, st.binary(max_size=300), st.integers(0, 65535), st.integers(9, 120))
def test_new_properties_are_as_if_made_anew(
    old: Properties, new: Properties, body: bytes, channel: int, frame_max: int
) -> None:
    content = make_content(old, body, channel, frame_max)
    assert with_properties(content, new) == make_content(new, body, channel, frame_max)


numbers = st.integers(0, 65535)


@given(
    st.sampled_from(Step), st.sampled_from(ChannelStep), st.sampled_from(Role),
    st.sampled_from(list(METHODS)) | st.tuples(numbers, numbers),
)  # fmt: skip
def test_the_grammar_answers_every_question(step: Step, channel: ChannelStep, role: Role, ids: tuple[int, int]) -> None:
    assert answer(connection_step, step, ids, role) in {*Step, 503, 504}
    assert answer(channel_step, channel, ids, role) in {*ChannelStep, 503, 504}


def answer(ask: Callable[..., object], *question: object) -> object:
    try:
        return ask(*question)
    except AmqpError as error:
        return error.code

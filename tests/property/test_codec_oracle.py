"""Our codec against pamqp, in both directions.

pamqp writes floats as 'f', picks the smallest integer, sorts its tables and reads decimals as unsigned, so values are
compared after a full turn, and bytes only where both have no choice.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pamqp.commands
import pamqp.decode
import pamqp.encode
import pamqp.frame
import pamqp.header
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.wire.content import make_content
from leveret.wire.fields import decode_table, encode_table
from leveret.wire.frames import decode_header, decode_method, method_frame
from leveret.wire.methods import METHODS, Method
from leveret.wire.properties import Properties, decode_properties, encode_properties
from tests.support.frame_reader import FrameReader
from tests.support.method_arguments import arguments_of

pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated")  # basic.recover-async

names = st.text("abcxyz0189-_.", max_size=40)
times = st.datetimes(datetime(1970, 1, 1), datetime(2105, 1, 1), timezones=st.just(UTC)).map(
    lambda time: time.replace(microsecond=0)
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.builds(lambda number: Decimal(number) / 100, st.integers(0, 2**31 - 1)),
    st.text(),
    st.binary().map(bytearray),
    times,
)
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=15)
tables = st.dictionaries(names, values, max_size=5)
plain_tables = st.dictionaries(names, st.text() | st.booleans() | st.none(), max_size=5).map(
    lambda table: dict(sorted(table.items()))
)
OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers(0, 255),
    "str": names,
    "bytes": names.map(str.encode),
    "Table": plain_tables,
}
NAMED = {
    "delivery_tag": st.integers(0, 2**63 - 1),
    "frame_max": st.integers(0, 2**32 - 1),
    "reply_code": st.integers(0, 65535),
}
THEIR_NAMES = {"type": "exchange_type"}
WITH_RESERVED_ZERO = {(20, 10), (20, 11)}  # pamqp writes "0" where RabbitMQ and we write nothing


def theirs(method: type[Method]) -> Any:
    return pamqp.commands.INDEX_MAPPING[method.CLASS_ID << 16 | method.METHOD_ID]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Method, Any]:
    """The same method, once ours and once theirs."""
    ours: Any = draw(st.sampled_from(list(METHODS.values())))
    arguments = {name: draw(NAMED.get(name, OF_TYPE[kind])) for name, kind in arguments_of(ours).items()}
    if "immediate" in arguments:
        arguments["immediate"] = False  # pamqp refuses what RabbitMQ never implemented
    given_names = {
        THEIR_NAMES.get(name, name): value.decode() if isinstance(value, bytes) else value
        for name, value in arguments.items()
    }
    return ours(**arguments), theirs(ours)(**given_names)


def test_pamqp_knows_the_same_methods() -> None:
    assert {ids[0] << 16 | ids[1] for ids in METHODS} == set(pamqp.commands.INDEX_MAPPING)
    for method in METHODS.values():
        assert (theirs(method).name.lower(), theirs(method).synchronous) == (
            method.NAME.replace("-", ""), method.SYNC,
        )  # fmt: skip


@given(pairs())
def test_methods_are_written_alike(pair: tuple[Method, Any]) -> None:
    ours, other = pair
    wire = pamqp.frame.marshal(other, 5)
    [(kind, channel, payload)] = FrameReader().feed(wire)
    assert (kind, channel) == (1, 5)
    assert decode_method(payload) == ours
    if ours.id not in WITH_RESERVED_ZERO:
        assert method_frame(5, ours) == wire


@given(pairs())
def test_pamqp_reads_what_we_write(pair: tuple[Method, Any]) -> None:
    ours, other = pair
    wire = method_frame(5, ours)
    consumed, channel, got = pamqp.frame.unmarshal(wire)
    assert (consumed, channel, type(got)) == (len(wire), 5, type(other))
    for ours_name in arguments_of(type(ours)):
        name = THEIR_NAMES.get(ours_name, ours_name)
        assert getattr(got, name) == getattr(other, name)


@given(tables)
def test_pamqp_reads_our_tables(table: dict[str, Any]) -> None:
    wire = encode_table(table)
    assert pamqp.decode.field_table(wire) == (len(wire), table)


@given(tables)
def test_we_read_the_tables_of_pamqp(table: dict[str, Any]) -> None:
    wire = pamqp.encode.field_table(table)
    assert decode_table(wire, 0, len(wire)) == (table, len(wire))


OURS_TO_THEIRS = {"type": "message_type"}
optional = st.none() | names.filter(bool)
octets = st.none() | st.integers(1, 2)
properties = st.builds(
    Properties,
    **{f.name: optional for f in fields(Properties) if f.name != "cluster_id"}
    | {
        "headers": st.none() | tables.filter(bool),
        "timestamp": st.none() | times,
        "delivery_mode": octets,
        "priority": octets,
    },
)


def as_theirs(ours: Properties) -> Any:
    named = {OURS_TO_THEIRS.get(f.name, f.name): getattr(ours, f.name) for f in fields(ours) if f.name != "cluster_id"}
    return pamqp.commands.Basic.Properties(**named)


@given(properties)
def test_we_read_the_properties_of_pamqp(ours: Properties) -> None:
    wire = pamqp.header.ContentHeader(body_size=9, properties=as_theirs(ours)).marshal()
    assert decode_header(wire) == (60, 9)
    assert decode_properties(wire, 12, len(wire)) == ours


@given(properties)
def test_pamqp_reads_our_properties(ours: Properties) -> None:
    header = pamqp.header.ContentHeader()
    header.unmarshal(struct.pack(">HHQ", 60, 0, 9) + encode_properties(ours))
    expected = as_theirs(ours)
    assert header.body_size == 9
    for name in expected.attributes():
        if name != "cluster_id":
            assert getattr(header.properties, name) == getattr(expected, name)


@given(st.binary(min_size=1, max_size=100), st.integers(9, 60))
def test_pamqp_reads_our_content(body: bytes, frame_max: int) -> None:
    rest = make_content(Properties(delivery_mode=2), body, 3, frame_max)
    got = []
    while rest:
        consumed, channel, part = pamqp.frame.unmarshal(rest)
        assert channel == 3
        got.append(part)
        rest = rest[consumed:]
    assert got[0].body_size == len(body)
    assert b"".join(part.value for part in got[1:]) == body

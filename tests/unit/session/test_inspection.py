"""What properties ask of the broker, read without decoding: the same as the full decoder says, or "look closer"."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leveret.broker.publish_rules import traits_of
from leveret.message import PERSISTENT, TRANSIENT, Traits
from leveret.session.inspection import inspect
from leveret.wire.properties import Properties, encode_properties

PLAIN: dict[str, object] = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": {"b": [1, "x"]}},
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "c" * 255,
    "reply_to": "r",
    "expiration": "1500",
    "message_id": "",
    "timestamp": datetime(2026, 1, 1, tzinfo=UTC),
    "type": "t",
    "app_id": "a",
    "cluster_id": "cl",
}


def look(data: bytes) -> Traits | None:
    around = b"??" + data + b"??"  # it must not read beyond its bounds
    return inspect(int.from_bytes(data[:2], "big"), around, 4, len(around) - 2, 100.0)


def same(one: Traits | None, two: Traits) -> bool:
    return one is not None and (one.persistent, one.deadline, one.priority) == (
        two.persistent,
        two.deadline,
        two.priority,
    )


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_each_property_alone_is_read_as_the_decoder_reads_it(name: str) -> None:
    properties = Properties(**{name: PLAIN[name]})  # type: ignore[arg-type]
    assert same(look(encode_properties(properties)), traits_of(properties, 100.0))


@pytest.mark.parametrize("left_out", ["", *sorted(PLAIN)])
def test_all_together_are_read_as_the_decoder_reads_them(left_out: str) -> None:
    properties = Properties(**{name: value for name, value in PLAIN.items() if name != left_out})  # type: ignore[arg-type]
    assert same(look(encode_properties(properties)), traits_of(properties, 100.0))


def test_messages_without_a_wish_share_their_traits() -> None:
    assert look(encode_properties(Properties(content_type="x"))) is TRANSIENT
    assert look(encode_properties(Properties(delivery_mode=1))) is TRANSIENT
    assert look(encode_properties(Properties(delivery_mode=2))) is PERSISTENT


@pytest.mark.parametrize(
    "unusual",
    [
        {"headers": {"CC": ["q"]}},
        {"headers": {"BCC": ["q"]}},
        {"reply_to": "amq.rabbitmq.reply-to"},
        {"user_id": "guest"},
        {"expiration": "soon"},
        {"expiration": "-1"},
        {"expiration": ""},
        {"expiration": "1" * 17},
    ],
    ids=str,
)
def test_what_is_unusual_is_left_to_a_closer_look(unusual: dict[str, object]) -> None:
    assert look(encode_properties(Properties(**unusual))) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", range(1, 40))
def test_what_is_cut_short_is_left_to_a_closer_look(cut: int) -> None:
    data = encode_properties(Properties(**PLAIN))  # type: ignore[arg-type]
    assert look(data[:-cut]) is None
    assert look(data + b"x" * cut) is None


@pytest.mark.parametrize("flag", [1, 2, 3])
def test_unknown_flags_are_left_to_a_closer_look(flag: int) -> None:
    assert look(flag.to_bytes(2, "big")) is None


def test_a_table_longer_than_all_there_is_is_left_to_a_closer_look() -> None:
    assert look(b"\x20\x00\xff\xff\xff\xff") is None
    assert look(b"\x20\x00\x00") is None

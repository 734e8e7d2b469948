"""Selectors: what they select, and the fields that they may ask for (S1-28)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from leveret.delivery.selector import compile_selector, selectable, selector_of
from leveret.errors import PreconditionFailed
from leveret.wire.fields import FarTime
from leveret.wire.properties import Properties

FIELDS: dict[str, object] = {
    "colour": "red",
    "weight": 2500,
    "price": 9.5,
    "urgent": True,
    "old": False,
    "void": None,
    "x-tenant": "blue-1",
    "a.b_c$1": 7,
    "cost": Decimal("1.25"),
    "raw": b"bytes",
    "broken": b"\xff",
    "sent": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
    "table": {"a": 1},
    "array": [1],
    "quote": "it's",
}


def verdict(text: str, fields: dict[str, object] = FIELDS) -> bool | None:
    """True, False, or None for unknown: neither the condition nor its negation takes the message."""
    takes = compile_selector(text).matches(fields)
    refuses = compile_selector(f"NOT ({text})").matches(fields)
    assert not (takes and refuses)
    return True if takes else False if refuses else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour = 'red'", True),
        ("colour <> 'red'", False),
        ("colour = 'Red'", False),
        ("quote = 'it''s'", True),
        ("weight = 2500", True),
        ("weight = 2500.0", True),
        ("weight <> 2.5E3", False),
        ("weight < 2501", True),
        ("weight <= 2500", True),
        ("weight > 2500", False),
        ("weight >= 2500", True),
        ("price = 9.5 AND price = 95e-1", True),
        ("price > 9. AND price < .1e2", True),
        ("cost = 1.25", True),
        ("raw = 'bytes'", True),
        ("sent = 60", True),
        ("urgent", True),
        ("old", False),
        ("urgent = TRUE", True),
        ("urgent <> old", True),
        ("TRUE", True),
        ("false", False),
        ("a.b_c$1 = 7", True),
        ("\"x-tenant\" = 'blue-1'", True),
        ('"weight" = 2500', True),
        ("colour='red'and weight>(1)or old", True),
    ],
)
@pytest.mark.feature("S1-28")
def test_comparisons_and_literals(text: str, expected: bool) -> None:
    assert verdict(text) is expected


@pytest.mark.parametrize(
    "text",
    [
        "missing",
        "missing = 1",
        "missing <> 1",
        "missing = missing",
        "void = 'x'",
        "colour = 1",
        "colour <> 1",
        "weight = '2500'",
        "weight = TRUE",
        "urgent = 1",
        "'1' = 1",
        "urgent > 0",
        "colour > 0",
        "colour > weight",
        "colour",
        "weight",
        "table = table",
        "array = 'x'",
        "broken = 'x'",
        "missing + 1 = 1",
        "colour + 1 = 1",
        "-colour = 1",
        "+colour = 'red'",
        "urgent * 1 = 1",
        "1 / 0 = 1",
        "weight / 0.0 > 1",
        "missing BETWEEN 1 AND 2",
        "colour BETWEEN 1 AND 2",
        "missing IN ('a')",
        "weight IN ('a')",
        "urgent IN (1)",
        "colour IN ('green', 1)",
        "missing LIKE '%'",
        "weight LIKE '%'",
    ],
)
@pytest.mark.feature("S1-28")
def test_what_cannot_be_known_is_unknown(text: str) -> None:
    """Absent fields, unlike types and impossible arithmetic neither match nor fail to match."""
    assert verdict(text) is None


def test_whole_numbers_beyond_all_floats_are_unknown_with_a_float() -> None:
    product = " * ".join(["big"] * 20)
    assert verdict(f"{product} * 1.5 > 0", {"big": 1 << 63}) is None
    assert verdict(f"{product} > 0", {"big": 1 << 63}) is True


@pytest.mark.parametrize(("left", "left_value"), [("urgent", True), ("old", False), ("missing", None)])
@pytest.mark.parametrize(("right", "right_value"), [("urgent", True), ("old", False), ("missing", None)])
def test_and_or_have_three_values(left: str, left_value: bool | None, right: str, right_value: bool | None) -> None:
    values = (left_value, right_value)
    assert verdict(f"{left} AND {right}") is (False if False in values else None if None in values else True)
    assert verdict(f"{left} OR {right}") is (True if True in values else None if None in values else False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("old AND old OR urgent", True),
        ("urgent OR old AND old", True),
        ("(urgent OR old) AND old", False),
        ("NOT old AND old", False),
        ("NOT (old AND old)", True),
        ("NOT NOT urgent", True),
        ("2 + 3 * 4 = 14", True),
        ("(2 + 3) * 4 = 20", True),
        ("20 - 5 - 5 = 10", True),
        ("24 / 4 / 2 = 3", True),
        ("7 / 2 = 3", True),
        ("-7 / 2 = -3", True),
        ("7 / 2.0 = 3.5", True),
        ("- - 2 = 2", True),
        ("2 - -2 = 4", True),
        ("-weight < +weight", True),
        ("weight * 2 - 1 = 4999", True),
        ("NOT weight = 1", True),
        ("(colour) = ('red')", True),
        ("(weight > 1) = urgent", True),
    ],
)
def test_order_of_operators(text: str, expected: bool) -> None:
    assert verdict(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("weight BETWEEN 2500 AND 2500", True),
        ("weight BETWEEN 1 AND 2499", False),
        ("weight NOT BETWEEN 1 AND 2499", True),
        ("weight BETWEEN missing AND 2499", False),
        ("weight BETWEEN missing AND 2501", None),
        ("weight BETWEEN 1 + 1 AND weight + 1 AND urgent", True),
        ("colour IN ('blue', 'red')", True),
        ("colour IN ('blue')", False),
        ("colour NOT IN ('blue')", True),
        ("weight IN (1, 2500)", True),
        ("weight IN (-1, +2)", False),
        ("a.b_c$1 NOT IN (7)", False),
        ("missing IS NULL", True),
        ("void IS NULL", True),
        ("colour IS NULL", False),
        ("colour IS NOT NULL", True),
        ("table IS NOT NULL", True),
        ("missing IS NOT NULL", False),
    ],
)
@pytest.mark.feature("S1-28")
def test_between_in_and_is_null(text: str, expected: bool | None) -> None:
    assert verdict(text) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("'red'", "red", True),
        ("'red'", "reds", False),
        ("'r_d'", "rad", True),
        ("'r_d'", "rd", False),
        ("'%'", "", True),
        ("''", "", True),
        ("''", "x", False),
        ("'_'", "", False),
        ("'a%'", "abc", True),
        ("'%c'", "abc", True),
        ("'%b%'", "abc", True),
        ("'%b'", "abc", False),
        ("'a%b%c'", "aXbYc", True),
        ("'a%b%c'", "acb", False),
        ("'%ab%ab'", "abab", True),
        ("'%ab%ab'", "ab", False),
        ("'_%_'", "a", False),
        ("'_%_'", "ab", True),
        ("'%%'", "anything", True),
        ("'a.c'", "abc", False),
        ("'a\nb%'", "a\nbc", True),
        ("'!%%' ESCAPE '!'", "%x", True),
        ("'!%%' ESCAPE '!'", "x%", False),
        ("'a!_b' ESCAPE '!'", "a_b", True),
        ("'a!_b' ESCAPE '!'", "aXb", False),
        ("'!!' ESCAPE '!'", "!", True),
        ("'%%%_' ESCAPE '%'", "%_", True),
        ("'!a_' ESCAPE '!'", "ab", True),
    ],
)
@pytest.mark.feature("S1-28")
def test_like(pattern: str, text: str, expected: bool) -> None:
    assert verdict(f"name LIKE {pattern}", {"name": text}) is expected
    assert verdict(f"name NOT LIKE {pattern}", {"name": text}) is (not expected)


def test_like_does_not_try_the_ways_through_a_pattern_one_by_one() -> None:
    """With backtracking this would take longer than the universe has time."""
    assert verdict(f"name LIKE '{'%a_' * 40}b'", {"name": "a" * 4_000}) is False


def test_like_does_not_know_very_long_texts() -> None:
    assert verdict("name LIKE 'a%'", {"name": "a" * 4_096}) is True
    assert verdict("name LIKE 'a%'", {"name": "a" * 4_097}) is None


# ---- the argument


def test_argument_is_compiled_if_there_is_one() -> None:
    assert selector_of({}) is None
    found = selector_of({"x-selector": "a = 1"})
    assert found is not None
    assert found.text == "a = 1"
    assert found.matches({"a": 1})


@pytest.mark.parametrize("blank", ["", "  \n"])
def test_blank_selector_is_none(blank: str) -> None:
    """As in JMS."""
    assert selector_of({"x-selector": blank}) is None


@pytest.mark.parametrize("wrong", [None, 5, True, b"\xff", ["a"]])
def test_argument_must_be_a_string(wrong: object) -> None:
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-selector': expected a string"):
        selector_of({"x-selector": wrong})


# ---- the fields of a message


@pytest.mark.feature("S1-28")
def test_jms_names_are_the_properties() -> None:
    fields = selectable(
        Properties(
            headers={"colour": "red"},
            message_id="m",
            correlation_id="c",
            reply_to="r",
            type="t",
            priority=9,
            delivery_mode=2,
            timestamp=datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
            expiration="500",
        )
    )
    for text in (
        "colour = 'red'",
        "JMSMessageID = 'm' AND JMSCorrelationID = 'c' AND JMSReplyTo = 'r' AND JMSType = 't'",
        "JMSPriority = 9 AND JMSDeliveryMode = 'PERSISTENT'",
        "JMSTimestamp = 2000 AND JMSExpiration = 2500",
    ):
        assert compile_selector(text).matches(fields), text


def test_jms_names_of_a_message_without_properties() -> None:
    fields = selectable(Properties())
    assert compile_selector("JMSPriority = 4 AND JMSDeliveryMode = 'NON_PERSISTENT'").matches(fields)
    assert compile_selector("JMSExpiration = 0 AND JMSTimestamp IS NULL AND JMSMessageID IS NULL").matches(fields)
    assert compile_selector("JMSRedelivered IS NULL").matches(fields)


def test_moment_of_death_is_unknown_without_a_timestamp() -> None:
    assert compile_selector("JMSExpiration IS NULL").matches(selectable(Properties(expiration="500")))
    assert compile_selector("JMSExpiration IS NULL").matches(
        selectable(Properties(expiration="soon", timestamp=FarTime(1 << 40)))
    )


def test_times_beyond_the_calendar_count_too() -> None:
    assert selectable(Properties(timestamp=FarTime(1 << 40)))["JMSTimestamp"] == (1 << 40) * 1000


def test_time_without_a_zone_is_utc() -> None:
    assert selectable(Properties(timestamp=datetime(1970, 1, 2)))["JMSTimestamp"] == 86_400_000


def test_a_header_wins_over_a_property_of_its_name() -> None:
    assert selectable(Properties(headers={"JMSType": "header"}, type="property"))["JMSType"] == "header"


@pytest.mark.feature("S1-28")
def test_the_group_is_selected_by_its_name_in_jms() -> None:
    assert selectable(Properties(headers={"x-group-id": "g"}))["JMSXGroupID"] == "g"
    assert selectable(Properties())["JMSXGroupID"] is None


def test_properties_are_no_headers() -> None:
    """Who asks for a header, as a headers exchange does, is not given a property."""
    fields = selectable(Properties(headers={"a": 1}, message_id="m"))
    assert dict(fields) == {"a": 1}
    assert "JMSMessageID" not in fields
    assert fields.get("JMSPriority") is None

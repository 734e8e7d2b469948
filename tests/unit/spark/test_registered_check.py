"""Checks of bodies against schemas of the registry: what schema-check refuses beyond the types."""

from __future__ import annotations

import json

import pytest

from leveret.schemas.ddl import NAMES
from leveret.schemas.errors import SchemaError
from leveret.schemas.schema import JSON, Schema, checked_schema
from leveret.spark.ddl_types import struct_of_ddl
from leveret.spark.jobs.json_check import checker_of
from leveret.spark.jobs.registered_check import reason_of
from leveret.spark.schema_registry import SchemaRegistry

SIZED = "id VARCHAR(3), c CHAR(2), any VARCHAR, all ARRAY<VARCHAR(1)>, m MAP<CHAR(2), CHAR(1)>, s STRUCT<t: CHAR(1)>"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            {"id": "abc", "c": "\u00e9\u00e9", "any": "x" * 9, "all": ["a", None], "m": {"ab": None}, "s": {"t": "a"}},
            None,
        ),
        ({"id": None, "all": None, "m": None, "s": None}, None),
        ({}, None),
        ({"id": "toolong"}, "the field id is longer than 3 characters"),
        ({"c": "abc"}, "the field c is longer than 2 characters"),
        ({"all": ["a", "ab"]}, "the field all[1] is longer than 1 characters"),
        ({"m": {"abc": "a"}}, "the field m.abc is longer than 2 characters"),
        ({"m": {"a": "ab"}}, "the field m.a is longer than 1 characters"),
        ({"s": {"t": "ab"}}, "the field s.t is longer than 1 characters"),
        ({"id": 5}, "the field id is not string"),
    ],
)
def test_texts_have_the_length_of_the_schema(body: object, reason: str | None) -> None:
    schema = checked_schema(JSON, SIZED)
    assert reason_of(SchemaRegistry(), schema, json.dumps(body).encode(), None) == reason


def test_a_missing_body_and_a_schema_without_lengths() -> None:
    assert reason_of(SchemaRegistry(), Schema(JSON, SIZED), None, None) == "the body is no JSON"
    assert reason_of(SchemaRegistry(), Schema(JSON, "id STRING"), b'{"id": "any"}', None) is None


def test_every_type_that_the_registry_accepts_can_be_checked() -> None:
    accepted = []
    for name in NAMES:
        for text in (f"a {name}", f"a MAP<{name}, INT>"):
            try:
                accepted.append(checked_schema(JSON, text).text)
            except SchemaError:
                continue
    assert all(checker_of(struct_of_ddl(text))(b"{}") is None for text in accepted)
    assert "a time" not in accepted
    assert len(accepted) == len(NAMES) - 1 + 3

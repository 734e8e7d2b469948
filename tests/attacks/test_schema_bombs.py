"""CWE-407, inefficient algorithmic complexity, and CWE-770, allocation of resources without limits: a small schema must
not take much time or memory, whether it is checked, added or imported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.attack_target import AttackTarget
from tests.support.schema_bombs import (
    default_of_many_branches,
    many_missing_fields,
    nested_in_a_long_name,
    repeated_namespace,
)

pytestmark = pytest.mark.quiet
BOMBS = {
    "many-branches": {"schema": default_of_many_branches(40)},
    "deep-default": {"schema": default_of_many_branches(250)},
    "surrogate": {"schema": '{"type": "int", "doc": "\\ud800"}'},
    "namespace": {"schema": repeated_namespace(32_000, 6_000)},
    "nested": {"schema": nested_in_a_long_name(24_000, 3_000), "type": "protobuf", "message": "A"},
}


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackTarget]:
    with AttackTarget(tmp_path) as running:
        yield running


def test_small_schemas_are_refused_quickly(attacked: AttackTarget) -> None:
    checked = [attacked.api.post(f"/api/schemas/%2F/{name}/check", bomb) for name, bomb in BOMBS.items()]
    rows = [{"vhost": "/", "name": name, "version": 1, **bomb} for name, bomb in BOMBS.items()]
    status, imported = attacked.api.post("/api/definitions", {"schemas": rows})
    attacked.check()
    assert [answer[0] for answer in checked] == [400] * len(BOMBS)
    assert status == 400
    assert {problem["name"] for problem in imported["problems"]} == {*BOMBS}


def test_the_problems_of_two_schemas_are_short(attacked: AttackTarget) -> None:
    reader, writer = many_missing_fields(60, 20_000, 1_000)
    assert attacked.api.put("/api/schemas/%2F/orders", {"schema": writer})[0] == 201
    status, answer = attacked.api.post("/api/schemas/%2F/orders/check", {"schema": reader})
    attacked.check()
    assert status == 200
    assert max(map(len, answer["problems"])) < 1_000

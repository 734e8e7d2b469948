"""The schema registry of a virtual host: versions, IDs, and what is kept of them."""

from __future__ import annotations

import pytest

from leveret.broker import schemas as registry
from leveret.broker.parameters import Parameters
from leveret.broker.schemas import Schemas
from leveret.errors import NotFound, PreconditionFailed
from leveret.schemas.schema import Schema

A, B, C = (Schema("json", f"{name} INT") for name in "abc")


@pytest.fixture
def parameters() -> Parameters:
    return Parameters("/", lambda change: None)


@pytest.fixture
def schemas(parameters: Parameters) -> Schemas:
    return Schemas("/", parameters)


def test_versions_have_numbers_that_are_not_used_again(schemas: Schemas) -> None:
    assert [schemas.add("s", each, "none") for each in (A, B, A)] == [(1, True), (2, True), (1, False)]
    schemas.delete_version("s", 2)
    assert schemas.add("s", C, "none") == (3, True)
    assert schemas.version("s") == (3, C)
    assert schemas.version("s", 1) == (1, A)
    with pytest.raises(NotFound, match=r"no version 2: it has 1, 3"):
        schemas.version("s", 2)


def test_a_text_is_kept_once_and_as_long_as_a_name_has_it(schemas: Schemas, parameters: Parameters) -> None:
    for name in ("one", "two"):
        schemas.add(name, A, "none")
    assert parameters.names("schema-text") == [A.id]
    schemas.delete("one")
    assert schemas.by_id(A.id) == A
    schemas.delete_version("two", 1)
    assert schemas.list() == []
    assert parameters.names("schema-text") == parameters.names("schema-name") == []
    with pytest.raises(NotFound, match=A.id):
        schemas.by_id(A.id)


def test_the_compatibility_can_change_alone(schemas: Schemas) -> None:
    schemas.add("s", A, "none")
    assert schemas.add("s", A, "full") == (1, False)
    assert schemas.existing("s").compatibility == "full"


def test_an_import_keeps_the_numbers(schemas: Schemas) -> None:
    assert schemas.add("s", A, "none", 5) == (5, True)
    assert schemas.add("s", A, "none", 5) == (5, False)
    assert schemas.add("s", B, "none") == (6, True)
    schemas.refuse_other_version("s", A, 5)
    schemas.refuse_other_version("s", C, 7)
    for other in (C, Schema("avro", '"int"')):
        with pytest.raises(PreconditionFailed, match="version 5 of schema 's' in vhost '/' is another schema"):
            schemas.refuse_other_version("s", other, 5)


@pytest.mark.parametrize(
    ("limit", "value", "problem"),
    [("MOST_NAMES", 1, "has 1 schemas"), ("MOST_VERSIONS", 1, "has 1 versions"), ("MOST_BYTES", 40, "at most 40")],
)
def test_the_number_and_size_of_schemas_is_bounded(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, problem: str
) -> None:
    monkeypatch.setattr(registry, limit, value)
    schemas.add("s", A, "none")
    with pytest.raises(PreconditionFailed, match=problem):
        schemas.add("t" if limit == "MOST_NAMES" else "s", Schema("json", "b INT, " * 3 + "c INT"), "none")
    assert schemas.add("s", A, "none") == (1, False)
    assert len(schemas.list()) == 1

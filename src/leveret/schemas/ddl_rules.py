"""What is checked of DDL when it is added to the registry: each type has to have a form in JSON, or every message that
refers to the schema would be refused. Schemas that are stored already are not checked again."""

from __future__ import annotations

from leveret.schemas.ddl import DdlType, parse_ddl
from leveret.schemas.errors import SchemaError

TEXTS = ("string", "char", "varchar")


def check_ddl(text: str) -> None:
    """SchemaError: the text is not DDL, or has a type that JSON has no form for."""
    _refuse_formless(parse_ddl(text), "")


def _refuse_formless(kind: DdlType, path: str) -> None:
    if kind.kind == "time":
        raise SchemaError(f"the field {path:.80} has the DDL type TIME, which JSON has no form for: use STRING")
    if kind.kind == "map" and kind.inner[0].kind not in TEXTS:
        raise SchemaError(
            f"the field {path:.80} is a map whose keys are {kind.inner[0]}, and JSON has strings only: use "
            "MAP<STRING, ...>"
        )
    for inner in kind.inner:
        _refuse_formless(inner, path)
    for field in kind.fields:
        _refuse_formless(field.type, field.name)

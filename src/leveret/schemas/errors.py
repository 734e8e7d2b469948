"""Errors of schemas."""

from __future__ import annotations

from leveret.errors import LeveretError


class SchemaError(LeveretError):
    """A schema that is invalid, or too complex to be compared. The text names the part, the cause and the remedy."""

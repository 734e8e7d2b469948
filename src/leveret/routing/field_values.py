"""Hashable forms of field values, which keep the types of AMQP distinct, in nested tables too.

In Python ``1 == True == 1.0``, but not in AMQP and RabbitMQ, so every leaf includes its type. There are two forms:

- ``identity(value)``: for the equality of bindings. Text and bytes differ, and a timestamp is not a number.
- ``matchable(value)``: for matching headers, as RabbitMQ does. The widths of integers do not matter, nor whether a
  string was sent as text or as bytes; whether a number is an integer or floating-point does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from decimal import Decimal

LEAF_KINDS = frozenset({bool, int, float, Decimal, str, bytes, datetime, type(None)})


def identity(value: object) -> Hashable:
    """A hashable form that is equal only for the same value of the same type, at every depth."""
    nested = _nested(value, identity)
    if nested is not None:
        return nested
    if isinstance(value, (float, Decimal)):
        return _kind(value), repr(value)  # by its text: NaN equals NaN, decimal 1.0 is not 1.00, -0.0 is not 0.0
    if isinstance(value, (bytearray, memoryview)):
        return bytes, bytes(value)
    return _kind(value), value


def matchable(value: object) -> Hashable:
    """A hashable form that is equal for two values that are the same for a headers exchange."""
    if isinstance(value, str):
        return value  # the usual case, and the only form that is not a pair
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, datetime):
        return int, int(value.timestamp())  # a timestamp is a number of seconds on the wire
    nested = _nested(value, matchable)
    return (_kind(value), value) if nested is None else nested


def _nested(value: object, freeze: Callable[[object], Hashable]) -> Hashable:
    """The frozen form of a table or an array, None for a leaf."""
    if isinstance(value, Mapping):
        return dict, frozenset((name, freeze(member)) for name, member in value.items())
    if isinstance(value, (list, tuple)):
        return list, tuple(freeze(member) for member in value)
    return None


def _kind(value: object) -> type:
    """The AMQP type of a leaf: an IntEnum is an int, a bool is not."""
    return next((kind for kind in type(value).__mro__ if kind in LEAF_KINDS), type(value))

"""The arguments of a method of AMQP, as its class declares them."""

from __future__ import annotations

from leveret.wire.methods import Method


def arguments_of(method: type[Method]) -> dict[str, str]:
    """Names and types, in the order of the wire."""
    declared = getattr(method.__init__, "__annotations__", {})
    return {name: declared[name].removesuffix(" | None") for name in method.__slots__}

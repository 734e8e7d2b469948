"""What every exchange has, whatever its type (S4-06)."""

from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.routing.fanout import FanoutExchange


@pytest.mark.feature("S4-06")
def test_exchange_has_name_type_durability_auto_delete_and_arguments() -> None:
    exchange = FanoutExchange("x", True, True, True, {"a": 1})
    assert (exchange.name, exchange.kind) == ("x", "fanout")
    assert (exchange.durable, exchange.auto_delete, exchange.internal) == (True, True, True)
    assert exchange.arguments == {"a": 1}


def test_exchange_is_transient_and_plain_unless_told_otherwise() -> None:
    exchange = FanoutExchange("x")
    assert (exchange.durable, exchange.auto_delete, exchange.internal) == (False, False, False)
    assert exchange.arguments == {}
    assert exchange.alternate is None


@pytest.mark.feature("S4-06")
def test_alternate_exchange_comes_from_the_arguments() -> None:
    """The arguments take effect."""
    assert FanoutExchange("x", arguments={"alternate-exchange": "other"}).alternate == "other"


def test_alternate_exchange_must_be_a_string() -> None:
    with pytest.raises(PreconditionFailed, match="invalid type 'int' for arg 'alternate-exchange' in exchange 'x'"):
        FanoutExchange("x", arguments={"alternate-exchange": 1})


def test_contract_alone_is_no_exchange() -> None:
    with pytest.raises(TypeError):
        Exchange("x")  # type: ignore[abstract]


def test_types_take_every_binding_unless_they_say_otherwise() -> None:
    FanoutExchange("x").validate_binding(Binding("x", Destination("queue", "q"), "k", {"x-match": 5}))

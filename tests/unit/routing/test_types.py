"""The register of exchange types (S4-06)."""

from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from leveret.routing.direct import DirectExchange
from leveret.routing.fanout import FanoutExchange
from leveret.routing.headers import HeadersExchange
from leveret.routing.topic import TopicExchange
from leveret.routing.types import EXCHANGE_TYPES, ExchangeTypes
from tests.support.exchanges import make_exchange


@pytest.mark.parametrize(
    ("kind", "made"),
    [("direct", DirectExchange), ("fanout", FanoutExchange), ("topic", TopicExchange), ("headers", HeadersExchange)],
)
@pytest.mark.feature("S4-06")
def test_each_of_the_four_types_can_be_made(kind: str, made: type) -> None:
    """Direct, fanout, topic, headers."""
    exchange = make_exchange(kind, "x", True, True, True, {"alternate-exchange": "y"})
    assert type(exchange) is made
    assert exchange.kind == kind
    assert (exchange.name, exchange.durable, exchange.auto_delete, exchange.internal) == ("x", True, True, True)
    assert exchange.alternate == "y"


@pytest.mark.parametrize("kind", ["x-modulus-hash", "x-consistent-hash", "x-random", "x-local-random"])
def test_types_that_choose_can_be_made(kind: str) -> None:
    exchange = make_exchange(kind, "x", True, True, True, {"alternate-exchange": "y"})
    assert exchange.kind == kind
    assert (exchange.name, exchange.durable, exchange.auto_delete, exchange.internal) == ("x", True, True, True)
    assert exchange.alternate == "y"


@pytest.mark.parametrize("kind", ["", "Direct", "x-unheard-of"])
@pytest.mark.feature("S4-06")
def test_unknown_type_is_refused_by_name(kind: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"unknown exchange type '{kind}'"):
        make_exchange(kind, "x")


def test_further_type_is_known_only_where_it_was_registered() -> None:
    types, others = ExchangeTypes(), ExchangeTypes()

    class MirrorExchange(FanoutExchange):
        kind = "x-mirror"

    types.register("x-mirror", MirrorExchange)
    assert types.make("x-mirror", "m").kind == "x-mirror"
    assert types.kinds() == [*EXCHANGE_TYPES, "x-delayed-message", "x-mirror"]
    assert others.kinds() == [*EXCHANGE_TYPES, "x-delayed-message"]
    with pytest.raises(PreconditionFailed):
        others.make("x-mirror", "m")


def test_arguments_of_the_exchange_are_those_given() -> None:
    arguments: dict[str, object] = {"x-anything": 1}
    assert make_exchange("fanout", "x", arguments=arguments).arguments == arguments
    assert make_exchange("fanout", "x").arguments == {}

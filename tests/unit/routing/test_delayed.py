"""The delayed exchange: it routes as the type inside of it does."""

from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.routing.fanout import FanoutExchange
from leveret.routing.types import ExchangeTypes

Q, P = Destination("queue", "q"), Destination("queue", "p")


def delayed(kind: str, types: ExchangeTypes | None = None, **arguments: object) -> Exchange:
    types = types or ExchangeTypes()
    return types.make("x-delayed-message", "later", durable=True, arguments={"x-delayed-type": kind, **arguments})


@pytest.mark.parametrize("kind", [kind for kind in ExchangeTypes().kinds() if kind != "x-delayed-message"])
def test_every_type_can_be_inside_and_says_what_it_looks_at(kind: str) -> None:
    made, inner = delayed(kind), ExchangeTypes().make(kind, "inner")
    assert (made.kind, made.name, made.durable) == ("x-delayed-message", "later", True)
    assert (made.looks_at_headers, made.looks_at_all_keys) == (inner.looks_at_headers, inner.looks_at_all_keys)


def test_bindings_come_and_go() -> None:
    made = delayed("topic")
    binding = Binding("later", Q, "a.*", {})
    made.bind(binding)
    assert list(made.destinations("a.b", {})) == [Q]
    assert list(made.destinations("b", {})) == []
    made.unbind(binding)
    assert list(made.destinations("a.b", {})) == []


def test_a_binding_that_the_inner_type_refuses_is_refused() -> None:
    made = delayed("x-consistent-hash")
    with pytest.raises(PreconditionFailed):
        made.validate_binding(Binding("later", Q, "no weight", {}))


def test_a_binding_with_a_selector_is_matched_as_the_inner_type_matches() -> None:
    made = delayed("direct")
    chosen = Binding("later", Q, "k", {"x-selector": "colour = 'red'"})
    made.bind(chosen)
    made.bind(Binding("later", P, "k", {}))
    assert made.looks_at_headers
    assert list(made.destinations("k", {"colour": "red"})) == [P, Q]
    assert list(made.destinations("k", {"colour": "blue"})) == [P]
    assert list(made.destinations("other", {"colour": "red"})) == []
    made.unbind(chosen)
    assert not made.looks_at_headers


def test_a_registered_type_can_be_inside() -> None:
    types = ExchangeTypes()

    class MirrorExchange(FanoutExchange):
        kind = "x-mirror"

    with pytest.raises(PreconditionFailed, match=r"x-delayed-type.*x-mirror"):
        delayed("x-mirror", types)
    types.register("x-mirror", MirrorExchange)
    made = delayed("x-mirror", types)
    made.bind(Binding("later", Q, "", {}))
    assert list(made.destinations("any", {})) == [Q]


def test_the_alternate_exchange_is_that_of_the_whole() -> None:
    assert delayed("direct", **{"alternate-exchange": "rest"}).alternate == "rest"

"""The walk over any graph of exchanges ends, names each queue once and finds what a plain closure finds (S4-03)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.routing.bindings import Binding, Bindings, Destination
from leveret.routing.exchange import Exchange
from leveret.routing.router import route
from tests.support.exchanges import make_exchange

NAMES = ["a", "b", "c", "d", "e"]
KEYS = ["", "k", "l"]
places = st.builds(Destination, st.sampled_from(["queue", "exchange"]), st.sampled_from([*NAMES, "gone"]))
links = st.lists(st.builds(Binding, st.sampled_from(NAMES), places, st.sampled_from(KEYS)), max_size=25)
alternates = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*NAMES, "gone"]))
kinds = st.lists(st.sampled_from(["direct", "fanout", "topic", "headers"]), min_size=5, max_size=5)


def build(kinds: list[str], alternates: dict[str, str], links: list[Binding]) -> dict[str, Exchange]:
    exchanges = {}
    for kind, name in zip(kinds, NAMES, strict=True):
        arguments: dict[str, object] = {"alternate-exchange": alternates[name]} if name in alternates else {}
        exchanges[name] = make_exchange(kind, name, arguments=arguments)
    table = Bindings()
    for binding in links:
        if table.add(binding):
            exchanges[binding.source].bind(binding)
    return exchanges


def slowly(exchanges: dict[str, Exchange], links: list[Binding], start: str, keys: list[str]) -> set[str]:
    """Grow the set of reached exchanges until it stays the same; without arguments, a headers binding takes all."""
    reached, queues = {start}, set[str]()
    while True:
        before = len(reached)
        for name in sorted(reached & exchanges.keys()):
            by_key = exchanges[name].kind in ("direct", "topic")
            stops = {b.destination for b in links if b.source == name and (not by_key or b.key in keys)}
            queues |= {stop.name for stop in stops if stop.kind == "queue"}
            reached |= {stop.name for stop in stops if stop.kind == "exchange"}
            alternate = exchanges[name].alternate
            if not stops and alternate is not None:
                reached.add(alternate)
        if len(reached) == before:
            return queues


@given(kinds, alternates, links, st.sampled_from(NAMES), st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
def test_walk_ends_and_finds_each_queue_once(
    kinds: list[str], alternates: dict[str, str], links: list[Binding], start: str, keys: list[str]
) -> None:
    exchanges = build(kinds, alternates, links)
    routed = route(exchanges[start], keys, {}, exchanges.get)
    assert len(routed.queues) == len(set(routed.queues))
    assert set(routed.queues) == slowly(exchanges, links, start, keys)
    if routed.by_key_only:
        assert exchanges[start].kind != "headers"


@given(kinds, alternates, links, st.sampled_from(NAMES), st.sampled_from(KEYS))
def test_route_that_may_be_remembered_is_the_same_with_other_headers(
    kinds: list[str], alternates: dict[str, str], links: list[Binding], start: str, key: str
) -> None:
    exchanges = build(kinds, alternates, links)
    plain = route(exchanges[start], [key], {}, exchanges.get)
    if plain.by_key_only:
        assert route(exchanges[start], [key], {"a": 1}, exchanges.get) == plain


@given(kinds, links, st.sampled_from(NAMES))
def test_unbinding_everything_leaves_nothing_to_reach(kinds: list[str], links: list[Binding], start: str) -> None:
    exchanges = build(kinds, {}, links)
    for binding in dict.fromkeys(links):
        exchanges[binding.source].unbind(binding)
    for key in KEYS:
        assert route(exchanges[start], [key], {}, exchanges.get).queues == []

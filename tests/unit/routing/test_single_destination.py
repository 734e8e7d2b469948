"""Exchanges that give each message to one destination: x-modulus-hash, x-random, x-local-random (S2-05 to S2-08)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.routing.random_exchange import LocalRandomExchange, RandomExchange, SeededRandom
from leveret.routing.router import route
from leveret.routing.types import ExchangeTypes

KEYS = [f"key-{number}" for number in range(300)]


def queue(number: int) -> Destination:
    return Destination("queue", f"q{number}")


def bound(exchange: Exchange, *numbers: int, key: str = "") -> Exchange:
    for number in numbers:
        exchange.bind(Binding("x", queue(number), key))
    return exchange


def choices(exchange: Exchange, keys: list[str] = KEYS) -> list[Destination]:
    chosen = []
    for key in keys:
        (one,) = exchange.destinations(key, {})
        chosen.append(one)
    return chosen


@pytest.mark.parametrize("kind", [ModulusHashExchange, RandomExchange, LocalRandomExchange])
@pytest.mark.feature("S2-05")
def test_each_message_goes_to_exactly_one(kind: type[Exchange]) -> None:
    """And everybody gets some."""
    exchange = kind("x")
    assert list(exchange.destinations("k", {})) == []
    assert set(choices(bound(exchange, 1))) == {queue(1)}
    assert set(choices(bound(exchange, 2, 3))) == {queue(1), queue(2), queue(3)}


@pytest.mark.parametrize("kind", [ModulusHashExchange, RandomExchange])
@pytest.mark.feature("S2-05")
def test_further_keys_make_no_further_copies(kind: type[Exchange]) -> None:
    """With CC and BCC there is still one choice."""
    exchange = bound(kind("x"), 1, 2, 3, 4)
    for _ in range(20):
        assert len(route(exchange, KEYS, {}, {}.get).queues) == 1


@pytest.mark.feature("S2-06")
def test_destination_is_the_hash_modulo_the_number() -> None:
    """So most keys move when the number changes from 3 to 4."""
    three, four = bound(ModulusHashExchange("x"), 0, 1, 2), bound(ModulusHashExchange("x"), 0, 1, 2, 3)
    moved = sum(before != after for before, after in zip(choices(three), choices(four), strict=True))
    assert 0.6 * len(KEYS) < moved < 0.9 * len(KEYS)


@pytest.mark.feature("S2-06")
def test_order_of_binding_does_not_matter() -> None:
    assert choices(bound(ModulusHashExchange("x"), 1, 2, 3)) == choices(bound(ModulusHashExchange("x"), 3, 1, 2))


@pytest.mark.feature("S2-06")
def test_hash_is_the_same_in_every_process() -> None:
    """Where a key goes must outlive the process, so it cannot hang on Python's salted hash()."""
    code = (
        "from leveret.routing.modulus_hash import ModulusHashExchange as M\n"
        "print([M('x').choose(1000, key) for key in ('a', 'b', 'ä')])"
    )
    here = str([ModulusHashExchange("x").choose(1000, key) for key in ("a", "b", "ä")])
    for salt in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": salt, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here


@pytest.mark.feature("S2-07")
def test_binding_keys_are_ignored() -> None:
    exchange = ModulusHashExchange("x")
    for number, key in enumerate(("a", "b.#", "")):
        exchange.bind(Binding("x", queue(number), key))
    assert choices(exchange) == choices(bound(ModulusHashExchange("x"), 0, 1, 2))


@pytest.mark.feature("S2-07")
def test_destination_bound_twice_counts_once() -> None:
    exchange = bound(bound(ModulusHashExchange("x"), 0, 1, 2), 1, key="again")
    once = choices(bound(ModulusHashExchange("x"), 0, 1, 2))
    assert choices(exchange) == once
    exchange.unbind(Binding("x", queue(1), "again"))
    assert choices(exchange) == once


@pytest.mark.feature("S2-08")
def test_same_key_goes_to_the_same_queue_while_the_set_is_the_same() -> None:
    """Also after somebody left and came back."""
    exchange = bound(ModulusHashExchange("x"), 0, 1, 2)
    before = choices(exchange)
    assert choices(exchange) == before
    exchange.unbind(Binding("x", queue(1), ""))
    assert set(choices(exchange)) == {queue(0), queue(2)}
    bound(exchange, 1)
    assert choices(exchange) == before


@pytest.mark.feature("S2-08")
def test_routes_by_hash_may_be_remembered_and_routes_by_chance_not() -> None:
    assert route(bound(ModulusHashExchange("x"), 1, 2), ["k"], {}, {}.get).by_key_only
    assert not route(bound(RandomExchange("x"), 1, 2), ["k"], {}, {}.get).by_key_only


def test_exchanges_can_be_chosen_as_well() -> None:
    exchange = bound(ModulusHashExchange("x"), 1)
    exchange.bind(Binding("x", Destination("exchange", "y"), ""))
    assert set(choices(exchange)) == {queue(1), Destination("exchange", "y")}


# ---- chance


def test_chance_is_even_and_no_round_robin() -> None:
    exchange = bound(RandomExchange("x"), 0, 1, 2)
    chosen = choices(exchange, ["same"] * 3_000)
    assert all(900 < number < 1_100 for number in Counter(chosen).values())
    repeats = sum(one == other for one, other in pairwise(chosen))
    assert 850 < repeats < 1_150


def test_equal_seeds_choose_alike() -> None:
    first, again, other = (
        [chance.below(1000) for _ in range(50)] for chance in (SeededRandom(7), SeededRandom(7), SeededRandom(8))
    )
    assert first == again
    assert first != other
    assert all(0 <= drawn < 1000 for drawn in first)


@pytest.mark.parametrize("kind", ["x-random", "x-local-random"])
def test_seed_comes_from_the_register(kind: str) -> None:
    one, same, other = (choices(bound(ExchangeTypes(seed).make(kind, "x"), 0, 1, 2, 3)) for seed in (5, 5, 1 << 63))
    assert one == same
    assert one != other


def test_random_exchanges_of_one_broker_do_not_choose_in_step() -> None:
    types = ExchangeTypes()
    one, other = (bound(types.make("x-random", name), 0, 1, 2, 3) for name in ("one", "other"))
    assert choices(one) != choices(other)


def test_local_random_takes_queues_without_a_key_only() -> None:
    exchange = LocalRandomExchange("x")
    exchange.validate_binding(Binding("x", queue(1), ""))
    with pytest.raises(PreconditionFailed, match="Non empty binding 'k' key not permitted for exchange 'x'"):
        exchange.validate_binding(Binding("x", queue(1), "k"))
    with pytest.raises(PreconditionFailed, match=r"exchange 'y' cannot be bound to exchange 'x'.* queues only"):
        exchange.validate_binding(Binding("x", Destination("exchange", "y"), ""))

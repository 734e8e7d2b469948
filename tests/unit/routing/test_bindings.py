"""Bindings are values, and a virtual host finds them from either end (S4-03, S4-08)."""

from __future__ import annotations

import pytest

from leveret.routing.bindings import Binding, Bindings, Destination, DestinationCounts

Q1, Q2, X2 = Destination("queue", "q1"), Destination("queue", "q2"), Destination("exchange", "q1")


@pytest.mark.feature("S4-08")
def test_binding_is_equal_by_source_destination_key_and_arguments() -> None:
    """A binding is exchange, destination, key, arguments."""
    one = Binding("x", Q1, "k", {"a": [1, {"b": None}]})
    assert one == Binding("x", Q1, "k", {"a": [1, {"b": None}]})
    assert hash(one) == hash(Binding("x", Q1, "k", {"a": [1, {"b": None}]}))
    for other in (
        Binding("y", Q1, "k", one.arguments),
        Binding("x", Q2, "k", one.arguments),
        Binding("x", X2, "k", one.arguments),
        Binding("x", Q1, "l", one.arguments),
        Binding("x", Q1, "k", {"a": [True, {"b": None}]}),
        Binding("x", Q1, "k"),
    ):
        assert one != other


def test_binding_keeps_its_arguments_as_given() -> None:
    assert Binding("x", Q1, "k", {"a": 1}).arguments == {"a": 1}
    assert Binding("x", Q1, "k").arguments == {}


@pytest.mark.feature("S4-03")
def test_exchanges_and_queues_are_many_to_many() -> None:
    """One exchange leads to many queues, one queue is fed by many exchanges."""
    bindings = Bindings()
    a, b, c = Binding("x", Q1, "k"), Binding("x", Q2, "k"), Binding("y", Q1, "k")
    assert [bindings.add(binding) for binding in (a, b, c)] == [True, True, True]
    assert bindings.of_source("x") == [a, b]
    assert bindings.of_source("y") == [c]
    assert bindings.of_destination(Q1) == [a, c]
    assert bindings.of_destination(Q2) == [b]
    assert len(bindings) == 3


def test_binding_twice_is_kept_once() -> None:
    bindings = Bindings()
    assert bindings.add(Binding("x", Q1, "k", {"a": 1}))
    assert not bindings.add(Binding("x", Q1, "k", {"a": 1}))
    assert bindings.add(Binding("x", Q1, "k", {"a": True}))
    assert len(bindings) == 2


def test_unbinding_what_was_never_bound_changes_nothing() -> None:
    bindings = Bindings()
    bindings.add(Binding("x", Q1, "k"))
    assert not bindings.remove(Binding("x", Q1, "other"))
    assert not bindings.remove(Binding("nowhere", Q1, "k"))
    assert len(bindings) == 1
    assert bindings.remove(Binding("x", Q1, "k"))
    assert not bindings.remove(Binding("x", Q1, "k"))
    assert len(bindings) == 0


def test_deleting_a_queue_gives_back_only_its_bindings() -> None:
    bindings = Bindings()
    a, b, c = Binding("x", Q1, "k"), Binding("x", X2, "k"), Binding("y", Q1, "k")
    for binding in (a, b, c):
        bindings.add(binding)
    assert bindings.remove_destination(Q1) == [a, c]
    assert bindings.remove_destination(Q1) == []
    assert bindings.of_source("x") == [b]
    assert bindings.of_source("y") == []
    assert b in bindings
    assert a not in bindings


def test_deleting_an_exchange_gives_back_what_led_away_from_it() -> None:
    bindings = Bindings()
    a, b, c = Binding("x", Q1, "k"), Binding("x", Q2, "k"), Binding("y", Q1, "k")
    for binding in (a, b, c):
        bindings.add(binding)
    assert bindings.remove_source("x") == [a, b]
    assert bindings.of_destination(Q1) == [c]
    assert bindings.of_destination(Q2) == []


def test_what_is_asked_for_is_a_copy_that_survives_removal() -> None:
    bindings = Bindings()
    binding = Binding("x", Q1, "k")
    bindings.add(binding)
    for seen in bindings.of_source("x"):
        bindings.remove(seen)
    assert len(bindings) == 0


def test_nothing_is_left_behind_by_names_that_come_and_go() -> None:
    bindings = Bindings()
    for number in range(100):
        binding = Binding(f"x{number}", Destination("queue", f"q{number}"), "k")
        bindings.add(binding)
        bindings.remove(binding)
    assert vars(bindings) == vars(Bindings())


def test_destination_stays_until_its_last_binding_is_gone() -> None:
    counts = DestinationCounts()
    counts.gain(Q1)
    counts.gain(Q2)
    counts.gain(Q1)
    counts.lose(Q1)
    assert list(counts) == [Q1, Q2]
    counts.lose(Q1)
    assert list(counts) == [Q2]
    with pytest.raises(KeyError):
        counts.lose(Q1)

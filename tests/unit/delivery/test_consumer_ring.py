"""Whose turn it is (S4-48)."""

from __future__ import annotations

import pytest

from leveret.delivery.consumer_ring import ConsumerRing
from tests.support.spies import SpyConsumer


def ring_of(*consumers: SpyConsumer) -> ConsumerRing:
    ring = ConsumerRing()
    for consumer in consumers:
        ring.add(consumer)
    return ring


def turns(ring: ConsumerRing, number: int) -> str:
    return "".join(consumer.tag if (consumer := ring.next()) else "-" for _ in range(number))


def test_an_empty_ring_serves_nobody() -> None:
    ring = ConsumerRing()
    assert ring.next() is None
    assert len(ring) == 0


@pytest.mark.feature("S4-48")
def test_equals_take_turns_one_message_each() -> None:
    ring = ring_of(SpyConsumer("a"), SpyConsumer("b"), SpyConsumer("c"))
    assert turns(ring, 7) == "abcabca"
    assert ring.stretch == 1


def test_a_consumer_alone_may_take_as_many_as_it_likes() -> None:
    ring = ring_of(SpyConsumer("a"))
    assert turns(ring, 2) == "aa"
    assert ring.stretch == 0


def test_a_consumer_without_room_is_passed_over() -> None:
    ring = ring_of(SpyConsumer("a"), SpyConsumer("b", credit=0), SpyConsumer("c"))
    assert turns(ring, 4) == "acac"


def test_nobody_is_served_when_nobody_has_room() -> None:
    ring = ring_of(SpyConsumer("a", credit=0), SpyConsumer("b", credit=0))
    assert turns(ring, 1) == "-"
    assert turns(ring_of(SpyConsumer("a", credit=0)), 1) == "-"


def test_higher_priority_goes_first_as_long_as_it_has_room() -> None:
    high, low = SpyConsumer("h", priority=5), SpyConsumer("l", priority=-1)
    ring = ring_of(low, SpyConsumer("m"), high)
    assert turns(ring, 3) == "hhh"
    high.credit = 0
    assert turns(ring, 2) == "mm"
    high.credit = 1
    assert turns(ring, 1) == "h"


def test_iteration_names_all_by_priority() -> None:
    ring = ring_of(SpyConsumer("a"), SpyConsumer("h", priority=1), SpyConsumer("b"))
    assert [consumer.tag for consumer in ring] == ["h", "a", "b"]
    assert len(ring) == 3


def test_a_removed_consumer_has_no_turn() -> None:
    a, b, high = SpyConsumer("a"), SpyConsumer("b"), SpyConsumer("h", priority=1)
    ring = ring_of(a, b, high)
    assert ring.remove(high)
    assert ring.remove(a)
    assert turns(ring, 2) == "bb"
    assert len(ring) == 1


def test_removing_a_stranger_changes_nothing() -> None:
    ring = ring_of(SpyConsumer("a"))
    assert not ring.remove(SpyConsumer("a"))
    assert not ring.remove(SpyConsumer("h", priority=3))
    assert len(ring) == 1


def test_a_consumer_is_known_by_its_tag_unless_it_knows_better() -> None:
    assert SpyConsumer("mine").label == "mine"
    assert SpyConsumer("mine").arguments == {}

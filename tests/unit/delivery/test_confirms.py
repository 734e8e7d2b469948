"""Which publish may be confirmed when (S4-74)."""

from __future__ import annotations

import pytest

from leveret.delivery.confirms import GRANTED, Confirm, Confirms


def ack(tag: int, *, multiple: bool = False) -> Confirm:
    return Confirm(tag, multiple, ack=True)


def nack(tag: int, *, multiple: bool = False) -> Confirm:
    return Confirm(tag, multiple, ack=False)


@pytest.mark.feature("S0-12", "S4-74")
def test_what_waits_for_nothing_is_confirmed_at_once() -> None:
    """No receipt to wait for. S4-74."""
    confirms = Confirms()
    assert confirms.published(1, GRANTED) == [ack(1)]
    assert confirms.published(3, GRANTED) == [ack(4, multiple=True)]
    assert (confirms.issued, confirms.outstanding) == (4, 0)


def test_a_receipt_confirms_its_publish_when_it_is_granted() -> None:
    confirms = Confirms()
    assert confirms.published(1, 10) == []
    assert confirms.outstanding == 1
    assert confirms.granted(9) == []
    assert confirms.granted(10) == [ack(1)]
    assert confirms.outstanding == 0


def test_granting_several_receipts_confirms_them_by_one_multiple() -> None:
    confirms = Confirms()
    confirms.published(1, 10)
    confirms.published(2, 11)
    confirms.published(1, 12)
    assert confirms.outstanding == 4
    assert confirms.granted(11) == [ack(3, multiple=True)]
    assert confirms.granted(50) == [ack(4)]


def test_what_needs_no_receipt_overtakes_by_single_confirms() -> None:
    """A multiple would cover the number that still waits."""
    confirms = Confirms()
    confirms.published(1, 10)
    assert confirms.published(2, GRANTED) == [ack(2), ack(3)]
    assert confirms.granted(10) == [ack(1)]


def test_a_multiple_never_covers_a_reserved_number() -> None:
    confirms = Confirms()
    assert confirms.reserve(2) == (1, 2)
    assert confirms.published(2, GRANTED) == [ack(3), ack(4)]
    confirms.published(2, 7)
    assert confirms.granted(7) == [ack(5), ack(6)]
    assert confirms.outstanding == 2


def test_reserved_numbers_are_resolved_together_if_none_below_is_waiting() -> None:
    confirms = Confirms()
    spans = [confirms.reserve(2) for _ in range(3)]
    assert confirms.resolved(*spans[1]) == [ack(3), ack(4)]
    assert confirms.outstanding == 4
    assert confirms.resolved(*spans[0], range(1, 3)) == [nack(2, multiple=True)]
    assert confirms.resolved(*spans[2]) == [ack(6, multiple=True)]
    assert confirms.outstanding == 0
    assert confirms.published(2, GRANTED) == [ack(8, multiple=True)]


def test_reserved_numbers_and_receipts_do_not_confirm_each_other() -> None:
    confirms = Confirms()
    confirms.published(2, 10)
    span = confirms.reserve(2)
    confirms.published(2, 11)
    assert confirms.resolved(*span) == [ack(3), ack(4)]
    assert confirms.granted(11) == [ack(6, multiple=True)]
    span = confirms.reserve(1)
    confirms.published(2, 12)
    assert confirms.granted(12) == [ack(8), ack(9)]
    assert confirms.resolved(*span) == [ack(7)]


def test_reserved_numbers_may_be_refused_in_part() -> None:
    confirms = Confirms()
    spans = [confirms.reserve(5), confirms.reserve(3)]
    assert confirms.resolved(*spans[1], {7}) == [ack(6), nack(7), ack(8)]
    expected = [ack(2, multiple=True), nack(4, multiple=True), ack(5)]
    assert confirms.resolved(*spans[0], {3, 4}) == expected


@pytest.mark.feature("S4-75")
def test_refused_publishes_are_nacked_by_their_own_numbers() -> None:
    confirms = Confirms()
    confirms.published(1, 10)
    assert confirms.refused(2) == [nack(2), nack(3)]
    assert confirms.issued == 3
    assert confirms.granted(10) == [ack(1)]


def test_failed_writes_are_nacked_and_never_confirmed() -> None:
    confirms = Confirms()
    confirms.published(2, 10)
    confirms.published(1, 11)
    assert confirms.lost(10) == [nack(1), nack(2)]
    assert confirms.lost(10) == []
    assert confirms.granted(11) == [ack(3)]

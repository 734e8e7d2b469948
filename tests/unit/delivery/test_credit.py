"""What a channel owes to queues that take their time (S0-02, S0-03, S0-04, S0-26)."""

from __future__ import annotations

import pytest

from leveret.delivery.credit import CreditLedger


class Valve:
    def __init__(self) -> None:
        self.news: list[str] = []

    def ledger(self, limit: int) -> CreditLedger:
        return CreditLedger(lambda: self.news.append("block"), lambda: self.news.append("unblock"), limit)


@pytest.fixture
def valve() -> Valve:
    return Valve()


@pytest.mark.feature("S0-02")
def test_spending_adds_up_by_queue(valve: Valve) -> None:
    ledger = valve.ledger(10)
    ledger.spend("q", 2)
    ledger.spend("q", 3)
    ledger.spend("p", 1)
    assert (ledger.owed("q"), ledger.owed("p"), ledger.owed("other")) == (5, 1, 0)
    assert ledger.queues() == ["q", "p"]


@pytest.mark.feature("S0-04")
def test_owing_too_much_to_one_queue_blocks_once(valve: Valve) -> None:
    ledger = valve.ledger(4)
    ledger.spend("q", 3)
    ledger.spend("p", 3)
    assert not ledger.blocked
    ledger.spend("q", 1)
    ledger.spend("q", 5)
    assert ledger.blocked
    assert valve.news == ["block"]


@pytest.mark.feature("S0-03", "S0-04")
def test_half_of_the_debt_must_be_paid_before_reading_goes_on(valve: Valve) -> None:
    ledger = valve.ledger(4)
    ledger.spend("q", 4)
    ledger.grant("q", 1)
    assert ledger.blocked
    ledger.grant("q", 1)
    assert valve.news == ["block", "unblock"]
    assert ledger.owed("q") == 2


def test_two_slow_queues_must_both_be_paid(valve: Valve) -> None:
    ledger = valve.ledger(2)
    ledger.spend("q", 2)
    ledger.spend("p", 2)
    ledger.grant("q", 2)
    assert ledger.blocked
    ledger.grant("p", 2)
    assert valve.news == ["block", "unblock"]


def test_a_paid_debt_leaves_no_entry(valve: Valve) -> None:
    ledger = valve.ledger(4)
    ledger.spend("q", 1)
    ledger.grant("q", 1)
    ledger.grant("q", 5)
    assert ledger.queues() == []
    assert ledger.owed("q") == 0


@pytest.mark.feature("S0-26")
def test_a_dead_queue_holds_nobody_back(valve: Valve) -> None:
    ledger = valve.ledger(2)
    ledger.spend("q", 7)
    ledger.forget("q")
    ledger.forget("q")
    assert valve.news == ["block", "unblock"]
    assert ledger.queues() == []

"""What the publisher of a fanout hears of brokers that agree, refuse, or come too late."""

from __future__ import annotations

from leveret.client.errors import ConnectionLost, Nacked
from leveret.client.fanout import Ballot


def ballot_of(needed: int, asked: int) -> tuple[Ballot, list[str]]:
    over: list[str] = []
    return Ballot(lambda problem: over.append(str(problem)), needed=needed, asked=asked), over


def test_as_many_as_are_needed_decide() -> None:
    ballot, over = ballot_of(needed=2, asked=3)
    ballot.set_result(None)
    ballot.set_exception(Nacked("full"))
    assert not ballot.done()
    ballot.set_result(None)
    assert ballot.done()
    assert over == ["None"]


def test_all_who_refuse_are_told_once() -> None:
    ballot, over = ballot_of(needed=2, asked=2)
    for _ in range(2):
        ballot.set_exception(ConnectionLost("away"))
    assert over == ["away"]


def test_who_comes_too_late_changes_nothing() -> None:
    ballot, over = ballot_of(needed=1, asked=3)
    ballot.set_result(None)
    ballot.set_exception(Nacked("full"))
    ballot.set_result(None)
    assert over == ["None"]

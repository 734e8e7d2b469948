"""Which policies match a queue: what takes long is not asked for every row of every list."""

from __future__ import annotations

import pytest

from leveret.api import policy_matches
from leveret.api.policy_matches import PolicyMatches
from leveret.broker.policies import Policies
from leveret.broker.policy import Policy
from leveret.broker.vhost import Vhost
from tests.support.peer_pair import Harness


@pytest.fixture
def policies(harness: Harness) -> Policies:
    return harness.broker.policies


class Counted:
    """Counts how often policies were matched; each match takes ``seconds``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.number = 0
        self._now = 0.0
        covers = Policy.covers

        def slow(policy: Policy, kind: str, name: str) -> bool:
            self.number += 1
            self._now += seconds
            return covers(policy, kind, name)

        monkeypatch.setattr(Policy, "covers", slow)
        monkeypatch.setattr(policy_matches, "perf_counter", lambda: self._now)


def names(found: tuple[list[Policy], list[Policy]]) -> list[str]:
    return [policy.name for policy in (*found[0], *found[1])]


def test_a_match_that_takes_long_is_remembered_until_the_policies_change(
    policies: Policies, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = vhost.declare_queue("q")
    policies.set("/", "a", "^q", {"max-length": 1})
    asked, matches = Counted(monkeypatch, 0.05), PolicyMatches()
    assert [names(matches.of(vhost, queue)) for _ in range(3)] == [["a"]] * 3
    assert asked.number == 1
    policies.set("/", "b", "^q", {"max-length": 2}, operator=True)
    before = asked.number
    assert [names(matches.of(vhost, queue)) for _ in range(3)] == [["a", "b"]] * 3
    assert asked.number == before + 2
    policies.delete("/", "a")
    assert names(matches.of(vhost, queue)) == ["b"]


def test_what_is_quick_takes_no_memory(policies: Policies, vhost: Vhost, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = vhost.declare_queue("q")
    policies.set("/", "a", "^q", {"max-length": 1})
    asked, matches = Counted(monkeypatch, 0.0), PolicyMatches()
    for _ in range(3):
        assert names(matches.of(vhost, queue)) == ["a"]
    assert (asked.number, len(matches)) == (3, 0)


def test_not_more_is_remembered_than_there_is_room_for(
    policies: Policies, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_matches, "MOST", 2)
    policies.set("/", "a", "^q", {"max-length": 1})
    Counted(monkeypatch, 0.05)
    matches = PolicyMatches()
    for number in range(5):
        matches.of(vhost, vhost.declare_queue(f"q{number}"))
    assert len(matches) == 2


def test_without_policies_nothing_is_matched(vhost: Vhost) -> None:
    assert PolicyMatches().of(vhost, vhost.declare_queue("q")) == ([], [])

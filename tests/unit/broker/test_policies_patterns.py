"""Which names a policy is for: regular expressions, and destinations as ActiveMQ writes them."""

from __future__ import annotations

import pytest

from leveret.auth.permissions import SECONDS_PER_MATCH, compile_pattern
from leveret.broker import policy
from leveret.broker.policies import Policies
from leveret.broker.policy import Policy, name_matcher
from leveret.broker.vhost import Vhost
from leveret.errors import PreconditionFailed
from tests.support.peer_pair import Harness

EVIL = "^(a|aa)+$"
SLOW = "a" * 250 + "b"


@pytest.fixture
def policies(harness: Harness) -> Policies:
    return harness.broker.policies


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", ["a", "b.c"], []),
        ("^a", ["a", "ab"], ["ba"]),
        ("b", ["abc", "b"], ["a"]),
        (r"^amq\.gen-", ["amq.gen-1"], ["amqXgen-1"]),
        ("q{e}", ["q{e}"], ["q", "x"]),
        ("activemq:>", ["a", "a.b", "a.b.c", ""], []),
        ("activemq:a.b", ["a.b"], ["a", "a.b.c", "a.c", "xa.b", "axb"]),
        ("activemq:a.>", ["a", "a.b", "a.b.c"], ["ab", "b.a", "b"]),
        ("activemq:a.*", ["a.b", "a.c"], ["a", "a.b.c", "b.b"]),
        ("activemq:*.b.>", ["a.b", "x.b.c.d"], ["b", "a.c.b"]),
        ("activemq:a.*.c", ["a.b.c"], ["a.c", "a.b.b.c"]),
        ("activemq:a*", ["a*"], ["ab"]),
    ],
)
@pytest.mark.feature("S1-25")
def test_pattern_matches_these_names_and_not_those(pattern: str, matching: list[str], others: list[str]) -> None:
    matches = name_matcher(pattern)
    assert [name for name in matching if not matches(name)] == []
    assert [name for name in others if matches(name)] == []


@pytest.mark.parametrize("pattern", ["activemq:", "activemq:>.a", "activemq:a.>.b"])
def test_pattern_that_is_no_destination_is_refused(pattern: str) -> None:
    with pytest.raises(PreconditionFailed, match="is not a destination"):
        name_matcher(pattern)


@pytest.mark.feature("S1-25")
def test_wildcard_policy_holds_for_all_queues_or_for_one(policies: Policies, vhost: Vhost) -> None:
    one, two = vhost.declare_queue("orders.eu"), vhost.declare_queue("prices")
    policies.set("/", "all", "activemq:>", {"max-length": 100})
    policies.set("/", "exact", "activemq:prices", {"max-length": 5}, priority=1)
    assert (one.options.max_length, two.options.max_length) == (100, 5)


# ---- patterns that take too long


def test_pattern_that_takes_too_long_on_a_name_is_refused(policies: Policies, vhost: Vhost) -> None:
    vhost.declare_queue(SLOW)
    with pytest.raises(PreconditionFailed, match=r"policy evil in vhost '/': .* takes too long on existing names"):
        policies.set("/", "evil", EVIL, {"max-length": 1})
    assert policies.list("/") == ()


def test_pattern_that_takes_too_long_on_a_later_name_is_passed_over_and_can_be_deleted(
    policies: Policies, vhost: Vhost, caplog: pytest.LogCaptureFixture
) -> None:
    policies.set("/", "evil", EVIL, {"max-length": 1})
    fast = vhost.declare_queue("aaaa")
    slow = vhost.declare_queue(SLOW)
    assert (fast.options.max_length, slow.options.max_length) == (1, None)
    assert "takes too long to match and is ignored" in caplog.text
    policies.delete("/", "evil")
    assert fast.options.max_length is None


def test_after_one_name_took_too_long_no_other_is_waited_for(
    policies: Policies, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies.set("/", "evil", EVIL, {"max-length": 1})
    for number in range(50):
        vhost.declare_queue(f"q{number}")
    waits = []

    def late(policy: Policy, kind: str, name: str) -> bool:
        waits.append(name)
        raise TimeoutError

    monkeypatch.setattr(Policy, "covers", late)
    policies.delete("/", "evil")
    assert len(waits) == 1


@pytest.fixture
def a_fifth_per_name(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each match takes a fifth of a second, by the clock of the harness. Gives the names that were asked."""
    asked: list[str] = []

    def slow(policy: Policy, kind: str, name: str) -> bool:
        asked.append(name)
        harness.clock.move_to(harness.clock.now() + 0.2)
        return False

    monkeypatch.setattr(Policy, "covers", slow)
    return asked


def test_pattern_that_takes_too_long_on_all_names_together_is_refused(
    policies: Policies, vhost: Vhost, a_fifth_per_name: list[str]
) -> None:
    for number in range(50):
        vhost.enter(vhost.declare_queue(f"q{number}"))
    a_fifth_per_name.clear()
    with pytest.raises(PreconditionFailed, match="takes too long on existing names"):
        policies.set("/", "evil", EVIL, {"max-length": 1})
    assert len(a_fifth_per_name) <= 4
    assert policies.list("/") == ()


def test_a_policy_that_takes_too_long_on_later_names_together_can_be_deleted(
    harness: Harness, policies: Policies, vhost: Vhost, request: pytest.FixtureRequest
) -> None:
    policies.set("/", "evil", EVIL, {"max-length": 1})
    for number in range(50):
        vhost.declare_queue(f"q{number}")
    asked: list[str] = request.getfixturevalue("a_fifth_per_name")
    policies.delete("/", "evil")
    assert len(asked) <= 4
    assert policies.list("/") == ()


class SpyPattern:
    def __init__(self) -> None:
        self.limits: list[float | None] = []

    def search(self, name: str, timeout: float | None = None) -> None:
        self.limits.append(timeout)


@pytest.mark.parametrize("pattern", [EVIL, "a?" * 30 + "a" * 30, "a*a*a*c", "(?:a+)+c", "a{1,99}a{1,99}c", "a*b?"])
def test_pattern_that_can_be_slow_runs_with_a_limit(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = SpyPattern()
    monkeypatch.setattr(policy, "compile_pattern", lambda text: spy)
    name_matcher(pattern)("name")
    assert spy.limits == [SECONDS_PER_MATCH]


@pytest.mark.parametrize("pattern", ["a*c", "a+c", ".*c", "^a.*c", "a|b*c", "[a-z]+c", "a{1,255}c"])
def test_patterns_that_run_without_a_limit_are_quick_on_the_longest_names(pattern: str) -> None:
    """Even a tenth of the usual limit, were there one, would let them pass."""
    assert policy._is_quick(pattern)
    search = compile_pattern(pattern).search
    search("a" * 255, timeout=SECONDS_PER_MATCH / 10)

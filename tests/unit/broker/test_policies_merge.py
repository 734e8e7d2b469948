"""How arguments, policies and operator policies are merged, and how that is explained."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.policies import Policies
from leveret.broker.policy import Policy, make_policy
from leveret.broker.policy_keys import ARGUMENTS, BY_ARGUMENT
from leveret.broker.policy_merge import Explained, effective_arguments, explain, fitting_options, merged
from leveret.broker.vhost import Vhost
from tests.support.peer_pair import Harness

LIMITS = ("message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit", "consumer-timeout")


@pytest.fixture
def policies(harness: Harness) -> Policies:
    return harness.broker.policies


# ---- merging


def test_all_matching_policies_merge_and_the_highest_priority_wins_per_key(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "low", "", {"max-length": 1, "message-ttl": 1000, "overflow": "reject-publish"}, priority=-1)
    policies.set("/", "middle", "^q", {"max-length": 2, "message-ttl": 2000})
    policies.set("/", "high", "q$", {"max-length": 3}, priority=5)
    options = vhost.declare_queue("q").options
    assert (options.max_length, options.ttl, options.overflow) == (3, 2.0, "reject-publish")
    options = vhost.declare_queue("other").options
    assert (options.max_length, options.ttl) == (1, 1.0)


def test_of_equal_priorities_the_first_name_wins(policies: Policies, vhost: Vhost) -> None:
    for name in ("c", "a", "b"):
        policies.set("/", name, "", {"dead-letter-exchange": name})
    target = vhost.declare_queue("q").options.dead_letter
    assert target is not None
    assert target.exchange == "a"


@pytest.mark.parametrize("key", LIMITS)
def test_smallest_limit_holds_wherever_it_comes_from(key: str) -> None:
    argument = f"x-{key}"
    for given_, policy, operator in [(1, 2, 3), (2, 1, 3), (3, 2, 1)]:
        assert effective_arguments({argument: given_}, {key: policy}, {key: operator}) == {argument: 1}
    assert effective_arguments({}, {key: 5}, {key: 7}) == {argument: 5}
    assert effective_arguments({}, {}, {key: 7}) == {argument: 7}
    assert effective_arguments({argument: None}, {key: 5}, {}) == {argument: 5}


def test_no_limit_is_looser_than_any() -> None:
    assert effective_arguments({"x-delivery-limit": -1}, {"delivery-limit": 5}, {}) == {"x-delivery-limit": 5}
    assert effective_arguments({"x-delivery-limit": 5}, {"delivery-limit": -1}, {}) == {"x-delivery-limit": 5}
    assert effective_arguments({"x-delivery-limit": -1}, {}, {}) == {"x-delivery-limit": -1}


def test_of_what_is_no_limit_the_argument_holds() -> None:
    policy = {"overflow": "reject-publish", "retry-delays": [1], "dead-letter-exchange": "p", "max-redeliveries": 1}
    arguments = {
        "x-overflow": "drop-head",
        "x-retry-delays": [2],
        "x-dead-letter-exchange": "a",
        "x-max-redeliveries": 9,
    }
    assert effective_arguments(arguments, policy, {}) == arguments


def test_keys_get_the_names_of_their_arguments_and_others_are_left_out() -> None:
    policy = {"deduplication-window-ms": 5, "alternate-exchange": "a", "shards-per-node": 2, "ha-mode": "all"}
    assert effective_arguments({"x-mine": 1}, policy, {}) == {"x-mine": 1, "x-cache-ttl": 5}


def test_operator_policy_can_only_tighten(policies: Policies, vhost: Vhost) -> None:
    queue = vhost.declare_queue("q", arguments={"x-max-length": 100})
    policies.set("/", "p", "", {"max-length": 50, "message-ttl": 1000})
    policies.set("/", "o", "", {"max-length": 70, "message-ttl": 9000, "expires": 5000}, operator=True, priority=99)
    assert (queue.options.max_length, queue.options.ttl, queue.options.expires) == (50, 1.0, 5.0)
    policies.set("/", "o", "", {"max-length": 7}, operator=True)
    assert (queue.options.max_length, queue.options.ttl, queue.options.expires) == (7, 1.0, None)
    policies.delete("/", "p")
    assert (queue.options.max_length, queue.options.ttl) == (7, None)
    policies.delete("/", "o", operator=True)
    assert queue.options.max_length == 100


def test_of_two_ways_to_retry_the_one_of_the_higher_policy_holds() -> None:
    high, low = {"retry-delays": [5]}, {"retry-delay-min": 7, "max-length": 3}
    options, left_out = fitting_options({}, {**high, **low}, {}, False, False)
    assert options.retry is not None
    assert (options.retry.delays, options.max_length, left_out) == ((0.005,), 3, {"retry-delay-min"})
    options, left_out = fitting_options({}, {**low, **high}, {}, False, False)
    assert options.retry is not None
    assert (options.retry.shortest, options.max_length, left_out) == (0.007, 3, {"retry-delays"})


def test_key_that_needs_another_finds_it_in_a_lower_policy_though_a_third_is_left_out() -> None:
    policy = {"dead-letter-routing-key": "k", "retry-delay-min": 7, "dead-letter-exchange": "x"}
    options, left_out = fitting_options({"x-retry-delays": [1]}, policy, {}, False, False)
    assert options.dead_letter is not None
    assert (options.dead_letter.exchange, options.dead_letter.key) == ("x", "k")
    assert left_out == {"retry-delay-min"}


# ---- explaining


def test_explain_names_the_source_of_every_value_and_those_that_lost(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "low", "", {"max-length": 1000, "message-ttl": 60_000})
    policies.set("/", "high", "", {"max-length": 500, "overflow": "reject-publish"}, priority=1)
    policies.set("/", "cap", "", {"max-length": 100, "message-ttl": 90_000}, operator=True)
    policies.set("/", "elsewhere", "^x", {"expires": 1}, priority=9)
    queue = vhost.declare_queue("q", arguments={"x-overflow": "drop-head", "x-note": "mine", "x-message-ttl": 60_000})
    assert policies.explain("/", queue) == [
        Explained("max-length", 100, "operator policy cap", True),
        Explained("max-length", 500, "policy high", False),
        Explained("max-length", 1000, "policy low", False),
        Explained("message-ttl", 60_000, "argument", True),
        Explained("message-ttl", 60_000, "policy low", False),
        Explained("message-ttl", 90_000, "operator policy cap", False),
        Explained("note", "mine", "argument", True),
        Explained("overflow", "drop-head", "argument", True),
        Explained("overflow", "reject-publish", "policy high", False),
    ]


def test_explain_of_a_plain_queue_has_nothing_to_say(policies: Policies, vhost: Vhost) -> None:
    assert policies.explain("/", vhost.declare_queue("q")) == []


def effective(found: list[Explained]) -> dict[str, tuple[object, str]]:
    return {each.key: (each.value, each.source) for each in found if each.is_effective}


def test_explain_tells_defaults_that_matter(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "p", "", {"max-length": 5, "message-deduplication": True})
    quorum = vhost.declare_queue("q", durable=True, arguments={"x-queue-type": "quorum"})
    found = effective(policies.explain("/", quorum))
    assert found["overflow"] == ("drop-head", "default")
    assert found["delivery-limit"] == (20, "default")
    assert found["deduplication-header"][1] == "default"
    assert found["queue-type"] == ("quorum", "argument")


@pytest.mark.feature("S1-20", "S1-21", "S1-22", "S1-24")
def test_explain_tells_the_defaults_of_activemqs_strategies(policies: Policies, vhost: Vhost) -> None:
    """Six redeliveries, the names, and what is processed."""
    queue = vhost.declare_queue("q")
    policies.set("/", "dead", "activemq:>", {"dead-letter-strategy": "shared"})
    assert effective(policies.explain("/", queue)) == {
        "dead-letter-strategy": ("shared", "policy dead"),
        "dead-letter-queue": ("ActiveMQ.DLQ", "default"),
        "process-expired": (True, "default"),
        "process-non-persistent": (False, "default"),
        "max-redeliveries": (6, "default"),
    }
    policies.set("/", "dead", "activemq:>", {"dead-letter-strategy": "individual", "max-redeliveries": 2})
    found = effective(policies.explain("/", queue))
    assert found["dead-letter-queue-prefix"] == ("DLQ.", "default")
    assert found["max-redeliveries"] == (2, "policy dead")
    assert "dead-letter-queue" not in found


@pytest.mark.feature("S1-23", "S1-24", "S1-26")
def test_strategies_of_activemq_reach_the_queue(policies: Policies, vhost: Vhost) -> None:
    """The names can be chosen, and the limit for slow consumers."""
    queue = vhost.declare_queue("q")
    policies.set("/", "dead", "activemq:>", {"dead-letter-strategy": "shared", "dead-letter-queue": "Dead"})
    assert queue.options.dead_letter is not None
    assert (queue.options.dead_letter.key, queue.options.delivery_limit) == ("Dead", 6)
    policies.set("/", "dead", "activemq:>", {"dead-letter-strategy": "individual", "dead-letter-queue-prefix": "D."})
    assert queue.options.dead_letter.key_prefix == "D."
    policies.set("/", "slow", "activemq:q", {"pending-message-limit": 1000})
    assert (queue.options.max_length, queue.options.discards) == (1000, True)


def test_explain_says_what_was_left_out_and_what_has_no_effect(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "p", "", {"retry-delay-min": 5, "ha-mode": "all", "alternate-exchange": "x"})
    queue = vhost.declare_queue("q", arguments={"x-retry-delays": [9]})
    assert policies.explain("/", queue) == [
        Explained("ha-mode", "all", "policy p", False),
        Explained("retry-delay-min", 5, "policy p", False),
        Explained("retry-delays", [9], "argument", True),
    ]


def test_explain_of_an_exchange(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "p", "^x", {"alternate-exchange": "amq.fanout", "shards-per-node": 2, "max-length": 5})
    policies.set("/", "low", "^x", {"shards-per-node": 9}, priority=-1)
    given_ = vhost.declare_exchange("x1", arguments={"alternate-exchange": "amq.direct"})
    assert policies.explain("/", given_) == [
        Explained("alternate-exchange", "amq.direct", "argument", True),
        Explained("alternate-exchange", "amq.fanout", "policy p", False),
        Explained("shards-per-node", 2, "policy p", True),
        Explained("shards-per-node", 9, "policy low", False),
    ]
    assert policies.explain("/", vhost.exchange("")) == []


# ---- both say the same

VALUES = {
    "max-length": st.integers(0, 5),
    "message-ttl": st.integers(0, 5),
    "delivery-limit": st.integers(-1, 3),
    "overflow": st.sampled_from(["drop-head", "reject-publish"]),
    "max-redeliveries": st.integers(-1, 3),
    "deduplication-window-count": st.integers(1, 3),
    "ha-mode": st.just("all"),
    "shards-per-node": st.integers(0, 3),
}
DEFINITIONS = st.fixed_dictionaries({}, optional=VALUES).filter(bool)
ONLY_LIMITS = st.fixed_dictionaries({}, optional={name: VALUES[name] for name in LIMITS if name in VALUES}).filter(bool)


def made(definitions: list[dict[str, object]], operator: bool) -> list[Policy]:
    return [
        make_policy("/", f"p{number}", "", definition, "all", -number, operator)
        for number, definition in enumerate(definitions)
    ]


@given(
    st.fixed_dictionaries({}, optional={ARGUMENTS[name]: VALUES[name] for name in VALUES if name != "shards-per-node"}),
    st.lists(DEFINITIONS, max_size=3),
    st.lists(ONLY_LIMITS, max_size=2),
)
def test_explanation_and_effective_arguments_say_the_same(
    arguments: dict[str, object], definitions: list[dict[str, object]], tight: list[dict[str, object]]
) -> None:
    policies, operators = made(definitions, False), made(tight, True)
    found = explain("queues", arguments, policies, operators)
    expected = effective_arguments(arguments, merged(policies), merged(operators))
    told = {each.key: each.value for each in found if each.is_effective}
    assert told == {BY_ARGUMENT[argument].name: value for argument, value in expected.items()}
    offers = [*arguments, *(name for each in (*policies, *operators) for name in each.definition)]
    about_queues = [name for name in offers if name != "shards-per-node"]
    assert len(found) == len(about_queues)

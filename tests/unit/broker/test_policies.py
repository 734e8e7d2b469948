"""Policies as they are set and deleted, and the queues that follow them (S0-29)."""

from __future__ import annotations

import pytest

from leveret.broker.broker import Broker
from leveret.broker.policies import Policies
from leveret.broker.policy import APPLY_TO, Policy
from leveret.broker.vhost import Vhost
from leveret.errors import NotFound, PreconditionFailed, ResourceFault
from leveret.queues.classic import ClassicQueue
from leveret.store.definitions import Change
from tests.support.peer_pair import Harness


@pytest.fixture
def broker(harness: Harness) -> Broker:
    return harness.broker


@pytest.fixture
def policies(broker: Broker) -> Policies:
    return broker.policies


# ---- what there is


def test_policies_are_listed_in_the_order_in_which_they_win(policies: Policies) -> None:
    policies.set("/", "b", "^b", {"max-length": 1})
    policies.set("/", "a", "^a", {"max-length": 2})
    policies.set("/", "high", "", {"max-length": 3}, priority=7, apply_to="queues")
    policies.set("/", "a", ".", {"max-length": 4}, operator=True)
    assert [(each.operator, each.name) for each in policies.list("/")] == [
        (False, "high"),
        (False, "a"),
        (False, "b"),
        (True, "a"),
    ]
    high = policies.list("/")[0]
    assert (high.vhost, high.pattern, high.apply_to, high.priority) == ("/", "", "queues", 7)
    assert high.definition == {"max-length": 3}


def test_policy_takes_the_place_of_one_with_its_name(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "p", "^q", {"max-length": 1})
    policies.set("/", "p", "^q", {"expires": 5000}, priority=3)
    (only,) = policies.list("/")
    assert (only.priority, only.definition) == (3, {"expires": 5000})
    options = vhost.declare_queue("q").options
    assert (options.max_length, options.expires) == (None, 5.0)


def test_virtual_hosts_have_their_own_policies(broker: Broker) -> None:
    other = broker.add_vhost("other")
    broker.policies.set("other", "p", "", {"max-length": 1})
    assert broker.policies.list("/") == ()
    assert broker.vhost("/").declare_queue("q").options.max_length is None
    assert other.declare_queue("q").options.max_length == 1
    broker.delete_vhost("other")
    assert broker.add_vhost("other").declare_queue("q").options.max_length is None


def test_policy_that_is_not_there_cannot_be_deleted(policies: Policies) -> None:
    policies.set("/", "p", "", {"max-length": 1})
    with pytest.raises(NotFound, match="no operator policy 'p' in vhost '/'"):
        policies.delete("/", "p", operator=True)
    with pytest.raises(NotFound, match="no policy 'x' in vhost '/'"):
        policies.delete("/", "x")
    with pytest.raises(NotFound, match="no vhost 'nowhere'"):
        policies.set("nowhere", "p", "", {"max-length": 1})
    assert len(policies.list("/")) == 1


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"pattern": "("}, "policy 'p' in vhost '/': pattern '(' is not a regular expression"),
        ({"pattern": "a" * 5000}, "is too long: at most 4096 characters"),
        ({"pattern": 5}, "pattern 5 is not a string"),
        ({"apply_to": "topics"}, "apply-to 'topics' is not one of all, queues, classic_queues, quorum_queues, streams"),
        ({"priority": "high"}, "priority 'high' is not a whole number"),
        ({"priority": True}, "priority True is not a whole number"),
        ({"priority": 1 << 40}, "is not a whole number of up to"),
        ({"name": ""}, "its name must be a text of 1 to 255 bytes"),
        ({"name": "é" * 128}, "its name must be a text of 1 to 255 bytes"),
        ({"definition": {}}, "no policy provided"),
        ({"definition": ["max-length"]}, "is not an object of keys and values"),
        ({"definition": {"ha-params": b"x"}}, "cannot be written as JSON"),
        ({"definition": {"ha-params": "x" * 70_000}}, "definition takes more than 65536 bytes"),
        (
            {"definition": {"max-length": -1}, "operator": True},
            "operator policy 'p' in vhost '/': policy key 'max-length'",
        ),
    ],
)
def test_policy_that_cannot_be_is_refused_with_its_name_and_the_cause(
    policies: Policies, wrong: dict[str, object], text: str
) -> None:
    right: dict[str, object] = {"name": "p", "pattern": "", "definition": {"max-length": 1}}
    with pytest.raises(PreconditionFailed) as caught:
        policies.set("/", **(right | wrong))  # type: ignore[arg-type]
    assert text in caught.value.text
    assert policies.list("/") == ()


def test_policy_keeps_a_definition_of_its_own(policies: Policies) -> None:
    given: dict[str, object] = {"retry-delays": [1, 2]}
    policy = policies.set("/", "p", "", given)
    given["retry-delays"] = []
    assert policy.definition == {"retry-delays": [1, 2]}


# ---- queues that are there, and those that come


@pytest.mark.feature("S0-29")
def test_live_queue_follows_a_policy_without_being_declared_again(policies: Policies, vhost: Vhost) -> None:
    live, other = vhost.declare_queue("orders"), vhost.declare_queue("other")
    policies.set("/", "p", "^orders", {"message-ttl": 60_000, "max-length": 10})
    assert (live.options.ttl, live.options.max_length) == (60.0, 10)
    assert (other.options.ttl, other.options.max_length) == (None, None)
    policies.set("/", "p", "^orders", {"max-length": 20})
    assert (live.options.ttl, live.options.max_length) == (None, 20)
    policies.delete("/", "p")
    assert live.options == other.options


@pytest.mark.feature("S0-29")
def test_queue_that_no_longer_matches_goes_back_to_what_it_was(policies: Policies, vhost: Vhost) -> None:
    one, two = vhost.declare_queue("one"), vhost.declare_queue("two")
    policies.set("/", "p", "^one", {"max-length": 5})
    policies.set("/", "p", "^two", {"max-length": 5})
    assert (one.options.max_length, two.options.max_length) == (None, 5)
    policies.set("/", "p", "^two", {"max-length": 5}, apply_to="exchanges")
    assert two.options.max_length is None


@pytest.mark.feature("S0-29")
def test_messages_in_a_live_queue_die_by_the_new_limit(harness: Harness, policies: Policies) -> None:
    client = harness.client()
    client.declare("q")
    client.publish("q", b"1", b"2", b"3")
    policies.set("/", "p", "^q$", {"max-length": 2})
    assert client.count("q") == 2
    client.publish("q", b"4")
    assert [client.get("q").body for _ in range(client.count("q"))] == [b"3", b"4"]  # type: ignore[union-attr]
    policies.delete("/", "p")
    client.publish("q", b"5", b"6", b"7")
    assert client.count("q") == 3


@pytest.mark.feature("S0-29")
def test_messages_published_under_a_policy_expire(harness: Harness, policies: Policies) -> None:
    client = harness.client()
    client.declare("q")
    policies.set("/", "p", "^q$", {"message-ttl": 5_000})
    client.publish("q", b"mortal")
    harness.advance(4.9)
    assert client.count("q") == 1
    harness.advance(0.2)
    assert client.count("q") == 0


def test_queues_that_follow_together_keep_their_own_arguments(policies: Policies, vhost: Vhost) -> None:
    tables: list[dict[str, object]] = [{}, {"x-max-length": 3}, {"x-max-length": 9}, {"x-expires": 2000}]
    queues = [vhost.declare_queue(f"q{number}", arguments=table) for number, table in enumerate(tables)]
    policies.set("/", "p", "", {"max-length": 5})
    assert [queue.options.max_length for queue in queues] == [5, 3, 5, 5]
    assert [queue.options.expires for queue in queues] == [None, None, None, 2.0]


def test_new_queue_gets_what_holds_for_it(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "p", "^q", {"max-length": 5})
    assert vhost.declare_queue("q").options.max_length == 5
    assert vhost.declare_queue("r").options.max_length is None


def test_policy_is_no_difference_between_two_declarations(policies: Policies, vhost: Vhost) -> None:
    """What is compared is what was declared: nobody has to know of policies."""
    policies.set("/", "p", "", {"max-length": 5, "message-ttl": 10})
    made = vhost.declare_queue("q", arguments={"x-max-length": 9})
    assert vhost.declare_queue("q", arguments={"x-max-length": 9}) is made
    with pytest.raises(PreconditionFailed, match="received '5' but current is '9'"):
        vhost.declare_queue("q", arguments={"x-max-length": 5})
    assert made.arguments == {"x-max-length": 9}


@pytest.mark.parametrize("apply_to", list(APPLY_TO))
def test_policy_applies_to_what_it_says(policies: Policies, vhost: Vhost, apply_to: str) -> None:
    classic = vhost.declare_queue("x")
    quorum = vhost.declare_queue("y", durable=True, arguments={"x-queue-type": "quorum"})
    exchange = vhost.declare_exchange("x")
    policies.set("/", "p", "", {"max-length": 5, "alternate-exchange": "amq.fanout"}, apply_to=apply_to)
    followed = {
        name
        for name, follows in {
            "classic": classic.options.max_length == 5,
            "quorum": quorum.options.max_length == 5,
            "exchange": exchange.alternate == "amq.fanout",
        }.items()
        if follows
    }
    assert followed == APPLY_TO[apply_to] - {"stream"}


def test_policy_never_spoils_a_declaration(policies: Policies, vhost: Vhost, caplog: pytest.LogCaptureFixture) -> None:
    """What does not go with the arguments is left out, and said; the rest of the policy holds."""
    policies.set("/", "p", "", {"retry-delay-min": 50, "max-length": 5})
    queue = vhost.declare_queue("q", arguments={"x-retry-delays": [10]})
    assert queue.options.retry is not None
    assert queue.options.retry.delays == (0.01,)
    assert queue.options.max_length == 5
    assert "policy keys cannot be combined with the queue's arguments and are ignored" in caplog.text
    assert "retry-delay-min" in caplog.text


def test_routing_key_for_dead_letters_waits_for_an_exchange_from_elsewhere(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "key", "", {"dead-letter-routing-key": "dead"}, priority=9)
    queue = vhost.declare_queue("q")
    assert queue.options.dead_letter is None
    policies.set("/", "exchange", "", {"dead-letter-exchange": "amq.direct"})
    assert queue.options.dead_letter is not None
    assert (queue.options.dead_letter.exchange, queue.options.dead_letter.key) == ("amq.direct", "dead")


def test_routes_are_forgotten_when_a_queue_follows_and_only_then(policies: Policies, vhost: Vhost) -> None:
    vhost.declare_queue("q", arguments={"x-overflow": "reject-publish"})
    before = vhost.epoch
    policies.set("/", "other", "^other", {"max-length": 5})
    policies.set("/", "same", "^q", {"overflow": "drop-head"})  # the argument holds
    assert vhost.epoch == before
    policies.set("/", "p", "^q", {"max-length": 5})
    assert vhost.epoch > before


def test_change_that_cannot_be_recorded_changes_nothing(broker: Broker, vhost: Vhost) -> None:
    queue = vhost.declare_queue("q")
    broker.policies.set("/", "p", "", {"max-length": 5})

    def full(change: Change) -> None:
        raise ResourceFault("no space left")

    broker.log.record = full  # type: ignore[method-assign]
    with pytest.raises(ResourceFault):
        broker.policies.set("/", "p", "", {"max-length": 6})
    with pytest.raises(ResourceFault):
        broker.policies.delete("/", "p")
    assert [each.definition for each in broker.policies.list("/")] == [{"max-length": 5}]
    assert queue.options.max_length == 5


def test_bug_in_one_queue_does_not_keep_a_policy_from_the_others(
    policies: Policies, vhost: Vhost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = vhost.declare_queue("a"), vhost.declare_queue("b")
    right = ClassicQueue.apply

    def apply(queue: ClassicQueue, options: object) -> None:
        if queue is bad:
            raise ValueError("a bug")
        right(queue, options)  # type: ignore[arg-type]

    monkeypatch.setattr(ClassicQueue, "apply", apply)
    policies.set("/", "p", "", {"max-length": 5})
    assert good.options.max_length == 5
    assert "internal error while applying a policy" in caplog.text


# ---- how much work it is


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names on which patterns are tried from now on."""
    tried: list[str] = []
    covers = Policy.covers

    def counting(policy: Policy, kind: str, name: str) -> bool:
        tried.append(name)
        return covers(policy, kind, name)

    monkeypatch.setattr(Policy, "covers", counting)
    return tried


@pytest.mark.feature("S0-29")
def test_change_of_one_policy_asks_ten_thousand_queues_once(
    policies: Policies, vhost: Vhost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A match per name, and one per policy for the names that match: well below a second of work."""
    for number in range(10_000):
        vhost.declare_queue(f"{'few' if number < 100 else 'many'}.{number}")
    for number in range(3):
        policies.set("/", f"p{number}", f"^many.*{number}$", {"max-length": number})
    exchanges = len(vhost.exchanges)
    tried = counted(monkeypatch)
    policies.set("/", "few", "^few", {"max-length": 7})
    assert sum(queue.options.max_length == 7 for queue in vhost.queues.values()) == 100
    assert len(tried) <= 10_000 + exchanges + 4 * 100
    tried.clear()
    policies.set("/", "few", "^few", {"max-length": 8})
    assert len(tried) <= 10_000 + exchanges + 4 * 100
    tried.clear()
    policies.set("/", "few", "^many", {"max-length": 9})
    assert len(tried) <= 2 * (10_000 + exchanges) + 4 * 10_000
    tried.clear()
    policies.delete("/", "few")
    assert len(tried) <= 10_000 + exchanges + 3 * 9_900


def test_queues_without_policies_are_asked_nothing(vhost: Vhost, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = counted(monkeypatch)
    vhost.declare_queue("q")
    vhost.declare_exchange("x")
    assert tried == []


@pytest.mark.feature("S0-29")
def test_live_queue_follows_a_policy_of_durability(policies: Policies, vhost: Vhost) -> None:
    queue = vhost.declare_queue("q", durable=True)
    assert queue.synced
    policies.set("/", "p", "", {"durability": "os"})
    assert not queue.synced
    policies.delete("/", "p")
    assert queue.synced

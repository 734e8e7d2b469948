"""Exchanges that follow policies, and those who are told what holds for them (S0-29)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from leveret.broker.broker import Broker
from leveret.broker.policies import Policies
from leveret.broker.vhost import Vhost
from leveret.routing.bindings import Binding, Destination
from tests.support.peer_pair import Client, Harness


@pytest.fixture
def broker(harness: Harness) -> Broker:
    return harness.broker


@pytest.fixture
def policies(harness: Harness) -> Policies:
    return harness.broker.policies


def send(client: Client, key: str, body: bytes) -> None:
    client.feed(client.published("x", key, body))


class Hearing:
    """What a hook was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, object]]] = []

    def __call__(self, vhost: Vhost, exchange: str, definition: Mapping[str, object]) -> None:
        self.told.append((exchange, dict(definition)))

    def news(self) -> list[tuple[str, dict[str, object]]]:
        told, self.told = self.told, []
        return told


@pytest.fixture
def hearing(policies: Policies) -> Hearing:
    made = Hearing()
    policies.on_exchange_changed.append(made)
    return made


@pytest.mark.feature("S0-29")
def test_live_exchange_gets_its_alternate_by_policy(harness: Harness, policies: Policies) -> None:
    """Also for publishers that have been told before that there is no route."""
    client = harness.client()
    harness.vhost.declare_exchange("x")
    client.declare("caught")
    harness.vhost.declare_exchange("other", "fanout")
    harness.vhost.bind(Binding("other", Destination("queue", "caught"), "", {}))
    send(client, "k", b"lost")
    policies.set("/", "p", "^x$", {"alternate-exchange": "other"}, apply_to="exchanges")
    send(client, "k", b"caught")
    policies.delete("/", "p")
    send(client, "k", b"lost")
    assert client.count("caught") == 1


def test_argument_holds_against_the_policy_and_after_it(policies: Policies, vhost: Vhost) -> None:
    given = vhost.declare_exchange("x", arguments={"alternate-exchange": "mine"})
    policies.set("/", "p", "", {"alternate-exchange": "theirs"})
    assert given.alternate == "mine"
    assert vhost.exchange("amq.topic").alternate == "theirs"
    assert vhost.declare_exchange("new").alternate == "theirs"
    policies.delete("/", "p")
    assert given.alternate == "mine"
    assert vhost.exchange("amq.topic").alternate is None


def test_default_exchange_follows_no_policy(policies: Policies, vhost: Vhost) -> None:
    policies.set("/", "p", "", {"alternate-exchange": "amq.fanout"})
    assert vhost.exchange("").alternate is None


def test_default_exchange_as_alternate_finds_queues_that_come_later(harness: Harness, policies: Policies) -> None:
    client = harness.client()
    harness.vhost.declare_exchange("x")
    policies.set("/", "p", "^x$", {"alternate-exchange": ""})
    send(client, "late", b"lost")
    client.declare("late")
    send(client, "late", b"found")
    assert client.count("late") == 1


def test_hooks_are_told_what_holds_when_it_changes(policies: Policies, vhost: Vhost, hearing: Hearing) -> None:
    vhost.declare_exchange("images")
    assert hearing.news() == []
    policies.set("/", "p", "^images$", {"shards-per-node": 2, "max-length": 5})
    assert hearing.news() == [("images", {"shards-per-node": 2})]
    policies.set("/", "p", "^images$", {"shards-per-node": 2, "max-length": 6}, priority=3)
    assert hearing.news() == []
    policies.set("/", "k", "^im", {"routing-key": "k", "shards-per-node": 9})
    assert hearing.news() == [("images", {"shards-per-node": 2, "routing-key": "k"})]
    policies.delete("/", "p")
    assert hearing.news() == [("images", {"shards-per-node": 9, "routing-key": "k"})]
    policies.delete("/", "k")
    assert hearing.news() == [("images", {})]


def test_hooks_are_told_of_exchanges_that_come_and_go(policies: Policies, vhost: Vhost, hearing: Hearing) -> None:
    policies.set("/", "p", "^i", {"shards-per-node": 2})
    vhost.declare_exchange("other")
    vhost.declare_exchange("images")
    vhost.declare_exchange("images")
    assert hearing.news() == [("images", {"shards-per-node": 2})]
    vhost.delete_exchange("other")
    vhost.delete_exchange("images")
    assert hearing.news() == [("images", {})]
    policies.delete("/", "p")
    assert hearing.news() == []


def test_hooks_are_told_when_a_virtual_host_goes(broker: Broker, hearing: Hearing) -> None:
    broker.add_vhost("other").declare_exchange("images")
    broker.policies.set("other", "p", "^i", {"shards-per-node": 2})
    hearing.news()
    broker.delete_vhost("other")
    assert hearing.news() == [("images", {})]


def test_hook_that_comes_late_is_told_what_holds_already(broker: Broker, vhost: Vhost) -> None:
    broker.policies.set("/", "p", "^i", {"sharded": True})
    vhost.declare_exchange("images")
    vhost.declare_exchange("other")
    late = Hearing()
    broker.policies.watch_exchanges(late, broker.vhosts.values())
    assert late.news() == [("images", {"sharded": True})]
    vhost.delete_exchange("images")
    assert late.news() == [("images", {})]


def test_bug_in_a_hook_does_not_keep_the_news_from_others(
    policies: Policies, vhost: Vhost, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(vhost: Vhost, exchange: str, definition: Mapping[str, object]) -> None:
        raise ValueError("a bug")

    hearing = Hearing()
    policies.on_exchange_changed += [broken, hearing]
    vhost.declare_exchange("a")
    vhost.declare_exchange("b")
    policies.set("/", "p", "^[ab]$", {"sharded": True})
    assert hearing.news() == [("a", {"sharded": True}), ("b", {"sharded": True})]
    assert "internal error while applying a policy" in caplog.text

"""x-message-deduplication: what the queue has seen stops there, and is confirmed (S0-15)."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.policies import Policies
from leveret.message import TRANSIENT
from leveret.queues import duplicates
from leveret.queues.duplicates import key_of
from leveret.wire.content import make_content
from leveret.wire.fields import Table
from leveret.wire.methods import BasicAck, ConfirmSelect, QueueDeclare, QueueDelete, TxCommit, TxRollback, TxSelect
from leveret.wire.properties import Properties
from tests.support.peer_pair import Client, Harness
from tests.support.spies import ADDRESS

ID = "x-deduplication-header"
UNIQUE: Table = {"x-message-deduplication": True}


@pytest.fixture
def client(harness: Harness) -> Client:
    return harness.client()


def send(client: Client, key: object, body: bytes = b"m", queue: str = "q", **more: Any) -> None:
    client.publish(queue, body, headers={ID: key}, **more)


def bodies(client: Client, queue: str = "q") -> list[bytes]:
    found = []
    while (content := client.get(queue, no_ack=True)) is not None:
        found.append(content.body)
    return found


def remembered(harness: Harness, queue: str = "q") -> int:
    seen = harness.queue(queue).duplicates
    assert seen is not None
    return len(seen)


@pytest.mark.feature("S0-15")
def test_a_duplicate_is_confirmed_and_not_enqueued(harness: Harness, client: Client) -> None:
    client.declare("q", arguments=UNIQUE)
    client.ask(ConfirmSelect())
    send(client, "a", b"first")
    send(client, "a", b"again")
    assert client.heard() == [BasicAck(1), BasicAck(2)]
    assert bodies(client) == [b"first"]
    assert harness.queue("q").counters.duplicates == 1


@pytest.mark.feature("S0-15")
def test_a_duplicate_of_what_was_consumed_is_not_delivered_again(client: Client) -> None:
    client.declare("q", arguments=UNIQUE)
    send(client, "a")
    assert len(bodies(client)) == 1
    send(client, "a")
    assert bodies(client) == []


@pytest.mark.parametrize(
    "keys", [("a", "b"), (1, 2), (b"\x00\xff", b"\x00\xfe"), (1.5, 2.5), ("1", 1), ("x" * 999, "x" * 998)]
)
def test_ids_are_texts_numbers_and_bytes(client: Client, keys: tuple[object, object]) -> None:
    client.declare("q", arguments=UNIQUE)
    for key in (*keys, *keys):
        send(client, key)
    assert len(bodies(client)) == 2


@pytest.mark.parametrize("headers", [None, {}, {"other": "a"}, {ID: None}, {ID: ["a"]}, {ID: {}}])
def test_without_an_id_nothing_is_a_duplicate(client: Client, headers: Any) -> None:
    client.declare("q", arguments=UNIQUE)
    client.publish("q", b"1", b"2", headers=headers)
    assert bodies(client) == [b"1", b"2"]


def test_the_header_may_have_another_name(client: Client) -> None:
    client.declare("q", arguments={**UNIQUE, ID: "order"})
    client.publish("q", b"1", b"2", headers={"order": 7})
    client.publish("q", b"3", b"4", headers={ID: 7})
    assert bodies(client) == [b"1", b"3", b"4"]


def test_the_message_id_may_be_the_id(client: Client) -> None:
    client.declare("q", arguments={**UNIQUE, ID: "message-id"})
    client.publish("q", b"1", b"2", message_id="x")
    client.publish("q", b"3", message_id="y")
    client.publish("q", b"4", b"5", headers={"message-id": "z"})
    assert bodies(client) == [b"1", b"3", b"4", b"5"]


def test_each_queue_remembers_for_itself(client: Client) -> None:
    client.declare("q", arguments=UNIQUE)
    client.declare("p", arguments=UNIQUE)
    client.declare("all")
    send(client, "a", b"1")
    client.publish("p", b"2", headers={ID: "a", "CC": ["q", "all"]})
    assert (bodies(client), bodies(client, "p"), bodies(client, "all")) == ([b"1"], [b"2"], [b"2"])


def test_the_window_ends_with_time(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={**UNIQUE, "x-cache-ttl": 1000})
    send(client, "a", b"1")
    harness.advance(0.999)
    send(client, "a", b"2")
    harness.advance(0.001)
    send(client, "a", b"3")
    assert bodies(client) == [b"1", b"3"], "seeing a duplicate does not make the window longer"
    harness.advance(0.5)
    send(client, "a", b"4")
    assert bodies(client) == []


def test_the_window_ends_with_the_count_oldest_first(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={**UNIQUE, "x-cache-size": 3})
    for key in "abcd":
        send(client, key, key.encode())
    assert remembered(harness) == 3
    for key in "dcba":
        send(client, key, b"again " + key.encode())
    assert bodies(client) == [b"a", b"b", b"c", b"d", b"again a"]


def test_what_is_over_leaves_memory_a_few_at_a_time(
    harness: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "FORGOTTEN_AT_ONCE", 4)
    client.declare("q", arguments={**UNIQUE, "x-cache-ttl": 1000})
    for number in range(20):
        send(client, number)
    harness.advance(1)
    client.publish("q", b"m")
    assert 8 <= remembered(harness) < 20
    for _ in range(4):
        client.publish("q", b"m")
    assert remembered(harness) == 0


def test_an_id_that_is_seen_again_after_its_time_counts_anew(
    harness: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old place in the line, which has not left yet, must not take the new one with it."""
    client.declare("q", arguments={**UNIQUE, "x-cache-ttl": 1000, "x-cache-size": 2})
    monkeypatch.setattr(duplicates, "FORGOTTEN_AT_ONCE", 0)
    send(client, "a")
    harness.advance(1)
    send(client, "a", b"new")
    monkeypatch.setattr(duplicates, "FORGOTTEN_AT_ONCE", 64)
    send(client, "b")
    send(client, "a", b"duplicate")
    assert bodies(client) == [b"m", b"new", b"m"]
    assert remembered(harness) == 2


def test_a_window_without_bounds_is_bounded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MOST", 10)
    client = harness.client()
    client.declare("q", arguments={**UNIQUE, "x-cache-ttl": 86_400_000})
    for number in range(30):
        send(client, number)
    assert remembered(harness) == 10


def test_a_refused_message_is_not_remembered(client: Client) -> None:
    client.declare("q", arguments={**UNIQUE, "x-max-length": 1, "x-overflow": "reject-publish"})
    send(client, "a", b"a")
    send(client, "b", b"b")
    assert bodies(client) == [b"a"]
    send(client, "b", b"b")
    assert bodies(client) == [b"b"]


def test_a_transaction_that_is_rolled_back_leaves_no_trace(client: Client) -> None:
    client.declare("q", arguments=UNIQUE)
    client.ask(TxSelect())
    send(client, "a", b"1")
    client.ask(TxRollback())
    send(client, "a", b"2")
    send(client, "a", b"3")
    client.ask(TxCommit())
    assert bodies(client) == [b"2"]


def test_a_new_queue_of_the_same_name_has_seen_nothing(client: Client) -> None:
    client.declare("q", arguments=UNIQUE)
    send(client, "a")
    client.ask(QueueDelete("q"))
    client.ask(QueueDeclare("q", arguments=UNIQUE))
    send(client, "a", b"new")
    assert bodies(client) == [b"new"]


def test_keys_are_short_whatever_the_id(harness: Harness) -> None:
    content = make_content(Properties(headers={ID: "x" * 100_000}), b"")
    key = key_of((content, ADDRESS, TRANSIENT), ID)
    assert key is not None
    assert len(key) <= 32


def test_policies_turn_it_on_and_off(harness: Harness, client: Client) -> None:
    policies: Policies = harness.broker.policies
    client.declare("q")
    send(client, "a", b"1")
    policies.set("/", "unique", "^q$", {"message-deduplication": True})
    send(client, "a", b"2")
    send(client, "a", b"3")
    policies.delete("/", "unique")
    send(client, "a", b"4")
    assert bodies(client) == [b"1", b"2", b"4"]

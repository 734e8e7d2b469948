"""CWE-639, authorization bypass through a user-controlled key: the name of a transaction is no permission. And CWE-770,
allocation of resources without limits: transactions and stages are bounded for each user."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import leveret
from leveret.pipeline import stages, transactions
from tests.support.http_api import QUIET, HttpApi, arrow_stream, vhost_path

STAGES, COMMITS = vhost_path("stages"), vhost_path("commits")
LARGEST = (1 << 63) - 1
PASSWORD = "secret"
USERS = {  # name: tags, and patterns of configure, write and read
    "alice": ("", "", "^(amq\\.default|orders)$", ""),
    "bob": ("", "", "^(amq\\.default|orders)$", ""),  # may write where alice does
    "eve": ("", "", "^eve", ""),
    "mallory": ("", "", "", ""),  # may enter the virtual host, and no more
    "root": ("administrator", ".*", ".*", ".*"),
}


pytestmark = pytest.mark.broker(storage="disk", fresh=True)


@pytest.fixture
def broker(broker: leveret.Broker) -> leveret.Broker:
    add_users(broker)
    broker.vhost().declare_queue("q", durable=True)
    broker.vhost().declare_exchange("eve", "fanout", durable=True)
    return broker


def add_users(broker: leveret.Broker) -> None:
    guest = HttpApi(broker.http_url)
    for name, (tags, *patterns) in USERS.items():
        told = {"password": PASSWORD, "tags": tags}
        assert guest.send("PUT", f"/api/users/{name}", json.dumps(told).encode())[0].status == 201
        rule = dict(zip(("configure", "write", "read"), patterns, strict=True))
        assert guest.send("PUT", f"/api/permissions/%2F/{name}", json.dumps(rule).encode())[0].status == 201


def user(broker: leveret.Broker, name: str) -> HttpApi:
    return HttpApi(broker.http_url, name, PASSWORD)


def staged(api: HttpApi, batch: int, body: bytes, transaction: str = "orders", exchange: str = "") -> str:
    rows = arrow_stream(pa.record_batch({"body": pa.array([body], pa.binary())}))
    query = {"transaction": transaction, "batch": batch, "exchange": exchange, "routing_key": "q"}
    status, answer = api.post(STAGES, rows, **query)
    assert status == 200, answer
    return str(answer["stage"])


def commit(api: HttpApi, batch: int, *ids: str, transaction: str = "orders") -> tuple[int, Any]:
    return api.post(COMMITS, {"transaction": transaction, "batch": batch, "stages": ids})


def bodies(broker: leveret.Broker) -> list[bytes]:
    found = []
    while (message := broker.vhost().get("q", auto_ack=True)) is not None:
        found.append(message.body)
    return found


@pytest.mark.parametrize("name", ["bob", "eve", "mallory"])
def test_the_batches_of_a_transaction_are_its_owners(broker: leveret.Broker, name: str) -> None:
    """Before: any user that may enter the virtual host committed batch 2^63-1, and the owner's were duplicates."""
    alice, other = user(broker, "alice"), user(broker, name)
    for batch in range(6):
        assert commit(alice, batch, staged(alice, batch, b"%d" % batch))[1]["messages"] == 1
        status, answer = commit(other, LARGEST)
        assert (status, "'alice'" in answer["reason"] or name == "mallory") == (403, True)
        assert other.get(COMMITS, transaction="orders")[0] == 403
    assert bodies(broker) == [b"%d" % batch for batch in range(6)]


def test_stages_are_committed_and_dropped_by_their_owner_only(broker: leveret.Broker) -> None:
    """Also under a transaction that was never committed, by a user that may write to the same exchange."""
    alice, bob = user(broker, "alice"), user(broker, "bob")
    stage, other = staged(alice, 0, b"alice's"), staged(bob, 0, b"bob's")
    assert commit(bob, 0, stage)[0] == 403
    assert [each["stage"] for each in bob.get(STAGES)[1]["stages"]] == [other]
    assert bob.delete(STAGES, transaction="orders", batch=0) == (200, {"dropped": 1})
    assert bob.delete(STAGES, transaction="orders", batch=0)[0] == 403
    assert commit(alice, 0, stage)[1]["messages"] == 1
    assert staged(alice, 1, b"more")
    rows = arrow_stream(pa.record_batch({"body": pa.array([b"x"], pa.binary())}))
    status, answer = bob.post(STAGES, rows, transaction="orders", batch=1, exchange="", routing_key="q")
    assert (status, "belongs to user 'alice'" in answer["reason"]) == (403, True)


def test_a_new_transaction_takes_write_permission(broker: leveret.Broker) -> None:
    for name, status in (("mallory", 403), ("eve", 200), ("alice", 200)):
        assert commit(user(broker, name), 0, transaction=f"of {name}")[0] == status
    empty = arrow_stream(pa.record_batch({"body": pa.array([], pa.binary())}))
    query = {"transaction": "T", "batch": 0}
    assert user(broker, "mallory").post(STAGES, empty, **query)[0] == 403
    assert user(broker, "eve").post(STAGES, empty, **query)[0] == 200


def test_a_batch_far_above_the_last_is_refused(broker: leveret.Broker) -> None:
    alice = user(broker, "alice")
    assert commit(alice, 5)[0] == 200
    status, answer = commit(alice, LARGEST)
    assert (status, "last batch is 5" in answer["reason"], "DELETE" in answer["reason"]) == (409, True, True)
    assert commit(alice, 6, staged(alice, 6, b"next"))[1]["messages"] == 1


def test_an_administrator_resets_a_transaction(broker: leveret.Broker) -> None:
    alice, bob, root = (user(broker, name) for name in ("alice", "bob", "root"))
    assert commit(alice, 7)[0] == 200
    for other in (alice, bob):
        assert other.send("DELETE", f"{COMMITS}?transaction=orders")[0].status in (401, 403)
    assert commit(root, 8)[1] == {"duplicate": False, "messages": 0, "unroutable": 0}
    assert commit(alice, 9)[0] == 200, "it is still hers"
    assert root.delete(COMMITS, transaction="orders", owner_only="true") == (
        200,
        {"transaction": "orders", "last_batch": 9},
    )
    assert commit(bob, 10)[0] == 403, "an empty batch of a transaction without an owner"
    assert commit(bob, 9, staged(bob, 9, b"repeat"))[1]["duplicate"] is True
    assert commit(bob, 10, staged(bob, 10, b"bob's"))[1]["messages"] == 1
    assert commit(alice, 11)[0] == 403
    assert root.delete(COMMITS, transaction="orders")[0] == 200
    assert root.delete(COMMITS, transaction="orders")[0] == 404
    assert commit(alice, 0, staged(alice, 0, b"from the beginning"))[1]["messages"] == 1
    assert bodies(broker) == [b"bob's", b"from the beginning"]


def test_a_transaction_of_an_earlier_version_is_claimed_by_a_commit_of_stages(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path / "data")
    with leveret.Broker(settings) as broker:
        add_users(broker)
        broker.vhost().declare_queue("q", durable=True)
        rows = broker.node.broker.vhost("/").parameters
        broker.call(lambda: rows.put("commit", "orders", b'{"batch": 3, "stages": [], "messages": 1}'))
        commit(user(broker, "alice"), 0, transaction="other")  # answered when both are on disk
    with leveret.Broker(settings) as broker:
        alice, bob, mallory = (user(broker, name) for name in ("alice", "bob", "mallory"))
        assert [api.get(COMMITS, transaction="orders")[0] for api in (alice, mallory)] == [200, 403]
        assert commit(bob, 4)[0] == 403
        assert commit(alice, 3, staged(alice, 3, b"repeat"))[1]["duplicate"] is True
        assert commit(alice, 4, staged(alice, 4, b"next"))[1]["messages"] == 1
        assert commit(bob, 5)[0] == 403
    with leveret.Broker(settings) as broker:
        assert commit(user(broker, "bob"), 5)[0] == 403
        assert commit(user(broker, "alice"), 5)[0] == 200
        assert bodies(broker) == [b"next"]


# ---- bounds


def test_transactions_are_bounded_listed_and_deleted(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MOST_OF_A_USER", 5)
    alice, bob, root = (user(broker, name) for name in ("alice", "bob", "root"))
    assert [commit(alice, 0, transaction=str(number))[0] for number in range(6)] == [200] * 5 + [409]
    assert commit(alice, 1, transaction="0")[0] == 200
    assert commit(bob, 0, transaction="bob's")[0] == 200
    listed = alice.get(COMMITS)[1]
    assert (listed["total"], [each["transaction"] for each in listed["commits"]]) == (5, ["1", "2", "3", "4", "0"])
    assert {each["owner"] for each in root.get(COMMITS)[1]["commits"]} == {"alice", "bob"}
    assert bob.get(COMMITS, start=1)[1] == {"total": 1, "commits": []}
    assert root.delete(COMMITS, transaction="3")[0] == 200
    assert commit(alice, 0, transaction="5")[0] == 200


def test_a_transaction_that_was_idle_for_a_week_makes_room(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch write of Spark is a transaction of its own: a nightly job must not fail after 10,000 nights."""
    monkeypatch.setattr(transactions, "MOST_OF_A_USER", 2)
    monkeypatch.setattr(transactions, "IDLE", 0.0)
    alice = user(broker, "alice")
    assert [commit(alice, 0, transaction=str(number))[0] for number in range(4)] == [200] * 4
    assert [each["transaction"] for each in alice.get(COMMITS)[1]["commits"]] == ["2", "3"]


def test_stages_are_bounded(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST_OF_A_USER", 3)
    alice, bob, root = (user(broker, name) for name in ("alice", "bob", "root"))
    made = [staged(alice, 0, b"x") for _ in range(3)]
    rows = arrow_stream(pa.record_batch({"body": pa.array([], pa.binary())}))
    status, answer = alice.post(STAGES, rows, transaction="orders", batch=0)
    assert (status, "has 3 stages" in answer["reason"]) == (409, True)
    staged(bob, 0, b"x", transaction="bob's")
    assert commit(alice, 0, *made)[0] == 200
    staged(alice, 1, b"x")
    assert len(root.get(STAGES)[1]["stages"]) == 2
    assert root.delete(STAGES, transaction="orders", batch=1) == (200, {"dropped": 1})

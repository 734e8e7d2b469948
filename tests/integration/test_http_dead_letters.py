"""S4-76, S4-77: dead letters over HTTP: told in groups by cause, looked at and driven back by group or one by one."""

from __future__ import annotations

from typing import Any

import pytest

from leveret import Broker, FrozenClock
from leveret.wire.fields import Table
from leveret.wire.methods import BasicPublish
from leveret.wire.properties import Properties
from tests.support.http_objects import ObjectsApi, limited_user
from tests.support.raw_client import RawClient

PATH = "/api/dead-letters"
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ObjectsApi:
    """Of exchange shop, what died in orders and in mails is in queue dead: 0, 1, 2 and 3, 4."""
    api, vhost = ObjectsApi(broker.http_url), broker.vhost()
    api.declare_exchange("shop", "topic")
    api.declare_queue("dead")
    for name in ("orders", "mails"):
        api.declare_queue(name, arguments=TO_DEAD)
        api.bind("shop", name, f"{name}.*")
    for n in range(3):
        headers: Table = {"n": n, "x-exception-message": " out of stock " if n < 2 else "no such customer"}
        vhost.publish("shop", "orders.new", b'{"n": %d}' % n, Properties(headers=headers))
    api.take("orders", 2, "reject_requeue_false")
    broker.clock.advance(60)
    api.take("orders", 1, "reject_requeue_false")
    for n in (3, 4):
        vhost.publish("shop", f"mails.{n}", b'{"n": %d}' % n, Properties(expiration="1000"))
    broker.clock.advance(2)
    return api


def told(api: ObjectsApi, path: str = PATH, **query: object) -> dict[str, Any]:
    status, answer = api.get(path, **query)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def run(broker: Broker, api: ObjectsApi, queue: str, **given: object) -> dict[str, Any]:
    """A job, to its end."""
    status, answer = api.post(api.at("queues", queue, "/jobs"), given)
    assert status == 202, answer
    while True:
        row: dict[str, Any] = api.get(f"/api/queue-jobs/{answer['id']}")[1]
        if row["state"] != "running":
            return row
        broker.call(lambda: None)


def brief(group: dict[str, Any]) -> tuple[object, ...]:
    return tuple(group[name] for name in ("queue", "reason", "origin_queue", "exchange", "routing_key", "messages"))


# ---- groups


@pytest.mark.feature("S4-77")
def test_dead_letters_are_told_by_cause(broker: Broker, api: ObjectsApi) -> None:
    answer = told(api)
    assert sorted(map(brief, answer["groups"])) == [
        ("dead", "expired", "mails", "shop", "mails.3", 1),
        ("dead", "expired", "mails", "shop", "mails.4", 1),
        ("dead", "rejected", "orders", "shop", "orders.new", 1),
        ("dead", "rejected", "orders", "shop", "orders.new", 2),
    ]
    now = int(broker.clock.core.wall())
    spans = {
        (group["error"], now - group["oldest"], now - group["newest"], group["sample_error"], group["task"])
        for group in answer["groups"]
        if group["reason"] == "rejected"
    }
    assert spans == {("out of stock", 62, 62, None, ""), ("no such customer", 2, 2, None, "")}
    assert (answer["examined"], answer["is_complete"]) == (5, True)
    (queue,) = answer["queues"]
    assert (queue["name"], queue["messages"], sorted(queue["sources"]), queue["others"]) == (
        "dead",
        5,
        ["mails", "orders"],
        0,
    )
    assert told(api, f"{PATH}/%2F") == answer


def test_dead_letter_queues_are_found_by_policies_bindings_and_names(broker: Broker, api: ObjectsApi) -> None:
    vhost = broker.vhost()
    api.declare_exchange("graves", "fanout")
    api.declare_exchange("inner", "direct")
    assert api.post(api.at("bindings", "e", "/graves/e/inner"), {"routing_key": "deep"})[0] == 201
    for name in ("by.policy", "by.key", "resting", "deep", "aside", "own"):
        vhost.declare_queue(name)
    vhost.declare_queue("stream", durable=True, arguments={"x-queue-type": "stream"})
    for name, exchange, key in (("resting", "graves", ""), ("stream", "graves", ""), ("deep", "inner", "deep")):
        vhost.bind(name, exchange, key)
    vhost.bind("aside", "inner", "aside")
    vhost.set_policy("all", "^by.policy$", {"dead-letter-exchange": "graves"})
    vhost.set_policy("key", "^by.key$", {"dead-letter-exchange": "inner", "dead-letter-routing-key": "deep"})
    vhost.set_policy("own", "^own$", {"dead-letter-strategy": "individual"})
    for name in ("by.policy", "by.key", "own"):
        vhost.publish("", name, b"x", Properties(delivery_mode=2))  # those of ActiveMQ take persistent messages alone
        api.take(name, 1, "reject_requeue_false")
    answer = told(api)
    found = {queue["name"]: queue["sources"] for queue in answer["queues"] if queue["name"] != "dead"}
    assert found == {
        "DLQ.own": ["own"],
        "aside": ["by.policy"],  # by a key that a message might have
        "deep": ["by.policy", "by.key"],
        "resting": ["by.policy"],
    }
    assert {brief(group)[:3] for group in answer["groups"] if group["queue"] != "dead"} == {
        ("DLQ.own", "rejected", "own"),
        ("deep", "rejected", "by.key"),
        ("resting", "rejected", "by.policy"),
    }


@pytest.mark.parametrize(
    ("varies", "merged"),
    [
        ("routing_key", {(None, "no such customer", "shop.pack"), (None, "out of stock", "")}),
        ("error", {("orders.new", None, "shop.pack"), ("orders.new", None, "")}),
        ("task", {("orders.new", "no such customer", None), ("orders.new", "out of stock", None)}),
    ],
)
def test_groups_that_differ_in_one_field_too_often_are_merged(
    broker: Broker, api: ObjectsApi, varies: str, merged: set[tuple[str | None, ...]]
) -> None:
    """The other fields still tell groups apart."""
    api.delete(api.at("queues", "dead", "/contents"))
    for n in range(60):
        told_fields = {"routing_key": "orders.new", "error": "no such customer", "task": "shop.pack"}
        if n < 5:
            told_fields |= {"error": "out of stock", "task": ""}
        told_fields[varies] = f"orders.{n}"
        headers: Table = {name: told_fields[name] for name in ("error", "task") if told_fields[name]}
        broker.vhost().publish("shop", told_fields["routing_key"], b"x", Properties(headers=headers))
    api.take("orders", 60, "reject_requeue_false")
    groups = [group for group in told(api)["groups"] if group["reason"] == "rejected"]
    assert {(group["routing_key"], group["error"], group["task"]) for group in groups} == merged
    assert sorted(group["messages"] for group in groups) == [5, 55]
    assert all((group["sample_error"] is not None) == (group["error"] is None) for group in groups)


@pytest.mark.feature("S4-77")
def test_dead_letters_of_celery_are_told_by_task_and_driven_back_by_it(broker: Broker, api: ObjectsApi) -> None:
    for task in ("shop.pack", "shop.send", "shop.pack"):
        headers: Table = {"task": task, "id": "1", "retries": 0}
        broker.vhost().publish("shop", "orders.new", b"[[], {}, {}]", Properties(headers=headers))
    api.take("orders", 3, "reject_requeue_false")
    by_task = {(group["task"], group["error"]): group["messages"] for group in told(api)["groups"]}
    assert (by_task["shop.pack", ""], by_task["shop.send", ""]) == (2, 1)
    assert (by_task["", "out of stock"], by_task["", "no such customer"]) == (2, 1)
    for chosen, number in (
        ({"death.task": "shop.pack", "death.error": ""}, 2),
        ({"death.task": "", "death.error": "out of stock"}, 2),
        ({"death.task": "shop.send", "death.error": "out of stock"}, 0),
        ({"death.task": ""}, 5),
    ):
        assert len(api.get(api.at("queues", "dead", "/messages"), **chosen)[1]["messages"]) == number, chosen
    assert run(broker, api, "dead", kind="redrive", **{"death.task": "shop.pack", "death.error": ""})["done"] == 2


def test_what_changes_is_looked_at_again_and_what_is_no_dead_letter_is_told_apart(
    broker: Broker, api: ObjectsApi
) -> None:
    assert told(api)["queues"][0]["others"] == 0
    broker.vhost().publish("", "dead", b"not dead", Properties(headers={"x-death": "no list"}))
    answer = told(api)
    assert (answer["queues"][0]["others"], answer["examined"], len(answer["groups"])) == (1, 6, 4)
    api.delete(api.at("queues", "dead", "/contents"))
    answer = told(api)
    assert (answer["groups"], answer["queues"][0]["messages"], answer["is_complete"]) == ([], 0, True)


def test_a_look_is_bounded_and_says_so(api: ObjectsApi) -> None:
    answer = told(api, limit=2)
    assert (answer["examined"], answer["is_complete"]) == (2, False)
    assert (answer["queues"][0]["examined"], answer["queues"][0]["is_complete"]) == (2, False)
    assert (answer["looked_at"], answer["queues"][0]["looked_at"]) == (2, 2)  # the names of version 0.2
    assert told(api, limit=5)["is_complete"] is True
    status, problem = api.get(PATH, limit=0)
    assert (status, "'limit'" in problem["reason"]) == (400, True)


def test_only_those_who_may_read_the_queue_learn_what_is_in_it(broker: Broker, api: ObjectsApi) -> None:
    outsider = limited_user(broker, "outsider", "", "", "^orders$")
    answer = told(outsider)
    assert (answer["groups"], answer["examined"], answer["is_complete"]) == ([], 0, False)
    assert [(queue["name"], queue["may_read"]) for queue in answer["queues"]] == [("dead", False)]
    assert limited_user(broker, "nobody", "", "", "", "other").get(PATH)[0] == 401
    assert api.get(f"{PATH}/nowhere")[0] == 404


# ---- what is done about them


@pytest.mark.feature("S4-77")
def test_a_group_is_looked_at_and_driven_back(broker: Broker, api: ObjectsApi) -> None:
    group = {
        "death.reason": "expired",
        "death.queue": "mails",
        "death.exchange": "shop",
        "death.routing_key": "mails.4",
    }
    status, answer = api.get(api.at("queues", "dead", "/messages"), **group)
    assert (status, [message["payload"] for message in answer["messages"]]) == (200, ['{"n": 4}'])
    row = run(broker, api, "dead", kind="redrive", **group)
    assert (row["done"], row["death.reason"]) == (1, "expired")
    assert api.payloads("mails") == ['{"n": 4}']
    assert run(broker, api, "dead", kind="delete", **{"death.queue": "orders"})["done"] == 3
    assert api.payloads("dead") == ['{"n": 3}']


@pytest.mark.feature("S4-77")
def test_single_messages_are_driven_back(broker: Broker, api: ObjectsApi) -> None:
    messages = api.get(api.at("queues", "dead", "/messages"))[1]["messages"]
    chosen = [messages[0]["id"], messages[2]["id"]]
    assert run(broker, api, "dead", kind="delete", ids=chosen, dry_run=True)["done"] == 2
    row = run(broker, api, "dead", kind="redrive", ids=chosen)
    assert (row["done"], row["ids"], row["messages"]) == (2, 2, 5)
    assert api.payloads("orders") == ['{"n": 0}', '{"n": 2}']
    assert run(broker, api, "dead", kind="redrive", ids=chosen)["done"] == 0  # they are gone


@pytest.mark.feature("S4-77")
def test_messages_are_moved_by_what_their_body_says(broker: Broker, api: ObjectsApi) -> None:
    api.declare_queue("other")
    assert run(broker, api, "dead", kind="move", destination="other", json="n=2")["done"] == 1
    assert run(broker, api, "dead", kind="move", destination="other", contains='"n": 3')["done"] == 1
    assert run(broker, api, "dead", kind="copy", destination="other", **{"headers.n": "1"})["done"] == 1
    assert api.payloads("other") == ['{"n": 2}', '{"n": 3}', '{"n": 1}']


def test_headers_that_cannot_be_read_stop_nobody(broker: Broker, api: ObjectsApi) -> None:
    """Nobody looks into them when they come: such a message is one without headers."""
    broken = b"\x20\x00" + b"\x00\x00\x00\x05\x03abcZ"
    header = b"\x00\x3c\x00\x00" + (4).to_bytes(8, "big") + broken
    with RawClient.open(broker.amqp_url) as client:
        client.send(BasicPublish(routing_key="dead"))
        client.send_frame(2, 1, header)
        client.send_frame(3, 1, b"body")
        client.is_alive()
    assert told(api)["queues"][0]["others"] == 1
    assert api.payloads("dead")[-1] == "body"
    for query in ({"selector": "n = 1"}, {"headers.n": "1"}):
        status, answer = api.get(api.at("queues", "dead", "/messages"), **query)
        assert (status, answer["examined"], len(answer["messages"])) == (200, 6, 1)
    row = run(broker, api, "dead", kind="redrive")
    assert (row["state"], row["done"], row["skipped"]) == ("done", 5, 1)
    api.declare_queue("other")
    assert run(broker, api, "dead", kind="move", destination="other", selector="n IS NULL")["done"] == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ids": []}, "'ids'"),
        ({"ids": "1-0-1"}, "'ids'"),
        ({"ids": [5]}, "not a message id"),
        ({"ids": ["1-2"]}, "not a message id"),
        ({"ids": ["9999-0-1"]}, "another queue"),
        ({"json": "n"}, "'json'"),
        ({"contains": 5}, "'contains'"),
        ({"headers.n": 1}, "'headers.n'"),
        ({"death.colour": "red"}, "'death.colour'"),
        ({"death.queue": None}, "'death.queue'"),
    ],
)
def test_wrong_choices_do_not_begin(api: ObjectsApi, given: dict[str, object], words: str) -> None:
    status, answer = api.post(api.at("queues", "dead", "/jobs"), {"kind": "delete", **given})
    assert (status, words in answer["reason"]) == (400, True), answer
    assert api.queue("dead")["messages"] == 5

"""CWE-441, unintended proxy: redriving returns dead letters to the queue that dead-lettered them first. A client can
write the headers that name that queue, so the broker must not trust them further than the topology and the user
allow."""

from __future__ import annotations

from typing import Any

import pytest

from leveret import Broker
from leveret.wire.fields import Table
from leveret.wire.properties import Properties
from tests.support.http_objects import ObjectsApi
from tests.support.raw_client import RawClient, plain

FORGED: Table = {"x-first-death-queue": "victim", "x-first-death-reason": "rejected", "x-first-death-exchange": ""}
DEATH: Table = {"queue": "victim", "reason": "rejected", "exchange": "", "routing-keys": ["victim"], "count": 1}


pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def broker(broker: Broker) -> Broker:
    """What is rejected in orders goes by exchange graves to dead, where it waits, and from there to older."""
    api = ObjectsApi(broker.http_url)
    api.declare_exchange("graves", "fanout")
    api.declare_queue("victim")
    api.declare_queue("dead", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "older"})
    api.declare_queue("older")
    api.bind("graves", "dead", "")
    api.declare_queue("orders", arguments={"x-dead-letter-exchange": "graves"})
    core = broker.node.broker

    def add_eve() -> None:
        core.users.add("eve", password="eve", tags=["management"])
        core.permissions.set("eve", "/", "", "^(graves|amq.default)$", "^(dead|older)$")

    broker.call(add_eve)
    return broker


def publish(broker: Broker, exchange: str, key: str, headers: Table) -> None:
    with RawClient(broker.amqp_url) as client:
        client.handshake(response=plain("eve", "eve"))
        client.open_channel(1)
        client.publish(exchange, key, b"forged", Properties(headers=headers))
        client.close()


def redrive(broker: Broker, queue: str, user: str = "guest") -> dict[str, Any]:
    api = ObjectsApi(broker.http_url, user, user)
    status, answer = api.post(api.at("queues", queue, "/jobs"), {"kind": "redrive"})
    assert status == 202, answer
    while True:
        row: dict[str, Any] = api.get(f"/api/queue-jobs/{answer['id']}")[1]
        if row["state"] != "running":
            return row


def counts(broker: Broker) -> dict[str, int]:
    queues = broker.node.broker.vhosts["/"].queues
    return broker.call(lambda: {name: queue.ready for name, queue in queues.items() if queue.ready})


def reject(broker: Broker, queue: str) -> None:
    assert len(ObjectsApi(broker.http_url).take(queue, 1, "reject_requeue_false")) == 1


@pytest.mark.parametrize("headers", [FORGED, {**FORGED, "x-death": [DEATH]}], ids=["first death", "deaths"])
def test_a_forged_first_death_does_not_choose_the_target(headers: Table, broker: Broker) -> None:
    publish(broker, "graves", "", headers)
    row = redrive(broker, "dead")
    assert (row["done"], row["skipped"]) == (0, 1)
    assert counts(broker) == {"dead": 1}


def test_a_forged_first_death_is_replaced_by_the_real_one(broker: Broker) -> None:
    publish(broker, "", "orders", FORGED)
    reject(broker, "orders")
    assert redrive(broker, "dead")["origins"] == {"orders": 1}
    assert counts(broker) == {"orders": 1}


def test_forged_deaths_do_not_choose_the_target_after_a_real_one(broker: Broker) -> None:
    publish(broker, "", "orders", {**FORGED, "x-death": [DEATH]})
    reject(broker, "orders")
    assert redrive(broker, "dead")["done"] == 0
    assert counts(broker) == {"dead": 1}


def test_a_message_goes_back_to_its_first_queue_from_two_deaths_away(broker: Broker) -> None:
    publish(broker, "", "orders", {})
    reject(broker, "orders")
    reject(broker, "dead")
    assert redrive(broker, "older")["origins"] == {"orders": 1}
    assert counts(broker) == {"orders": 1}


def test_redriving_needs_write_on_the_target(broker: Broker) -> None:
    publish(broker, "", "orders", {})
    reject(broker, "orders")
    row = redrive(broker, "dead", "eve")
    assert (row["done"], row["skipped"], row["refused"]) == (0, 1, {"orders": 1})
    assert counts(broker) == {"dead": 1}
    broker.call(lambda: broker.node.broker.permissions.set("eve", "/", "", "^(orders|amq.default)$", "^dead$"))
    assert redrive(broker, "dead", "eve")["done"] == 1
    assert counts(broker) == {"orders": 1}

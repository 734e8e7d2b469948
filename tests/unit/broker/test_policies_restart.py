"""Policies in the next life: they are there before the queues and exchanges that they hold for."""

from __future__ import annotations

import json

import pytest

from leveret.broker.broker import Broker
from leveret.broker.restoration import restore_definitions
from leveret.clock import FrozenClock
from leveret.errors import LeveretError
from leveret.store.definitions import Definitions, ExchangeRow, ParameterRow, QueueRow, VhostRow
from leveret.store.memory_log import MemoryLog
from leveret.wire.fields import encode_table
from tests.support.stored_harness import StoredHarness


@pytest.fixture
def harness() -> StoredHarness:
    return StoredHarness()


@pytest.mark.feature("S0-29")
def test_policies_and_what_they_mean_survive_a_restart(harness: StoredHarness) -> None:
    policies = harness.broker.policies
    policies.set("/", "p", "^q", {"max-length": 5, "durability": "os"}, apply_to="queues", priority=2)
    policies.set("/", "cap", "", {"max-length": 3}, operator=True)
    policies.set("/", "alt", "^x", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    harness.vhost.declare_queue("q", durable=True, arguments={"x-max-length": 4})
    harness.vhost.declare_exchange("x", durable=True)
    before = policies.list("/")
    harness.rest()
    for later in (harness.crashed().again(), harness.stopped().again()):
        assert later.broker.policies.list("/") == before
        options = later.queue("q").options
        assert (options.max_length, options.durability) == (3, "os")
        assert later.vhost.exchange("x").alternate == "amq.fanout"
        assert later.queue("q").arguments == {"x-max-length": 4}
        later.broker.policies.delete("/", "cap", operator=True)
        assert later.queue("q").options.max_length == 4


def test_policy_on_a_predeclared_exchange_survives(harness: StoredHarness) -> None:
    harness.broker.policies.set("/", "p", r"^amq\.topic$", {"alternate-exchange": "amq.fanout"})
    harness.rest()
    assert harness.stopped().again().vhost.exchange("amq.topic").alternate == "amq.fanout"


def test_deleted_and_replaced_policies_stay_so(harness: StoredHarness) -> None:
    policies = harness.broker.policies
    policies.set("/", "gone", "", {"max-length": 5})
    policies.set("/", "p", "", {"max-length": 5})
    policies.set("/", "p", "^q", {"max-length": 6})
    policies.set("/", "p", "", {"max-length": 7}, operator=True)
    policies.delete("/", "gone")
    policies.delete("/", "p", operator=True)
    harness.rest()
    (only,) = harness.crashed().again().broker.policies.list("/")
    assert (only.name, only.pattern, only.definition, only.operator) == ("p", "^q", {"max-length": 6}, False)


def test_restoring_records_nothing(harness: StoredHarness) -> None:
    harness.broker.policies.set("/", "p", "", {"max-length": 5})
    harness.rest()
    left = harness.stopped()
    operations = len(left.disk.operations)
    again = left.again()
    assert [each for each in again.disk.operations[operations:] if each.kind == "apply"] == []


# ---- rows that cannot be used

GOOD = {"pattern": "", "apply-to": "all", "priority": 0, "definition": {"max-length": 5}}


def parameter(component: str = "policy", vhost: str = "/", **facts: object) -> ParameterRow:
    return ParameterRow(vhost, component, "bad", json.dumps(GOOD | facts).encode())


@pytest.mark.parametrize(
    "row",
    [
        parameter(pattern="("),
        parameter(pattern=None),
        parameter(definition={"of-a-newer-version": 1}),
        parameter(definition=[]),
        parameter(**{"apply-to": "stars"}),
        parameter(priority="x"),
        parameter("operator_policy", definition={"overflow": "drop-head"}),
        parameter(vhost="nowhere"),
        ParameterRow("/", "policy", "bad", b"{torn"),
        ParameterRow("/", "policy", "bad", b"[]"),
        ParameterRow("/", "policy", "bad", b"\xff"),
        ParameterRow("/", "policy", "bad", b"{}"),
    ],
)
@pytest.mark.feature("S4-30")
def test_parameter_that_cannot_be_used_costs_itself_and_is_said(
    row: ParameterRow, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker always starts."""
    good = row._replace(vhost="/", component="policy", name="good", value=json.dumps(GOOD).encode())
    empty = encode_table({})
    rows = Definitions(
        vhosts=[VhostRow("/", None, None)],
        users=[],
        permissions=[],
        topic_permissions=[],
        exchanges=[ExchangeRow("/", "x", "topic", False, False, empty)],
        queues=[QueueRow(1, "/", "q", False, empty)],
        bindings=[],
        parameters=[row, good],
        highest_queue=1,
    )
    broker = Broker(node_name="n", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=1 << 30)
    restore_definitions(broker, rows, "guest", "guest")
    assert [policy.name for policy in broker.policies.list("/")] == ["good"]
    assert broker.vhost("/").queues["q"].options.max_length == 5
    assert f"{row.component} cannot be restored" in caplog.text


def test_virtual_host_takes_its_policies_along(harness: StoredHarness) -> None:
    harness.broker.add_vhost("other")
    harness.broker.policies.set("other", "p", "", {"max-length": 5})
    harness.broker.delete_vhost("other")
    with pytest.raises(LeveretError):
        harness.broker.policies.list("other")
    harness.broker.add_vhost("other")
    assert harness.broker.policies.list("other") == ()


def test_locators_that_earlier_versions_stored_do_not_cost_their_queue_and_policy() -> None:
    """0.1.0 accepted any value: it decides where a new queue lives, and means nothing to one that exists."""
    arguments = encode_table({"x-queue-leader-locator": "nearest", "x-max-length": 5})
    definition = {"queue-leader-locator": "nearest", "message-ttl": 7000}
    facts = {"pattern": "", "apply-to": "queues", "priority": 0, "definition": definition}
    rows = Definitions(
        vhosts=[VhostRow("/", None, None)],
        users=[],
        permissions=[],
        topic_permissions=[],
        exchanges=[],
        queues=[QueueRow(1, "/", "q", False, arguments)],
        bindings=[],
        parameters=[ParameterRow("/", "policy", "p", json.dumps(facts).encode())],
        highest_queue=1,
    )
    broker = Broker(node_name="n", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=1 << 30)
    restore_definitions(broker, rows, "guest", "guest")
    queue = broker.vhost("/").queues["q"]
    assert (queue.options.max_length, queue.options.ttl) == (5, 7.0)
    assert queue.arguments == {"x-max-length": 5}
    broker.policies.delete("/", "p")
    assert broker.vhost("/").declare_queue("q", durable=True, arguments={"x-max-length": 5}) is queue

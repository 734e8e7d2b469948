"""What somebody who writes a policy is told before it is set."""

from __future__ import annotations

from typing import Any

import pytest

from leveret import Broker
from leveret.api.views.policy_key import NO_EFFECT
from tests.support.management_api import ManagementApi, as_user

pytestmark = pytest.mark.broker(fresh=True)


@pytest.mark.feature("S2-28")
def test_every_key_of_policies_is_listed(admin: ManagementApi) -> None:
    status, keys = admin.get("policy-keys")
    assert status == 200
    by_name: dict[str, dict[str, Any]] = {key["name"]: key for key in keys}
    assert by_name["max-length"] == {
        "name": "max-length",
        "about": "queues",
        "argument": "x-max-length",
        "is_limit": True,
        "for_operators": True,
        "takes_text": False,
        "meaning": "Maximum number of ready messages.",
    }
    without = [key["name"] for key in keys if key["about"] != "nothing" and key["meaning"] == NO_EFFECT]
    assert not without, f"without a meaning in api/views/policy_key.py: {without}"
    assert by_name["dead-letter-routing-key"]["takes_text"]
    assert not by_name["overflow"]["takes_text"]  # some words only
    assert by_name["alternate-exchange"]["about"] == "exchanges"
    assert [key["name"] for key in admin.get("policy-keys", name="max-length-b")[1]] == ["max-length-bytes"]


@pytest.mark.feature("S2-28")
def test_what_a_pattern_matches_is_what_the_policy_is_for(broker: Broker, admin: ManagementApi) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("orders.eu")
    vhost.declare_queue("Orders.us")
    vhost.declare_queue("orders.log", arguments={"x-queue-type": "stream"}, durable=True)
    vhost.declare_exchange("orders", "fanout")

    def found(pattern: str, apply_to: str = "all") -> tuple[int, int, list[str]]:
        status, answer = admin.get("policy-matches/%2F", pattern=pattern, **{"apply-to": apply_to})
        assert status == 200, answer
        return answer["queues"], answer["exchanges"], [one["name"] for one in answer["some"]]

    assert found("^orders") == (2, 1, ["orders.eu", "orders", "orders.log"])
    assert found("^orders", "queues") == (2, 0, ["orders.eu", "orders.log"])
    assert found("^orders", "streams") == (1, 0, ["orders.log"])
    assert found("activemq:*.eu", "classic_queues") == (1, 0, ["orders.eu"])
    assert found("nothing like it") == (0, 0, [])
    admin.put("policies/%2F/short", {"pattern": "^orders", "apply-to": "queues", "definition": {"max-length": 1}})
    policies = {row["name"]: row.get("policy") for row in admin.get("queues/%2F")[1]}
    assert policies == {"orders.eu": "short", "Orders.us": None, "orders.log": "short"}


@pytest.mark.feature("S2-28")
def test_only_some_names_are_told(broker: Broker, admin: ManagementApi) -> None:
    for number in range(30):
        broker.vhost().declare_queue(f"q{number}")
    answer = admin.get("policy-matches/%2F", pattern="^q")[1]
    assert (answer["queues"], len(answer["some"])) == (30, 20)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"pattern": "("}, "'pattern' cannot be used"),
        ({"pattern": "activemq:>.a"}, "'pattern' cannot be used"),
        ({"apply-to": "people"}, "'apply-to' must be one of all, queues"),
    ],
)
def test_a_draft_that_cannot_be_is_refused(admin: ManagementApi, query: dict[str, str], words: str) -> None:
    status, answer = admin.get("policy-matches/%2F", **query)
    assert (status, answer["reason"][: len(words)]) == (400, words)


def test_a_pattern_that_takes_too_long_is_refused(broker: Broker, admin: ManagementApi) -> None:
    broker.vhost().declare_queue("a" * 60 + "!")
    status, answer = admin.get("policy-matches/%2F", pattern="^(a|aa)+$")
    assert (status, "takes too long" in answer["reason"]) == (400, True)


@pytest.mark.feature("S4-72")
def test_drafts_are_for_those_who_see_the_vhost(broker: Broker) -> None:
    stranger = as_user(broker, "stranger", "management")
    assert stranger.get("policy-matches/%2F", pattern="")[0] == 403
    assert stranger.get("policy-keys")[0] == 200
    assert as_user(broker, "nobody").get("policy-keys")[0] == 401

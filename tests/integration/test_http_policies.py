"""Policies over HTTP: set by policymakers where they may enter, by administrators everywhere, and explained to all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leveret import Broker
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest, as_user

SHORT = {"pattern": "^a", "definition": {"max-length": 5}}
SHORT_ROW = {"vhost": "/", "name": "short", "apply-to": "all", "priority": 0, **SHORT}


pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def broker(broker: Broker) -> Broker:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    return broker


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
@pytest.mark.feature("S4-77")
def test_a_policy_is_set_changed_shown_and_deleted(admin: ManagementApi, kind: str) -> None:
    assert admin.put(f"{kind}/%2F/short", SHORT) == (201, None)
    assert admin.get(f"{kind}/%2F/short") == (200, SHORT_ROW)
    changed = {**SHORT, "priority": 2, "apply-to": "queues"}
    assert admin.put(f"{kind}/%2F/short", changed) == (204, None)
    row = {**SHORT_ROW, "priority": 2, "apply-to": "queues"}
    assert admin.get(kind) == admin.get(f"{kind}/%2F") == (200, [row])
    assert admin.get(f"{kind}/other") == (200, [])
    assert admin.delete(f"{kind}/%2F/short") == (204, None)
    assert admin.get(f"{kind}/%2F/short")[0] == admin.delete(f"{kind}/%2F/short")[0] == 404
    assert admin.get(kind) == (200, [])


@pytest.mark.feature("S4-77")
def test_the_two_kinds_are_apart(admin: ManagementApi) -> None:
    admin.put("policies/%2F/short", SHORT)
    assert admin.get("operator-policies") == (200, [])
    assert admin.delete("operator-policies/%2F/short")[0] == 404


@pytest.mark.feature("S4-77")
def test_a_policy_holds_for_queues_that_are_there(broker: Broker, admin: ManagementApi) -> None:
    broker.vhost().declare_queue("a.q")
    admin.put("policies/%2F/short", SHORT)
    assert broker.call(lambda: broker.node.broker.vhosts["/"].queues["a.q"].options.max_length) == 5


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"pattern": "^a"}, "policy 'short' is missing 'definition'"),
        ({"definition": {"max-length": 5}}, "is missing 'pattern'"),
        ({**SHORT, "definition": {"foo": 1}}, "'foo' is not a recognised policy setting"),
        ({**SHORT, "definition": {}}, "no policy provided"),
        ({**SHORT, "definition": [1]}, "is not an object"),
        ({**SHORT, "pattern": "["}, "policy 'short' in vhost '/'"),
        ({**SHORT, "pattern": 5}, "is not a string"),
        ({**SHORT, "priority": "high"}, "priority 'high'"),
        ({**SHORT, "apply-to": "cows"}, "apply-to 'cows'"),
        ({**SHORT, "apply-to": ["queues"]}, "apply-to"),
    ],
)
@pytest.mark.feature("S4-77")
def test_a_wrong_policy_is_refused(admin: ManagementApi, body: object, said: str) -> None:
    status, answer = admin.put("policies/%2F/short", body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert said in answer["reason"]
    assert admin.get("policies") == (200, [])


@pytest.mark.feature("S4-71")
def test_an_unknown_vhost_has_no_policies(admin: ManagementApi) -> None:
    assert admin.get("policies/none")[0] == 404
    assert admin.put("policies/none/short", SHORT)[0] == 404
    assert admin.delete("policies/none/short")[0] == 404


@pytest.mark.feature("S4-72")
def test_policymakers_set_policies_where_they_may_enter(broker: Broker, admin: ManagementApi) -> None:
    paul = as_user(broker, "paul", "policymaker", vhosts=("/",))
    assert paul.put("policies/%2F/short", SHORT) == (201, None)
    assert paul.put("policies/other/short", SHORT)[0] == 403
    assert paul.put("operator-policies/%2F/short", SHORT)[0] == 403
    assert paul.get("policies/other")[0] == 403
    admin.put("policies/other/short", SHORT)
    assert [row["vhost"] for row in paul.get("policies")[1]] == ["/"]
    assert [row["vhost"] for row in admin.get("policies")[1]] == ["/", "other"]
    assert paul.delete("policies/%2F/short") == (204, None)


@pytest.mark.parametrize("tag", ["management", "monitoring"])
@pytest.mark.feature("S4-72")
def test_others_only_look_at_policies(broker: Broker, admin: ManagementApi, tag: str) -> None:
    admin.put("policies/%2F/short", SHORT)
    anna = as_user(broker, "anna", tag, vhosts=("/",))
    assert anna.get("policies") == (200, [SHORT_ROW])
    assert anna.put("policies/%2F/long", SHORT)[0] == 403
    assert anna.delete("policies/%2F/short")[0] == 403


@pytest.mark.feature("S4-77")
def test_policies_outlive_the_broker(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        as_guest(broker).put("policies/%2F/short", SHORT)
    with Broker(settings) as broker:
        assert as_guest(broker).get("policies") == (200, [SHORT_ROW])


# ---- explained


@pytest.mark.feature("S4-77")
def test_the_values_of_a_queue_are_explained(broker: Broker, admin: ManagementApi) -> None:
    """The one that holds, where it comes from, and those that lost."""
    broker.vhost().declare_queue("a.q", arguments={"x-max-length": 9})
    admin.put("policies/%2F/short", SHORT)
    admin.put("operator-policies/%2F/old", {"pattern": "", "definition": {"message-ttl": 1000}})
    status, found = admin.get("policies-explained/%2F/queue/a.q")
    assert status == 200
    assert (found["vhost"], found["kind"], found["name"]) == ("/", "queue", "a.q")
    assert found["effective"]["max-length"] == 5
    assert found["effective"]["message-ttl"] == 1000
    told = [(row["value"], row["source"], row["is_effective"]) for row in found["values"] if row["key"] == "max-length"]
    assert told == [(5, "policy short", True), (9, "argument", False)]


@pytest.mark.feature("S4-77")
def test_the_values_of_an_exchange_are_explained(admin: ManagementApi) -> None:
    admin.put("policies/%2F/spare", {"pattern": "^amq.topic$", "definition": {"alternate-exchange": "amq.fanout"}})
    found = admin.get("policies-explained/%2F/exchange/amq.topic")[1]
    assert found["effective"] == {"alternate-exchange": "amq.fanout"}
    assert found["values"][0]["source"] == "policy spare"


@pytest.mark.feature("S4-72", "S4-77")
def test_nothing_is_explained_of_what_is_not_there_or_not_seen(broker: Broker, admin: ManagementApi) -> None:
    assert admin.get("policies-explained/%2F/queue/none")[0] == 404
    assert admin.get("policies-explained/none/queue/none")[0] == 404
    assert admin.get("policies-explained/%2F/cow/none")[0] == 400
    anna = as_user(broker, "anna", "management", vhosts=("/",))
    assert anna.get("policies-explained/%2F/exchange/amq.topic")[0] == 200
    assert anna.get("policies-explained/other/exchange/amq.topic")[0] == 403

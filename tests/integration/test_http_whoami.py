"""Who may use the management at all, shown on its smallest resource."""

from __future__ import annotations

import pytest

from leveret import Broker
from tests.support.http_api import HttpApi

pytestmark = pytest.mark.broker(fresh=True)


def add_user(broker: Broker, name: str, *tags: str) -> HttpApi:
    broker.call(lambda: broker.node.broker.users.add(name, password="secret", tags=tags))
    return HttpApi(broker.http_url, name, "secret")


@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring", "administrator"])
@pytest.mark.feature("S4-72")
def test_whoever_has_a_tag_of_the_management_is_told_who_it_is(broker: Broker, tag: str) -> None:
    status, answer = add_user(broker, "anna", tag, "other").get("/api/whoami")
    assert (status, answer) == (200, {"name": "anna", "tags": [tag, "other"], "is_internal_user": True})


@pytest.mark.feature("S4-72")
def test_a_user_without_a_tag_has_no_business_here(broker: Broker) -> None:
    status, answer = add_user(broker, "anna", "impersonator").get("/api/whoami")
    assert status == 401
    assert answer["error"] == "not_authorised"
    assert "'anna' has none of the tags administrator, monitoring, policymaker, management" in answer["reason"]


def test_half_a_character_is_refused_at_the_door(broker: Broker) -> None:
    body = b'{"queue": "\\ud800", "consumer": "c"}'
    status, answer = HttpApi(broker.http_url).post("/api/pipeline/%2F/leases", body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert "'queue' must be a string" in answer["reason"]

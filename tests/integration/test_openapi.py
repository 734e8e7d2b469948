"""S4-77: the document at /api/openapi.json names every endpoint, describes each, and can be read by other tools."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from leveret import Broker
from leveret.api.openapi.document import DESCRIBED, UNDESCRIBED
from tests.support.http_api import HttpApi
from tests.support.management_api import as_user

HOW = "add its method and path to a table in src/leveret/api/openapi/*.py, as the others there"


pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def document(module_broker: Broker) -> dict[str, Any]:
    status, answer = HttpApi(module_broker.http_url).get("/api/openapi.json")
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


@pytest.mark.feature("S4-77")
def test_every_endpoint_is_described(document: dict[str, Any]) -> None:
    undescribed = [key for key, operation in operations(document) if operation["tags"] == [UNDESCRIBED]]
    assert not undescribed, f"not described: {', '.join(undescribed)}; {HOW}"


@pytest.mark.feature("S4-77")
def test_nothing_is_described_that_is_not_there(document: dict[str, Any]) -> None:
    there = {key for key, _ in operations(document)}
    gone = sorted(DESCRIBED.keys() - there)
    assert not gone, f"described, but no route answers: {', '.join(gone)}; remove them from openapi_*.py"


@pytest.mark.feature("S4-77")
def test_the_document_knows_the_routes_of_every_room(document: dict[str, Any]) -> None:
    paths = document["paths"]
    assert document["openapi"] == "3.1.0"
    assert {"get", "put", "delete"} <= paths["/api/queues/{vhost}/{name}"].keys()
    assert {"get", "post"} <= paths["/api/pipeline/{vhost}/messages"].keys()
    assert "get" in paths["/metrics"]
    assert paths["/api/login"]["post"]["security"] == []
    assert not [path for path in paths if path == "/" or path.startswith("/web/")]


@pytest.mark.feature("S4-77")
def test_what_a_handler_says_of_itself_and_who_may_is_told(document: dict[str, Any]) -> None:
    told = document["paths"]["/api/definitions"]["post"]["description"]
    assert "nothing is changed, and the response lists the changes that would be made" in told
    assert told.endswith("Needs the tag administrator.")


@pytest.mark.feature("S4-77")
def test_each_operation_has_what_a_reader_needs(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    for key, operation in operations(document):
        assert operation["summary"], key
        assert operation["description"], key
        assert any(status.startswith("2") for status in operation["responses"]), key
        named = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        assert named == re.findall(r"\{(\w+)\}", key), key


@pytest.mark.feature("S4-77")
def test_lists_can_be_paged_and_bodies_say_what_is_required(document: dict[str, Any]) -> None:
    listing = document["paths"]["/api/queues"]["get"]["parameters"]
    assert {"page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns"} <= {
        each["name"] for each in listing
    }
    rule = document["paths"]["/api/permissions/{vhost}/{user}"]["put"]["requestBody"]
    assert rule["required"] is True
    assert rule["content"]["application/json"]["schema"]["required"] == ["configure", "write", "read"]


@pytest.mark.feature("S4-72")
def test_the_document_is_for_users_of_the_management(broker: Broker) -> None:
    status, answer = as_user(broker, "plain").get("openapi.json")
    assert (status, answer["error"]) == (401, "not_authorised")
    assert as_user(broker, "viewer", "management").get("openapi.json")[0] == 200

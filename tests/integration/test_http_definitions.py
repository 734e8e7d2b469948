"""Definitions out and in: an export of RabbitMQ's is taken as a whole, or refused as a whole with all its problems."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker
from leveret.http import time_slice as turns
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest, as_user
from tests.support.rabbitmq_export import LOGIN, rabbitmq_export, rabbitmq_hash

SECTIONS = ["users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies"]
SECTIONS += ["queues", "exchanges", "bindings"]


pytestmark = pytest.mark.broker(fresh=True)


def export(admin: ManagementApi, path: str = "definitions") -> dict[str, Any]:
    status, answer = admin.get(path)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def named(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


# ---- out


@pytest.mark.feature("S4-71")
def test_an_export_says_what_it_is_of_and_has_every_section(admin: ManagementApi) -> None:
    found = export(admin)
    assert (found["rabbit_version"], found["rabbitmq_version"]) == ("3.13.7", "3.13.7")
    assert found["product_name"] == "Leveret"
    assert {*SECTIONS} <= found.keys()
    assert named(found["vhosts"]) == ["/"]


@pytest.mark.feature("S4-72")
def test_an_export_never_loses_a_password_and_never_tells_one(broker: Broker, admin: ManagementApi) -> None:
    as_user(broker, "anna", "management")  # its password waits for the first login
    user = next(row for row in export(admin)["users"] if row["name"] == "anna")
    assert user["password_hash"].startswith("$argon2id$")
    assert "secret" not in json.dumps(user)
    assert ManagementApi(broker.http_url, "anna", "secret").get("whoami")[0] == 200


@pytest.mark.feature("S4-71")
def test_an_export_of_a_vhost_has_only_what_is_in_it(admin: ManagementApi) -> None:
    admin.post("definitions", rabbitmq_export())
    found = export(admin, "definitions/orders")
    assert found.keys() == {"rabbit_version", "parameters", "policies", "queues", "exchanges", "bindings"}
    assert named(found["queues"]) == ["in", "log"]
    rows = [row for section in found.values() if isinstance(section, list) for row in section]
    assert rows
    assert not [row for row in rows if "vhost" in row], "they go into any virtual host"
    assert export(admin, "definitions/%2F")["queues"] == []
    assert admin.get("definitions/none")[0] == 404


@pytest.mark.feature("S4-77")
def test_an_export_can_be_saved_as_a_file(admin: ManagementApi) -> None:
    response, _ = admin.http.send("GET", "/api/definitions?download=my%22file%0d.json")
    assert response.getheader("content-disposition") == 'attachment; filename="myfile.json"'


# ---- in


@pytest.mark.feature("S4-71")
def test_an_export_of_rabbitmqs_is_taken_whole(broker: Broker, admin: ManagementApi) -> None:
    given = rabbitmq_export()
    assert admin.post("definitions", given) == (204, None)
    found = export(admin)
    for section in ("permissions", "topic_permissions", "policies", "queues", "exchanges", "bindings"):
        for row in given[section]:
            assert row in found[section], section
    assert [row for row in found["parameters"] if row["component"] == "vhost-limits"] == given["parameters"][:1]
    assert [row for row in found["parameters"] if row["component"] == "operator_policy"] == given["parameters"][2:]
    assert found["global_parameters"] == given["global_parameters"]
    assert named(found["vhosts"]) == ["/", "orders"]
    shop = next(row for row in found["users"] if row["name"] == LOGIN[0])
    assert shop == {**given["users"][0], "limits": {"max-channels": 10}}


@pytest.mark.feature("S4-72")
def test_imported_users_log_in_with_the_password_they_had(broker: Broker, admin: ManagementApi) -> None:
    admin.post("definitions", rabbitmq_export())
    assert ManagementApi(broker.http_url, *LOGIN).get("whoami")[0] == 200
    assert ManagementApi(broker.http_url, LOGIN[0], "open").get("whoami")[0] == 401
    assert ManagementApi(broker.http_url, "certificate", "").get("whoami")[0] == 401


@pytest.mark.feature("S4-72")
def test_a_password_in_plain_is_hashed(broker: Broker, admin: ManagementApi) -> None:
    users = [{"name": name, "password": f"of {name}", "tags": "management"} for name in ("anna", "berta")]
    assert admin.post("definitions", {"users": users}) == (204, None)
    for name in ("anna", "berta"):
        assert ManagementApi(broker.http_url, name, f"of {name}").get("whoami")[0] == 200
    assert "of anna" not in json.dumps(export(admin))


@pytest.mark.feature("S4-71")
def test_our_own_export_makes_another_broker_the_same(admin: ManagementApi) -> None:
    admin.post("definitions", rabbitmq_export())
    admin.put("vhosts/orders", {"description": "shop", "tags": ["a"], "default_queue_type": "quorum"})
    found = export(admin)
    with Broker(QUIET) as other:
        there = as_guest(other)
        assert there.post("definitions", found) == (204, None)
        assert export(there) == found


@pytest.mark.feature("S4-71")
def test_what_was_imported_outlives_the_broker(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        admin = as_guest(broker)
        assert admin.post("definitions", rabbitmq_export()) == (204, None)
        before = export(admin)
    with Broker(settings) as broker:
        assert export(as_guest(broker)) == before


@pytest.mark.feature("S4-71")
def test_the_export_of_one_vhost_is_taken_into_another(admin: ManagementApi) -> None:
    admin.post("definitions", rabbitmq_export())
    admin.put("vhosts/copy")
    found = export(admin, "definitions/orders")
    assert admin.post("definitions/copy", found) == (204, None)
    copied = export(admin, "definitions/copy")
    assert json.loads(json.dumps(found).replace('"orders"', '"copy"')) == copied
    assert admin.post("definitions/none", found)[0] == 404


@pytest.mark.feature("S4-71")
def test_into_a_vhost_only_what_belongs_to_one_is_taken(admin: ManagementApi) -> None:
    admin.put("vhosts/copy")
    status, plan = admin.post("definitions/copy", rabbitmq_export(), dry_run="true")
    assert status == 200
    assert plan["ignored"] == ["global_parameters", "permissions", "topic_permissions", "users", "vhosts"]
    assert admin.post("definitions/copy", rabbitmq_export()) == (204, None)
    assert named(export(admin)["vhosts"]) == ["/", "copy"]
    assert named(export(admin)["users"]) == ["guest"]


@pytest.mark.feature("S4-77")
def test_a_file_is_taken_from_a_form(admin: ManagementApi) -> None:
    """As browsers send it."""
    text = json.dumps(rabbitmq_export(), indent=1).encode()
    head = b'--XX\r\nContent-Disposition: form-data; name="note"\r\n\r\n{}\r\n--XX\r\n'
    head += b'Content-Disposition: form-data; name="file"; filename="a.json"\r\nContent-Type: application/json\r\n\r\n'
    admin.http.headers["Content-Type"] = 'multipart/form-data; boundary="XX"'
    assert admin.post("definitions", head + text + b"\r\n--XX--\r\n") == (204, None)
    assert named(export(admin)["vhosts"]) == ["/", "orders"]
    status, answer = admin.post("definitions", head.replace(b'"file"', b'"other"') + text + b"\r\n--XX--\r\n")
    assert status == 400
    assert "no field 'file'" in answer["reason"]
    admin.http.headers["Content-Type"] = "multipart/form-data"
    assert admin.post("definitions", head + text)[0] == 400


# ---- dry run


@pytest.mark.feature("S4-71")
def test_a_dry_run_tells_the_plan_and_changes_nothing(admin: ManagementApi) -> None:
    before = export(admin)
    status, plan = admin.post("definitions", rabbitmq_export(), dry_run="true")
    assert status == 200
    assert plan["dry_run"] is True
    assert plan["problems"] == plan["ignored"] == []
    assert [row["name"] for row in plan["changed"]] == ["internal_cluster_id"]
    made = [(row["kind"], row["name"], row["vhost"]) for row in plan["created"]]
    assert ("queues", "in", "orders") in made
    assert ("vhosts", "orders", None) in made
    assert {kind for kind, _, _ in made} == {*SECTIONS} - {"global_parameters"}
    assert ("vhosts", "/", None) in [(row["kind"], row["name"], row["vhost"]) for row in plan["existing"]]
    assert export(admin) == before


@pytest.mark.feature("S4-71")
def test_a_second_import_finds_everything_there(admin: ManagementApi) -> None:
    given = rabbitmq_export()
    admin.post("definitions", given)
    plan = admin.post("definitions", given, dry_run="true")[1]
    assert plan["created"] == plan["changed"] == plan["problems"] == []
    assert len(plan["existing"]) == sum(len(given[section]) for section in SECTIONS)
    assert admin.post("definitions", given) == (204, None)


@pytest.mark.feature("S4-72")
def test_what_would_be_changed_is_told(admin: ManagementApi) -> None:
    given = rabbitmq_export()
    admin.post("definitions", given)
    given["users"][0]["tags"] = ["monitoring"]
    given["permissions"][0]["read"] = ".*"
    given["policies"][0]["priority"] = 4
    given["parameters"][0]["value"] = {}
    plan = admin.post("definitions", given, dry_run="true")[1]
    assert [row["kind"] for row in plan["changed"]] == ["users", "permissions", "parameters", "policies"]
    assert admin.post("definitions", given) == (204, None)
    assert admin.get("users/shop")[1]["tags"] == ["monitoring"]
    assert admin.get("permissions/orders/shop")[1]["read"] == ".*"
    assert admin.get("policies/orders/expiring")[1]["priority"] == 4
    assert admin.get("vhost-limits/orders") == (200, [])


# ---- what cannot be taken

QUEUE = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE = {"vhost": "/", "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
BINDING: dict[str, object] = {
    "vhost": "/",
    "source": "amq.topic",
    "destination": "amq.fanout",
    "destination_type": "exchange",
}
BINDING |= {"routing_key": "", "arguments": {}}
RULE = {"user": "guest", "vhost": "/", "configure": "", "write": "", "read": ""}
POLICY = {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": 1}}
PARAMETER = {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {}}
IMPOSSIBLE: list[tuple[str, object, str]] = [
    ("vhosts", {}, "'name' must be a string"),
    ("vhosts", {"name": "v", "tags": 5}, "'tags' must be a list"),
    ("vhosts", 5, "it must be a table"),
    ("users", {"name": "u"}, "has no 'tags'"),
    ("users", {"name": "u", "tags": "", "password_hash": "AAAA"}, "not a hash of its algorithm"),
    ("users", {"name": "u", "tags": "", "limits": {"max-cows": 5}}, '"max-cows" is unknown'),
    ("permissions", {**RULE, "user": "nobody"}, "user 'nobody' not found"),
    ("permissions", {**RULE, "vhost": "none"}, "vhost 'none' not found"),
    ("permissions", {**RULE, "read": "["}, "not a regular expression"),
    ("permissions", {**RULE, "read": 5}, "'read' must be a string"),
    ("topic_permissions", RULE, "'exchange' must be a string"),
    ("topic_permissions", {**RULE, "exchange": "e" * 256}, "longer than 255 bytes"),
    ("parameters", {**PARAMETER, "component": "shovel"}, "component shovel not found"),
    ("parameters", {**PARAMETER, "component": "paused"}, "component paused not found"),
    ("parameters", {**PARAMETER, "name": "other"}, "is named 'limits'"),
    ("parameters", {**PARAMETER, "value": {"max-queues": "a"}}, "must be a whole number"),
    ("parameters", {**PARAMETER, "component": "operator_policy", "value": 5}, "must be a table"),
    ("global_parameters", {"name": "g"}, "has no 'value'"),
    ("policies", {**POLICY, "definition": {"foo": 1}}, "'foo' is not a recognised policy setting"),
    ("policies", {**POLICY, "pattern": "["}, "policy 'p' in vhost '/'"),
    ("policies", {"vhost": "/", "name": "p"}, "is missing 'pattern'"),
    ("policies", {**POLICY, "apply-to": ["queues"]}, "'apply-to' must be a string"),
    ("exchanges", {**EXCHANGE, "name": "e", "type": "x-nowhere"}, "unknown exchange type 'x-nowhere'"),
    ("exchanges", {**EXCHANGE, "name": "e", "type": ["direct"]}, "'type' must be a string"),
    ("exchanges", {**EXCHANGE, "name": "amq.mine"}, "reserved prefix"),
    ("exchanges", {**EXCHANGE, "name": "amq.topic"}, "inequivalent arg 'type'"),
    ("exchanges", {**EXCHANGE, "name": "e", "durable": 5}, "'durable' must be true or false"),
    ("queues", {**QUEUE, "name": "amq.leveret.1"}, "reserved prefix"),
    ("queues", {**QUEUE, "name": "amq.generated"}, "reserved prefix"),
    ("queues", {**QUEUE, "name": "q" * 256}, "'name' must be a string of 1 to 255 bytes"),
    ("queues", {**QUEUE, "name": "q", "arguments": {"x-queue-type": "nosuch"}}, "x-queue-type"),
    ("queues", {**QUEUE, "name": "q", "arguments": {"x-max-length": []}}, "x-max-length"),
    ("queues", {**QUEUE, "name": "q", "arguments": {"big": 1 << 70}}, "value does not fit"),
    ("queues", {**QUEUE, "name": "q", "arguments": 5}, "'arguments' must be a table"),
    ("queues", {**QUEUE, "name": "there"}, "inequivalent arg 'durable' for queue 'there'"),
    ("queues", {"name": "q", "durable": True}, "'vhost' must be a string"),
    ("bindings", {**BINDING, "source": "none"}, "no exchange 'none' in vhost '/'"),
    ("bindings", {**BINDING, "source": ""}, "no exchange '' in vhost '/'"),
    ("bindings", {**BINDING, "destination": "none"}, "no exchange 'none' in vhost '/'"),
    ("bindings", {**BINDING, "destination": "none", "destination_type": "queue"}, "no queue 'none' in vhost '/'"),
    ("bindings", {**BINDING, "destination_type": ["queue"]}, "must be queue or exchange"),
    ("bindings", {**BINDING, "source": "amq.headers", "arguments": {"x-match": "most"}}, "x-match"),
]


@pytest.fixture(scope="module")
def untouched() -> Iterator[ManagementApi]:
    """A broker for imports that must change nothing; it has one transient queue, named ``there``."""
    with Broker(QUIET) as broker:
        broker.vhost().declare_queue("there")
        yield as_guest(broker)


@pytest.mark.parametrize(("section", "row", "cause"), IMPOSSIBLE)
@pytest.mark.feature("S4-71")
def test_what_cannot_be_taken_is_told_with_cause_and_remedy(
    untouched: ManagementApi, section: str, row: object, cause: str
) -> None:
    admin = untouched
    before = export(admin)
    given: dict[str, Any] = rabbitmq_export()
    given[section].append(row)
    plan = admin.post("definitions", given, dry_run="true")[1]
    assert [problem["kind"] for problem in plan["problems"]] == [section]
    assert cause in plan["problems"][0]["cause"]
    assert plan["problems"][0]["remedy"]
    status, answer = admin.post("definitions", given)
    assert (status, answer["error"]) == (400, "bad_request")
    assert answer["problems"] == plan["problems"]
    assert export(admin) == before


@pytest.mark.feature("S4-71")
def test_all_problems_are_told_at_once(admin: ManagementApi) -> None:
    given = {"queues": [{**QUEUE, "name": "amq.a"}, {**QUEUE, "name": "fine"}, {**QUEUE, "name": "amq.b"}]}
    given["bindings"] = [{**BINDING, "source": "none"}]
    answer = admin.post("definitions", given)[1]
    assert [problem.get("name", problem.get("source")) for problem in answer["problems"]] == ["amq.a", "amq.b", "none"]
    assert "nothing was imported: 3 of the objects" in answer["reason"]
    assert export(admin)["queues"] == []


@pytest.mark.feature("S4-71")
def test_a_queue_that_is_defined_twice_must_be_the_same(admin: ManagementApi) -> None:
    twice = [{**QUEUE, "name": "q"}, {**QUEUE, "name": "q", "auto_delete": True}]
    answer = admin.post("definitions", {"queues": twice})[1]
    assert "defined twice" in answer["problems"][0]["cause"]
    assert admin.post("definitions", {"queues": [twice[0], twice[0]]}) == (204, None)
    assert named(export(admin)["queues"]) == ["q"]


@pytest.mark.feature("S4-71")
def test_more_queues_than_the_vhost_may_have_are_refused(admin: ManagementApi) -> None:
    given = {"queues": [{**QUEUE, "name": f"q{number}"} for number in range(3)]}
    given["parameters"] = [{**PARAMETER, "value": {"max-queues": 2}}]
    answer = admin.post("definitions", given)[1]
    assert "queue limit in vhost '/' (2) would be exceeded" in answer["problems"][0]["cause"]
    assert admin.post("definitions", given, dry_run="true")[1]["can_skip"] is False
    assert admin.post("definitions", given, skip_unsupported="true")[0] == 400
    assert export(admin)["queues"] == []
    given["parameters"] = [{**PARAMETER, "value": {"max-queues": 3}}]
    assert admin.post("definitions", given) == (204, None)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"queues": 5}', b'{"queues": {"a": 1}}', b"\xff", b"[" * 100_000, b'{"a": "\\udfff"}']
)
@pytest.mark.feature("S4-77")
def test_what_is_no_file_of_definitions_is_refused(untouched: ManagementApi, body: bytes) -> None:
    status, answer = untouched.post("definitions", body)
    assert (status, answer["error"]) == (400, "bad_request")


@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring"])
@pytest.mark.feature("S4-72")
def test_only_administrators_export_and_import(broker: Broker, admin: ManagementApi, tag: str) -> None:
    anna = as_user(broker, "anna", tag, vhosts=("/",))
    for path in ("definitions", "definitions/%2F"):
        assert anna.get(path)[0] == 403
        assert anna.post(path, rabbitmq_export())[0] == 403
    assert named(export(admin)["vhosts"]) == ["/"]


@pytest.mark.feature("S4-71")
def test_a_long_import_gives_the_loop_its_turns(
    broker: Broker, admin: ManagementApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0.0)  # every turn is long enough
    number = 1_000
    given = {"queues": [{**QUEUE, "name": f"q{each}"} for each in range(number)]}
    given["bindings"] = [
        {**BINDING, "destination": f"q{each}", "destination_type": "queue", "routing_key": "k"}
        for each in range(number)
    ]
    seen: list[int] = []
    vhost = broker.node.broker.vhosts["/"]

    def look() -> None:
        seen.append(len(vhost.queues))
        if len(vhost.queues) < number:
            asyncio.get_running_loop().call_soon(look)

    broker.call(look)
    assert admin.post("definitions", given) == (204, None)
    steps = [after - before for before, after in pairwise(seen)]
    assert max(steps) == 1
    assert len(export(admin)["bindings"]) == number


@pytest.mark.feature("S4-72")
def test_a_user_keeps_its_limits_when_the_file_says_none(admin: ManagementApi) -> None:
    admin.put("users/anna", {"tags": "", "limits": {"max-channels": 3}})
    row = {"name": "anna", "tags": "", "password_hash": rabbitmq_hash("x")}
    assert admin.post("definitions", {"users": [row]}) == (204, None)
    assert admin.get("users/anna")[1]["limits"] == {"max-channels": 3}

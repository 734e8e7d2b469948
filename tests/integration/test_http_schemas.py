"""The schema registry over HTTP and on the command line, with a real broker."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker
from leveret.schemas.schema import Schema
from leveret.spark import schema_registry
from leveret.spark.errors import BrokerRefused, OptionError
from leveret.spark.schema_registry import SchemaRegistry
from tests.support.command_line import Cli
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest, as_user
from tests.support.proto_files import files

pytestmark = pytest.mark.broker(fresh=True)

AT = "schemas/%2F/orders"


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, *fields]})


FIRST, TOTAL = avro(), {"name": "total", "type": "double"}
NEXT, WRONG = avro({**TOTAL, "default": 0.0}), avro(TOTAL)


def test_versions_from_the_first_to_the_last(admin: ManagementApi) -> None:
    status, row = admin.put(AT, {"schema": FIRST})
    assert (status, row["version"], row["type"], json.loads(row["schema"])) == (201, 1, "avro", json.loads(FIRST))
    assert admin.put(AT, {"schema": f" {FIRST}\n"}) == (200, row)
    status, added = admin.put(AT, {"schema": NEXT})
    assert (status, added["version"]) == (201, 2)
    named = {
        "vhost": "/",
        "name": "orders",
        "type": "avro",
        "compatibility": "backward",
        "version": 2,
        "id": added["id"],
        "versions": [{"version": 1, "id": row["id"]}, {"version": 2, "id": added["id"]}],
    }
    assert admin.get("schemas") == admin.get("schemas/%2F") == (200, [named])
    assert admin.get(AT) == (200, named)
    assert admin.get(f"{AT}/1") == (200, row)
    assert admin.get(f"{AT}/latest") == (200, added)
    by_id = {key: row[key] for key in ("vhost", "id", "type", "schema", "message")}
    assert admin.get(f"schema-ids/%2F/{row['id']}") == (200, by_id)
    assert admin.delete(f"{AT}/1") == (204, None)
    assert admin.get(f"{AT}/1")[0] == admin.get(f"schema-ids/%2F/{row['id']}")[0] == 404
    assert admin.delete(AT) == (204, None)
    assert admin.get(AT)[0] == admin.delete(AT)[0] == admin.delete(f"{AT}/1")[0] == 404
    assert admin.get("schemas") == (200, [])


def test_an_incompatible_version_is_refused_with_the_reason(admin: ManagementApi) -> None:
    admin.put(AT, {"schema": FIRST})
    problem = "data of the version before: total: the field is missing in the data and has no default"
    status, answer = admin.put(AT, {"schema": WRONG})
    assert (status, answer["problems"]) == (409, [problem])
    assert "is not backward compatible with version 1" in answer["reason"]
    report = {"compatible": False, "compatibility": "backward", "version": 1, "problems": [problem]}
    assert admin.post(f"{AT}/check", {"schema": WRONG}) == (200, report)
    assert admin.post(f"{AT}/check", {"schema": NEXT})[1]["compatible"]
    assert admin.post("schemas/%2F/new/check", {"schema": WRONG})[1]["version"] is None
    assert admin.put(AT, {"schema": WRONG, "compatibility": "forward"})[0] == 201
    assert admin.put(AT, {"type": "json", "schema": "id INT"})[0] == 409
    assert [each["version"] for each in admin.get(AT)[1]["versions"]] == [1, 2]


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({}, 400, "is missing 'schema'"),
        ({"schema": 5}, 400, "'schema' must be a string"),
        ({"schema": "{"}, 400, "not JSON"),
        ({"schema": '"int"', "type": "xml"}, 400, "choose one of avro, protobuf, json"),
        ({"schema": '"int"', "compatibility": "sideways"}, 400, "choose one of backward, forward, full, none"),
        ({"schema": "a INTT", "type": "json"}, 400, "'intt' is unknown"),
        ({"schema": files(Order=["int32 a = 1"]), "type": "protobuf"}, 400, "name the message"),
        ({"schema": "x" * (65 << 10)}, 400, "at most 65536"),
        ({"schema": "x" * (2 << 20)}, 413, "larger than"),
    ],
)
def test_a_wrong_schema_is_refused(admin: ManagementApi, body: object, status: int, problem: str) -> None:
    found, answer = admin.put(AT, body)
    assert found == status
    assert problem in answer["reason"]
    assert admin.get("schemas") == (200, [])
    assert admin.get(f"{AT}/one")[0] == 400


def test_policymakers_add_and_others_read_where_they_may_enter(broker: Broker, admin: ManagementApi) -> None:
    """All users and endpoints: test_permission_matrix.py."""
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    paul = as_user(broker, "paul", "policymaker", vhosts=("/",))
    mary = as_user(broker, "mary", "management", vhosts=("/",))
    spark = as_user(broker, "spark", vhosts=("/",))
    assert paul.put(AT, {"schema": FIRST})[0] == 201
    assert paul.put("schemas/other/orders", {"schema": FIRST})[0] == 403
    for refused in (mary.put(AT, {"schema": NEXT}), mary.delete(AT), mary.delete(f"{AT}/1")):
        assert refused[0] == 403
    assert mary.get(f"{AT}/1")[0] == 200
    assert mary.get("schemas/other")[0] == 403
    assert spark.get(AT)[0] == 401
    row = admin.get(f"{AT}/1")[1]
    for query in ({"id": row["id"]}, {"name": "orders"}, {"name": "orders", "version": 1}):
        status, found = spark.get("pipeline/%2F/schemas", **query)
        assert (status, found) == (200, {key: row[key] for key in ("id", "type", "schema", "message")})
    assert spark.get("pipeline/other/schemas", id=row["id"])[0] == 403
    assert spark.get("pipeline/%2F/schemas", id="none")[0] == 404
    assert spark.get("pipeline/%2F/schemas", name="orders", version=2)[0] == 404
    assert spark.get("pipeline/%2F/schemas")[0] == spark.get("pipeline/%2F/schemas", id="a", name="b")[0] == 400


def test_schemas_are_in_the_definitions(broker: Broker, admin: ManagementApi) -> None:
    admin.put(AT, {"schema": FIRST})
    admin.put(AT, {"schema": NEXT, "compatibility": "full"})
    admin.delete(f"{AT}/1")
    admin.put("schemas/%2F/bills", {"schema": files(Bill=["int32 a = 1"]), "type": "protobuf", "message": "shop.Bill"})
    found = admin.get("definitions")[1]
    assert [(row["name"], row["version"], row["compatibility"]) for row in found["schemas"]] == [
        *(("bills", 1, "backward"), ("orders", 2, "full"))
    ]
    with Broker(QUIET) as another:
        there = as_guest(another)
        for _ in range(2):
            assert there.post("definitions", found) == (204, None)
            assert there.get("schemas") == admin.get("schemas")
        report = there.post("definitions", found, dry_run="true")[1]
        assert {"kind": "schemas", "name": "orders", "vhost": "/"} in report["existing"]
        there.put("vhosts/copy")
        assert there.post("definitions/copy", admin.get("definitions/%2F")[1]) == (204, None)
        assert len(there.get("schemas/copy")[1]) == 2
        assert there.put(AT, {"schema": FIRST, "compatibility": "none"})[1]["version"] == 3
        changed = {"schemas": [{**found["schemas"][1], "schema": WRONG}]}
        status, answer = there.post("definitions", changed)
        assert status == 400
        assert "version 2 of schema 'orders' in vhost '/' is another schema" in answer["problems"][0]["cause"]
        for wrong in ({"version": 0}, {"schema": "{"}, {"compatibility": "?"}, {"type": "json"}):
            assert there.post("definitions", {"schemas": [{**found["schemas"][1], **wrong}]})[0] == 400


def test_a_restart_keeps_them(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        as_guest(broker).put(AT, {"schema": FIRST})
        as_guest(broker).put(AT, {"schema": NEXT})
        as_guest(broker).delete(f"{AT}/1")
        before = as_guest(broker).get("schemas"), as_guest(broker).get(f"{AT}/2")
    with Broker(settings) as broker:
        assert (as_guest(broker).get("schemas"), as_guest(broker).get(f"{AT}/2")) == before
        assert as_guest(broker).put(AT, {"schema": FIRST, "compatibility": "none"})[1]["version"] == 3


def test_a_schema_of_an_earlier_version_that_would_be_refused_now_stays(broker: Broker, admin: ManagementApi) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["a-b"], "default": "a-b"}
    stored = Schema("avro", json.dumps(enum))
    broker.call(lambda: broker.node.broker.vhost("/").schemas.add("orders", stored, "backward"))
    assert admin.put("schemas/%2F/other", {"schema": stored.text})[0] == 400
    assert admin.get(f"{AT}/1")[1]["schema"] == stored.text
    exported = admin.get("definitions")[1]
    assert admin.post("definitions", exported) == (204, None)
    assert admin.post("definitions", exported, dry_run="true")[1]["existing"]
    changed = {**enum, "symbols": ["a-b", "A"], "default": "A"}
    assert admin.post("definitions", {"schemas": [{**exported["schemas"][0], "schema": json.dumps(changed)}]})[0] == 400
    better = {"schema": json.dumps({**enum, "symbols": ["A"], "default": "A"})}
    assert admin.post(f"{AT}/check", better)[1]["compatible"]
    assert admin.put(AT, better)[1]["version"] == 2
    with Broker(QUIET) as another:
        status, answer = as_guest(another).post("definitions", exported)
        assert status == 400
        assert "the symbol 'a-b' of the Avro enum E is invalid" in answer["problems"][0]["cause"]


def test_a_process_of_spark_asks_for_an_id_once(
    broker: Broker, admin: ManagementApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, schema = SchemaRegistry(endpoint=broker.http_url), Schema("json", "cached INT")
    assert registry.by_id(schema.id) is None
    assert registry.by_id("x" * 1_000_000) is None
    admin.put(AT, {"type": "json", "schema": schema.text})
    assert registry.by_id(schema.id) is None, "asked again at once"
    monkeypatch.setattr(schema_registry, "_unknown", {})  # as after UNKNOWN_SECONDS
    assert registry.by_id(schema.id) == registry.schema("orders") == registry.schema("orders:1") == schema
    admin.delete(AT)
    assert SchemaRegistry(endpoint=broker.http_url).by_id(schema.id) == schema
    with pytest.raises(BrokerRefused, match="no schema 'orders'"):
        registry.schema("orders")
    with pytest.raises(OptionError, match="has no name"):
        registry.schema(":1")


def test_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    first, second, wrong, proto = (tmp_path / name for name in ("1.avsc", "2.avsc", "3.avsc", "order.pb"))
    for path, text in ((first, FIRST), (second, NEXT), (wrong, WRONG)):
        path.write_text(text)
    proto.write_bytes(base64.b64decode(files(Order=["int32 a = 1"])))
    assert "version 1 of schema 'orders' added, ID " in cli.done("schemas", "add", "orders", str(first))
    assert "version 1 of schema 'orders' already exists" in cli.done("schemas", "add", "orders", "-", given=FIRST)
    assert "the schema is compatible with version 1" in cli.done("schemas", "check", "orders", str(second))
    assert "schema 'new' would be new" in cli.done("schemas", "check", "new", str(second))
    refused = cli.run("schemas", "check", "orders", str(wrong))
    assert refused.exit_code == 1
    assert "- data of the version before: total: the field is missing" in refused.stdout
    assert "is not backward compatible" in cli.refused("schemas", "add", "orders", str(wrong))
    cli.done("schemas", "add", "orders", str(wrong), "--compatibility", "none")
    message = ("--type", "protobuf", "--message", "shop.Order")
    assert json.loads(cli.done("schemas", "add", "proto", str(proto), *message, "--json"))["type"] == "protobuf"
    assert "for a descriptor set, pass --type protobuf" in cli.refused("schemas", "add", "x", _binary(tmp_path), code=2)
    assert [row[1:5] for row in cli.rows("schemas", "list")] == [
        ["orders", "avro", "none", "2"],
        ["proto", "protobuf", "backward", "1"],
    ]
    assert '"name":"total"' in cli.done("schemas", "show", "orders", "2")
    assert cli.json("schemas", "show", "orders")["version"] == 2
    assert cli.done("schemas", "delete", "orders", "2") == "version 2 of schema 'orders' deleted\n"
    assert cli.done("schemas", "delete", "orders") == "schema 'orders' deleted\n"
    assert "no schema 'orders' in vhost '/': see 'leveret schemas list'" in cli.refused("schemas", "show", "orders")


def _binary(folder: Path) -> str:
    path = folder / "binary"
    path.write_bytes(b"\xff\xfe")
    return str(path)

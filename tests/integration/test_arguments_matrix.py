"""CWE-862, missing authorization: permissions are asked by argument, not only by method.

Each row of tests/support/matrix_arguments.py is tried over every protocol that it has, by a user that has exactly the
permissions it needs, and by users that lack one of them. The broker must refuse those, and change nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from leveret import Broker
from leveret.api.openapi.document import DESCRIBED
from leveret.broker.policy_keys import KEYS
from leveret.wire.properties import Properties
from tests.support.http_api import HttpApi
from tests.support.matrix_arguments import PLAIN, ROWS, Needed, Row
from tests.support.matrix_methods import Tried, attempt
from tests.support.matrix_objects import arrange, snapshot
from tests.support.matrix_users import PASSWORD, VHOST, Needs
from tests.support.raw_client import RawClient, plain
from tests.support.stomp_client import StompClient

USER = "eve"
WAYS = [(name, way) for name, row in ROWS.items() for way in row.ways]
SOURCE = Path(__file__).resolve().parents[2] / "src" / "leveret"
CLIENTS = {"client", "cli", "spark"}  # packages that do not run in the broker


pytestmark = pytest.mark.broker(storage="disk", stomp_port=0, durability="os")


@pytest.fixture(scope="module")
def module_broker(module_broker: Broker) -> Broker:
    core = module_broker.node.broker
    module_broker.call(lambda: core.users.add(USER, password=PASSWORD, tags=["management"]))
    module_broker.call(lambda: core.add_vhost(VHOST))
    return module_broker


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_a_row_needs_each_of_its_permissions(name: str, way: str, broker: Broker) -> None:
    row = ROWS[name]
    for missing in row.needs:
        arrange(broker)
        allow(broker, row.needs, missing)
        before = snapshot(broker)
        assert use(broker, row, way) == 403, f"allowed without {missing}"
        assert snapshot(broker) == before, f"changed something without {missing}"
    arrange(broker)
    allow(broker, row.needs)
    assert use(broker, row, way) == 0


def allow(broker: Broker, needs: Collection[Needed], missing: Needed | None = None) -> None:
    """The user gets exactly these permissions without ``missing``; topic permissions wherever a need names a topic."""
    permissions = broker.node.broker.permissions
    given = [need for need in needs if need != missing]

    def pattern(kind: str) -> str:
        names = [need.name for need in given if need.kind == kind and need.what != "topic"]
        return f"^({'|'.join(map(re.escape, names))})$" if names else ""

    def topics(kind: str, exchange: str) -> str:
        keys = [need.key for need in given if (need.kind, need.what, need.name) == (kind, "topic", exchange)]
        return ".*" if ".*" in keys else f"^({'|'.join(keys)})$" if keys else ""

    def change() -> None:
        permissions.set(USER, VHOST, pattern("configure"), pattern("write"), pattern("read"))
        permissions.clear_topic(USER, VHOST)
        for exchange in {need.name for need in needs if need.what == "topic"}:
            permissions.set_topic(USER, VHOST, exchange, topics("write", exchange), topics("read", exchange))

    broker.call(change)


def use(broker: Broker, row: Row, way: str) -> int:
    """0 if it was allowed, else the code of the refusal."""
    if way == "AMQP":
        with RawClient(broker.amqp_url) as client:
            client.handshake(response=plain(USER, PASSWORD), virtual_host=VHOST)
            return attempt(client, Tried(row.amqp, Needs(None)))
    if way == "HTTP":
        assert row.http is not None
        response, _ = HttpApi(broker.http_url, USER, PASSWORD).send(*row.http)
        return 0 if response.status < 300 else response.status
    if way == "permission-check":
        status, answer = HttpApi(broker.http_url, USER, PASSWORD).get(f"/api/permission-check?{row.check}")
        assert status == 200, answer
        return 0 if answer["allowed"] else 403
    assert row.stomp is not None
    command, headers = row.stomp
    with StompClient.open(broker.stomp_url, login=USER, passcode=PASSWORD, host=VHOST) as stomp:
        answer = stomp.ask(command, b"", **headers)
        refused = {"RECEIPT": 0, "ERROR": 403 if b"ACCESS_REFUSED" in answer.body else 400}
        return refused[answer.command]


# ---- the tables are complete


def test_every_argument_header_and_field_has_an_entry() -> None:
    in_rows = {name for row in ROWS.values() for name in row.names}
    missing = sorted(known_names() - in_rows - set(PLAIN))
    assert not missing, (
        f"{', '.join(missing)}: does it name another object, or make the broker act on one? Then add a row to ROWS in "
        "tests/support/matrix_arguments.py, else its reason to REASONS"
    )
    assert not sorted(set(PLAIN) - known_names()), "the broker does not know these any more: remove them"


def known_names() -> set[str]:
    """What the code of the broker reads by a name: x- arguments and headers, policy keys, properties, HTTP fields."""
    found = {"CC", "BCC", "alternate-exchange", *KEYS, *(field.name for field in fields(Properties))}
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in CLIENTS:
            found |= {name for name in texts_in(path) if re.fullmatch(r"x-[a-z0-9-]+", name)}
    for operation in DESCRIBED.values():
        found |= {query.name for query in operation.query}
        found |= set(operation.body.schema.get("properties", ())) if operation.body is not None else set()
    return found


def texts_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value

"""A request for every operation over HTTP, such that it succeeds for a user with the permission.

Most follow from the path: its parts are filled in from ``PARTS``. What takes a body or a query has a row in
``SAMPLES``, and so has what cannot succeed here, with the status that it then ends with.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple
from urllib.parse import quote

import pyarrow as pa

from leveret.api.openapi.description import ADMIN, MONITOR, VIEWER, Needs, Operation, Query
from leveret.schemas.schema import Schema
from tests.support.http_api import arrow_stream
from tests.support.matrix_objects import SCHEMA_TEXT, SPARE, VICTIM
from tests.support.matrix_users import VHOST

ROWS_IN = arrow_stream(pa.record_batch({"body": pa.array([b"row"], pa.binary())}))


class Sample(NamedTuple):
    """``parts``: of the path, beyond the usual. ``ends``: the status of success. ``needs``: where this request needs
    more than the operation at its least, as its description says in a note."""

    body: object = None
    query: str = ""
    parts: dict[str, str] = {}
    ends: int | None = None
    needs: Needs | None = None


PARTS = {
    "vhost": VHOST,
    "user": VICTIM,
    "source": "x",
    "queue": "q",
    "exchange": "y",
    "props": "k",
    "component": "policy",
    "kind": "queue",
    "port": "1",
    "protocol": "amqp",
    "within": "1",
    "unit": "days",
    "id": "nothing",
    "state": "down",
    "channel": "nothing",
    "tag": "nothing",
    "version": "1",
}
NAMES = {  # what {name} is, by where the path begins
    "/api/queues/": "q",
    "/api/exchanges/": "x",
    "/api/policies-explained/": "q",
    "/api/policies/": "p",
    "/api/operator-policies/": "p",
    "/api/parameters/": "p",
    "/api/global-parameters/": "g",
    "/api/vhost-limits/": "max-queues",
    "/api/user-limits/": "max-channels",
    "/api/connections/": "nothing",
    "/api/channels/": "nothing",
    "/api/plugins/": "sharding",
    "/api/streams/": "s",
    "/api/schemas/": "schema",
}
POLICY = {"pattern": "^nothing$", "definition": {"max-length": 10}, "apply-to": "queues"}
SCHEMA = {"type": "json", "schema": SCHEMA_TEXT}
SCHEMA_ID = Schema("json", SCHEMA_TEXT).id
LEASE = {"queue": "leased", "consumer": "c"}
AT = "/api/pipeline/{vhost}"
NOT_THERE = Sample(ends=404)
OF_ANOTHER = MONITOR

SAMPLES: dict[str, Sample] = {
    "GET /api/login": Sample(needs=VIEWER),
    "POST /api/login": Sample({"username": "guest", "password": "guest"}),
    "POST /api/login/oidc/start": NOT_THERE,
    "POST /api/login/oidc": Sample({"state": "s", "code": "c"}, ends=404),
    "PUT /api/cluster-name": Sample({"name": "new"}),
    "GET /api/cluster": Sample(ends=404),
    "POST /api/cluster/handover": Sample({}, ends=404),
    "GET /api/cluster/cells": Sample(ends=404),
    "POST /api/cluster/cells/balance": Sample({}, ends=404),
    "GET /api/cells": Sample(ends=404),
    "POST /api/cells": Sample({}, ends=404),
    "DELETE /api/cells/{name}": Sample(ends=404),
    "POST /api/cells/{name}/keep": Sample({}, ends=404),
    "POST /api/queues/{vhost}/{name}/move": Sample({"to": "c2"}, ends=404),
    "PUT /api/queues/{vhost}/{name}/move": Sample({"to": "c2"}, ends=404),
    "GET /api/queue-moves": Sample(ends=404),
    "GET /api/queue-moves/proposals": Sample(ends=404),
    "GET /api/queue-moves/{id}": Sample(ends=404),
    "GET /api/health/checks/port-listener/{port}": Sample(ends=503),
    "PUT /api/queues/{vhost}/{name}": Sample({"durable": True}, parts={"name": "new"}, ends=201),
    "POST /api/queues/{vhost}/{name}/actions": Sample({"action": "sync"}),
    "PUT /api/exchanges/{vhost}/{name}": Sample({"type": "fanout"}, parts={"name": "new"}, ends=201),
    "POST /api/bindings/{vhost}/e/{source}/q/{queue}": Sample({"routing_key": "new"}),
    "POST /api/bindings/{vhost}/e/{source}/e/{exchange}": Sample({"routing_key": "new"}),
    "GET /api/connections/{name}": NOT_THERE,
    "DELETE /api/connections/{name}": NOT_THERE,
    "GET /api/connections/{name}/channels": NOT_THERE,
    "DELETE /api/connections/username/{user}": Sample(needs=ADMIN),
    "GET /api/channels/{name}": NOT_THERE,
    "DELETE /api/consumers/{vhost}/{channel}/{tag}": NOT_THERE,
    "GET /api/queues/{vhost}/{name}/messages/{id}/body": Sample(ends=400),
    "POST /api/exchanges/{vhost}/{name}/publish": Sample({"routing_key": "k", "payload": "hello"}),
    "POST /api/queues/{vhost}/{name}/get": Sample({"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    "POST /api/queues/{vhost}/{name}/jobs": Sample({"kind": "copy", "destination": "r", "dry_run": True}),
    "GET /api/queue-jobs/{id}": NOT_THERE,
    "DELETE /api/queue-jobs/{id}": NOT_THERE,
    "GET /api/schedules/{vhost}/{id}/body": NOT_THERE,
    "DELETE /api/schedules/{vhost}/{id}": NOT_THERE,
    "GET /api/spark-queries/{vhost}/{id}": NOT_THERE,
    "GET /api/traces/{vhost}/{id}": NOT_THERE,
    "DELETE /api/traces/{vhost}/{id}": NOT_THERE,
    "POST /api/tunnel/{id}": Sample(b"AMQP", "at=0", ends=404),
    "GET /api/tunnel/{id}": Sample(query="at=0", ends=404),
    "DELETE /api/tunnel/{id}": NOT_THERE,
    "POST /api/users/bulk-delete": Sample({"users": [VICTIM]}),
    "PUT /api/users/{user}": Sample({"tags": [], "password_hash": ""}, parts={"user": "new"}),
    "PUT /api/permissions/{vhost}/{user}": Sample({"configure": "", "write": "", "read": ""}),
    "PUT /api/topic-permissions/{vhost}/{user}": Sample({"exchange": "y", "write": "", "read": ""}),
    "GET /api/topic-permissions/{vhost}/{user}/{exchange}": Sample(parts={"exchange": "x"}),
    "DELETE /api/topic-permissions/{vhost}/{user}/{exchange}": Sample(parts={"exchange": "x"}),
    "PUT /api/vhosts/{vhost}": Sample(parts={"vhost": "new"}),
    "DELETE /api/vhosts/{vhost}": Sample(parts={"vhost": SPARE}),
    "PUT /api/policies/{vhost}/{name}": Sample(POLICY, parts={"name": "new"}),
    "PUT /api/operator-policies/{vhost}/{name}": Sample(POLICY, parts={"name": "new"}),
    "PUT /api/parameters/{component}/{vhost}/{name}": Sample({"value": POLICY}, parts={"name": "new"}),
    "PUT /api/global-parameters/{name}": Sample({"value": 1}, parts={"name": "new"}),
    "PUT /api/vhost-limits/{vhost}/{name}": Sample({"value": 1000}),
    "PUT /api/user-limits/{user}/{name}": Sample({"value": 1000}),
    "GET /api/user-limits/{user}": Sample(needs=OF_ANOTHER),
    "GET /api/permission-check": Sample(
        query=f"user={VICTIM}&vhost={VHOST}&action=declare%20queue&name=q", needs=ADMIN
    ),
    "POST /api/definitions": Sample({"queues": [{"vhost": VHOST, "name": "new", "durable": True}]}),
    "POST /api/all-configuration": Sample({"queues": [{"vhost": VHOST, "name": "new", "durable": True}]}),
    "POST /api/definitions/{vhost}": Sample({"queues": [{"name": "new", "durable": True}]}),
    "PUT /api/schemas/{vhost}/{name}": Sample(SCHEMA, parts={"name": "new"}, ends=201),
    "POST /api/schemas/{vhost}/{name}/check": Sample(SCHEMA),
    "GET /api/schema-ids/{vhost}/{id}": Sample(parts={"id": SCHEMA_ID}),
    f"GET {AT}/schemas": Sample(query=f"id={SCHEMA_ID}"),
    f"GET {AT}/sources": Sample(query="queue=q"),
    f"GET {AT}/offsets": Sample(query="queue=q"),
    f"GET {AT}/messages": Sample(query="queue=q"),
    f"POST {AT}/messages": Sample(ROWS_IN, "exchange=x&routing_key=k"),
    f"PUT {AT}/consumers": Sample({"queue": "s", "consumer": "new", "offset": 0}),
    f"DELETE {AT}/consumers": Sample(query="queue=s&consumer=c"),
    f"POST {AT}/leases": Sample({**LEASE, "max_messages": 1}),
    f"DELETE {AT}/leases": Sample(query="queue=q&consumer=c"),
    f"GET {AT}/leases/messages": Sample(query="queue=q&consumer=nobody&lease=1", ends=404),
    f"POST {AT}/leases/commit": Sample({**LEASE, "through": 0}),
    f"POST {AT}/leases/readers": Sample({**LEASE, "reader": "r"}),
    f"DELETE {AT}/leases/readers": Sample(query="queue=q&consumer=c&reader=r"),
    f"POST {AT}/stages": Sample(ROWS_IN, "transaction=new&batch=1&exchange=x&routing_key=k"),
    f"DELETE {AT}/stages": Sample(query="transaction=none&batch=1"),
    f"POST {AT}/stages/renew": Sample(query="transaction=none"),
    f"POST {AT}/commits": Sample({"transaction": "new", "batch": 1, "stages": []}),
    f"GET {AT}/commits": Sample(query="transaction=none"),
    f"DELETE {AT}/commits": Sample(query="transaction=t"),
    "POST /api/pipeline/queries": Sample({"id": "one"}),
}
HERE = "tests/support/matrix_requests.py"
HOW = f"add a row to SAMPLES in {HERE} with a request that succeeds for a user with the permission"


class Asked(NamedTuple):
    method: str
    target: str
    body: bytes | None


def sample_of(key: str, operation: Operation) -> Sample:
    sample = SAMPLES.get(key)
    if sample is None:
        must_say = (operation.body is not None and operation.body.required) or any(map(_is_required, operation.query))
        assert not must_say, f"{key} takes a body or a query: {HOW}"
        return Sample()
    return sample


def _is_required(query: Query) -> bool:
    return query.required


def parts_of(path: str, node: str, **more: str) -> dict[str, str]:
    """For each part of the path the name of something that is there."""
    name = next((name for start, name in NAMES.items() if path.startswith(start)), node)
    known = {**PARTS, "name": name, "node": node, **more}
    found = re.findall(r"\{(\w+)\}", path)
    unknown = [part for part in found if part not in known]
    assert not unknown, f"{path} has a part {{{unknown[0]}}}: add what it can be to PARTS in {HERE}"
    return {part: known[part] for part in found}


def request_of(key: str, operation: Operation, node: str) -> Asked:
    method, _, path = key.partition(" ")
    sample = sample_of(key, operation)
    parts = parts_of(path, node, **sample.parts)
    target = re.sub(r"\{(\w+)\}", lambda found: quote(parts[found[1]], safe=""), path)
    body = sample.body
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    return Asked(method, f"{target}?{sample.query}" if sample.query else target, sent)

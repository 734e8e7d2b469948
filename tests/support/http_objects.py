"""A client of the management API that declares, binds, publishes and gets over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from leveret import Broker
from tests.support.http_api import Answer, HttpApi, located


class ObjectsApi(HttpApi):
    """In one virtual host. Answers without a body are None."""

    def __init__(self, url: str, user: str = "guest", password: str = "guest", vhost: str = "/") -> None:
        super().__init__(url, user, password)
        self.vhost = quote(vhost, safe="")

    def _json(self, method: str, path: str, query: dict[str, object], body: bytes | None) -> Answer:
        response, answer = self.send(method, located(path, query), body)
        return response.status, json.loads(answer) if answer else None

    def at(self, kind: str, name: str, rest: str = "") -> str:
        return f"/api/{kind}/{self.vhost}/{quote(name, safe='')}{rest}"

    def queue(self, name: str, **query: object) -> dict[str, Any]:
        status, row = self.get(self.at("queues", name), **query)
        assert status == 200, row
        found: dict[str, Any] = row
        return found

    def declare_queue(self, name: str, **given: object) -> None:
        status, answer = self.put(self.at("queues", name), given)
        assert status == 201, answer

    def declare_exchange(self, name: str, type: str = "direct", **given: object) -> None:
        status, answer = self.put(self.at("exchanges", name), {"type": type, **given})
        assert status == 201, answer

    def bind(self, source: str, queue: str, key: str = "", arguments: Mapping[str, object] | None = None) -> None:
        path = self.at("bindings", "e") + f"/{quote(source, safe='')}/q/{quote(queue, safe='')}"
        status, answer = self.post(path, {"routing_key": key, "arguments": dict(arguments or {})})
        assert status == 201, answer

    def publish(self, key: str, payload: str, exchange: str = "amq.default", **properties: object) -> bool:
        message = {"routing_key": key, "payload": payload, "payload_encoding": "string", "properties": properties}
        status, answer = self.post(self.at("exchanges", exchange, "/publish"), message)
        assert status == 200, answer
        routed: bool = answer["routed"]
        return routed

    def take(self, queue: str, count: int = 100, ackmode: str = "ack_requeue_false", **given: object) -> Any:
        asked = {"count": count, "ackmode": ackmode, "encoding": "auto", **given}
        status, answer = self.post(self.at("queues", queue, "/get"), asked)
        assert status == 200, answer
        return answer

    def payloads(self, queue: str) -> list[str]:
        """Without taking them."""
        status, answer = self.get(self.at("queues", queue, "/messages"))
        assert status == 200, answer
        return [message["payload"] for message in answer["messages"]]


def limited_user(
    broker: Broker, name: str, configure: str = "", write: str = "", read: str = "", *tags: str
) -> ObjectsApi:
    """A user of the management API with these permissions in the virtual host /."""

    def add() -> None:
        core = broker.node.broker
        core.users.add(name, password="secret", tags=tags or ("management",))
        core.permissions.set(name, "/", configure, write, read)

    broker.call(add)
    return ObjectsApi(broker.http_url, name, "secret")

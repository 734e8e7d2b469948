"""The management's administration over HTTP, as a tool uses it: JSON out, JSON or nothing back."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from leveret import Broker
from tests.support.http_api import HttpApi, located

Reply = tuple[int, Any]


class ManagementApi:
    """One user at one broker. ``put``, ``post`` and ``delete`` give the status and what came with it, if anything."""

    def __init__(self, url: str, user: str = "guest", password: str = "guest") -> None:
        self.http = HttpApi(url, user, password)

    def get(self, path: str, **query: object) -> Reply:
        return self._ask("GET", path, None, query)

    def put(self, path: str, value: object = None) -> Reply:
        return self._ask("PUT", path, value, {})

    def post(self, path: str, value: object = None, **query: object) -> Reply:
        return self._ask("POST", path, value, query)

    def delete(self, path: str) -> Reply:
        return self._ask("DELETE", path, None, {})

    def _ask(self, method: str, path: str, value: object, query: dict[str, object]) -> Reply:
        body = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
        response, answer = self.http.send(method, f"/api/{located(path, query)}", body)
        return response.status, json.loads(answer) if answer else None


def as_guest(broker: Broker) -> ManagementApi:
    return ManagementApi(broker.http_url)


def as_user(broker: Broker, name: str, *tags: str, vhosts: tuple[str, ...] = ()) -> ManagementApi:
    """A user made in the process, with all permissions in these virtual hosts."""

    def add() -> None:
        broker.node.broker.users.add(name, password="secret", tags=tags)
        for vhost in vhosts:
            broker.node.broker.permissions.set(name, vhost, ".*", ".*", ".*")

    broker.call(add)
    return ManagementApi(broker.http_url, name, "secret")


def in_path(name: str) -> str:
    return quote(name, safe="")

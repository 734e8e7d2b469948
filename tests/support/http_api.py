"""The HTTP port as a client sees it: JSON and Arrow over ``http.client``."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

from leveret.config import Settings

QUIET = Settings(amqp_port=0, http_port=0, stomp_port=None, shutdown_timeout=0.5, login_failure_delay=0.0)
Answer = tuple[int, Any]


class HttpApi:
    """One user at one broker; each request has a connection of its own."""

    def __init__(self, url: str, user: str | None = "guest", password: str = "guest") -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port
        self.headers = {} if user is None else {"Authorization": basic(user, password)}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=60)

    def send(self, method: str, path: str, body: bytes | None = None) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, body=body, headers=self.headers)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def get(self, path: str, **query: object) -> Answer:
        return self._json("GET", path, query, None)

    def delete(self, path: str, **query: object) -> Answer:
        return self._json("DELETE", path, query, None)

    def put(self, path: str, value: object) -> Answer:
        return self._json("PUT", path, {}, json.dumps(value).encode())

    def post(self, path: str, value: object, **query: object) -> Answer:
        return self._json("POST", path, query, value if isinstance(value, bytes) else json.dumps(value).encode())

    def _json(self, method: str, path: str, query: dict[str, object], body: bytes | None) -> Answer:
        response, answer = self.send(method, located(path, query), body)
        assert response.getheader("content-type") == "application/json", answer
        return response.status, json.loads(answer)

    def table(self, path: str, **query: object) -> pa.Table:
        """An Arrow answer; what is in it is validated."""
        response, answer = self.send("GET", located(path, query))
        assert response.status == 200, answer
        assert response.getheader("content-type") == "application/vnd.apache.arrow.stream"
        table = pa.ipc.open_stream(pa.BufferReader(answer)).read_all()
        table.validate(full=True)
        return table

    def rows(self, path: str, **query: object) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table(path, **query).to_pylist()
        return rows


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def located(path: str, query: dict[str, object]) -> str:
    """``from_`` and the like stand for names that Python has taken."""
    named = {name.rstrip("_"): value for name, value in query.items()}
    return f"{path}?{urlencode(named, doseq=True)}" if named else path


def vhost_path(rest: str, vhost: str = "/") -> str:
    return f"/api/pipeline/{quote(vhost, safe='')}/{rest}"


def arrow_stream(
    *batches: pa.RecordBatch,
    options: pa.ipc.IpcWriteOptions | None = None,
    custom_metadata: dict[str, str] | None = None,
) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch, custom_metadata=custom_metadata)
    return sink.getvalue().to_pybytes()


def bodies(rows: Sequence[dict[str, Any]]) -> list[bytes]:
    return [row["body"] for row in rows]

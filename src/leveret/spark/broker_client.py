"""HTTP to a broker over one kept connection, patient with brokers that restart.

Every request may be sent again: reads change nothing, and what changes something is numbered (leases, stages, commits)
or promised at least once. So a broken connection, a silent broker and an alarm (503) are waited out, endpoint after
endpoint, for `retrySeconds` after the first failure. Any other answer is final.

One client belongs to one thread. It is made where it is used, never pickled: `Access` travels.
"""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa

from leveret.spark.options import Access, Endpoint
from leveret.spark.problems import BrokerRefused, BrokerUnreachable
from leveret.version import VERSION

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
# What a broker that goes away looks like, at any moment of a request or an answer.
BROKEN = (OSError, http.client.HTTPException)
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0

T = TypeVar("T")
Body = bytes | memoryview | None
Query = Mapping[str, object] | Sequence[tuple[str, object]]


class Patience:
    """How long failures are waited out. Time is counted from the first failure after the last success."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._wait = FIRST_WAIT

    def renew(self) -> None:
        self._until, self._wait = None, FIRST_WAIT

    def is_over(self) -> bool:
        """To be asked after each failure."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._seconds
        return now >= self._until

    def pause(self, at_least: float = 0.0) -> None:
        # Spread out, so that the tasks of a stage do not all come back at once.
        time.sleep(max(self._wait * random.uniform(0.5, 1.0), at_least))  # noqa: S311  # no secret
        self._wait = min(self._wait * 2, LONGEST_WAIT)


class BrokerClient:
    """A virtual host of a broker, as the pipeline's part of its HTTP API shows it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._headers = {
            "Authorization": access.secret.authorization(access.username),
            "User-Agent": f"leveret-spark/{VERSION}",
        }
        self._connection: http.client.HTTPConnection | None = None
        self._turn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, query: Query = ()) -> dict[str, object]:
        return self._answer("GET", path, query, None, JSON)

    def post(self, path: str, value: object, query: Query = ()) -> dict[str, object]:
        return self._answer("POST", path, query, json.dumps(value).encode(), JSON)

    def put(self, path: str, value: object) -> dict[str, object]:
        return self._answer("PUT", path, (), json.dumps(value).encode(), JSON)

    def delete(self, path: str, query: Query = ()) -> dict[str, object]:
        return self._answer("DELETE", path, query, None, JSON)

    def send_arrow(self, path: str, query: Query, stream: memoryview) -> dict[str, object]:
        return self._answer("POST", path, query, stream, ARROW)

    def arrow(self, path: str, query: Query) -> Iterator[pa.RecordBatch]:
        """The batches of an answer as they come. A connection that breaks in between raises one of BROKEN."""
        response = self._success("GET", path, query, None, ARROW, lambda opened: opened)
        finished = False
        try:
            with pa.ipc.open_stream(pa.PythonFile(response, mode="r")) as batches:
                yield from batches
            finished = not response.read()
        finally:
            if not finished:
                self.close()

    def _answer(self, method: str, path: str, query: Query, body: Body, kind: str) -> dict[str, object]:
        return self._success(method, path, query, body, kind, lambda response: _json_of(response.read()))

    def _success(
        self, method: str, path: str, query: Query, body: Body, kind: str, use: Callable[[http.client.HTTPResponse], T]
    ) -> T:
        """What `use` makes of an answer that says yes."""
        target = self._target(path, query)
        patience = Patience(self._access.retry_seconds)
        while True:
            try:
                response = self._send(method, target, body, kind)
                if response.status < 300:
                    return use(response)
                refusal = BrokerRefused(f"{method} {path}", response.status, _json_of(response.read()))
            except BROKEN as error:
                self._next_endpoint()
                if patience.is_over():
                    raise self._unreachable(error) from error
                patience.pause()
                continue
            if response.status != http.HTTPStatus.SERVICE_UNAVAILABLE or patience.is_over():
                raise refusal
            patience.pause(_seconds(response.getheader("Retry-After")))

    def _send(self, method: str, target: str, body: Body, kind: str) -> http.client.HTTPResponse:
        fresh = self._connection is None
        headers = self._headers | ({"Content-Type": kind} if body is not None else {})
        try:
            connection = self._connected()
            connection.request(method, target, body, headers)
            return connection.getresponse()
        except BROKEN:
            self.close()
            if fresh:
                raise
        # A kept connection may have been closed by the broker in the meantime: that says nothing about the broker.
        return self._send(method, target, body, kind)

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            self._connection = _connection_to(self._endpoint, self._access.timeout_seconds)
        return self._connection

    @property
    def _endpoint(self) -> Endpoint:
        return self._access.endpoints[self._turn % len(self._access.endpoints)]

    def _next_endpoint(self) -> None:
        self.close()
        self._turn += 1

    def _target(self, path: str, query: Query) -> str:
        """A path that begins with a slash is the broker's; any other belongs to the virtual host."""
        whole = f"/api/pipeline{path}" if path.startswith("/") else f"/api/pipeline/{self._vhost}/{path}"
        return f"{whole}?{urlencode(query)}" if query else whole

    @property
    def _vhost(self) -> str:
        return quote(self._access.vhost, safe="")

    def _unreachable(self, error: Exception) -> BrokerUnreachable:
        places = ", ".join(str(endpoint) for endpoint in self._access.endpoints)
        return BrokerUnreachable(
            f"no answer from {places} for {self._access.retry_seconds} seconds "
            f"({type(error).__name__}: {error}); is the broker running with its HTTP port on, and the option endpoint "
            "right? timeoutSeconds and retrySeconds say how long to wait"
        )


def _connection_to(endpoint: Endpoint, seconds: float) -> http.client.HTTPConnection:
    if endpoint.scheme == "https":
        return http.client.HTTPSConnection(endpoint.host, endpoint.port, timeout=seconds)
    return http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=seconds)


def _json_of(text: bytes) -> dict[str, object]:
    try:
        value = json.loads(text or b"{}")
    except ValueError:
        # Whoever answers is no broker of ours, or a proxy before it.
        return {"reason": text[:200].decode("utf-8", "replace")}
    return value if isinstance(value, dict) else {"reason": str(value)[:200]}


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 0.0

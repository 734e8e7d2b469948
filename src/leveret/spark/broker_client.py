"""The HTTP client of Spark's processes: one kept connection, and retries while the broker restarts.

Every request can be repeated: reads change nothing, and writes are numbered (leases, stages, commits) or only promised
at least once. So broken connections, timeouts and alarms (503) are retried, endpoint after endpoint, for `retrySeconds`
after the first failure. Any other response is final.

A client belongs to one thread. It is created where it is used and never pickled; `Access` is.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode

import pyarrow as pa

from leveret.http_client import BROKEN, Body, HttpConnection, Response
from leveret.spark.errors import BrokerRefused, BrokerUnreachable
from leveret.spark.options import Access, Endpoint
from leveret.version import VERSION

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0

T = TypeVar("T")
Query = Mapping[str, object] | Sequence[tuple[str, object]]


class Patience:
    """How long to retry. The time counts from the first failure after the last success."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._wait = FIRST_WAIT

    def renew(self) -> None:
        self._until, self._wait = None, FIRST_WAIT

    def is_over(self) -> bool:
        """To be called after each failure."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._seconds
        return now >= self._until

    def pause(self, at_least: float = 0.0) -> None:
        # With jitter, so that the tasks of a stage do not all retry at the same time.
        time.sleep(max(self._wait * random.uniform(0.5, 1.0), at_least))  # noqa: S311  # not a secret
        self._wait = min(self._wait * 2, LONGEST_WAIT)


class BrokerClient:
    """The pipeline endpoints of one virtual host."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._headers = {
            "Authorization": access.secret.authorization(access.username),
            "User-Agent": f"leveret-spark/{VERSION}",
        }
        self._connection: HttpConnection | None = None
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
        """The batches of a response as they arrive. A connection that breaks raises one of BROKEN."""
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

    def _success(self, method: str, path: str, query: Query, body: Body, kind: str, use: Callable[[Response], T]) -> T:
        """The result of `use` for a successful response."""
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
            if response.status != HTTPStatus.SERVICE_UNAVAILABLE or patience.is_over():
                raise refusal
            patience.pause(_seconds(response.getheader("Retry-After")))

    def _send(self, method: str, target: str, body: Body, kind: str) -> Response:
        headers = self._headers | ({"Content-Type": kind} if body is not None else {})
        if self._connection is None:
            place = self._endpoint
            self._connection = HttpConnection(place.scheme, place.host, place.port, self._access.timeout_seconds)
        return self._connection.send(method, target, body, headers)

    @property
    def _endpoint(self) -> Endpoint:
        return self._access.endpoints[self._turn % len(self._access.endpoints)]

    def _next_endpoint(self) -> None:
        self.close()
        self._turn += 1

    def _target(self, path: str, query: Query) -> str:
        """A path that starts with a slash is global; any other belongs to the virtual host."""
        whole = f"/api/pipeline{path}" if path.startswith("/") else f"/api/pipeline/{self._vhost}/{path}"
        return f"{whole}?{urlencode(query)}" if query else whole

    @property
    def _vhost(self) -> str:
        return quote(self._access.vhost, safe="")

    def _unreachable(self, error: Exception) -> BrokerUnreachable:
        places = ", ".join(str(endpoint) for endpoint in self._access.endpoints)
        return BrokerUnreachable(
            f"no answer from {places} for {self._access.retry_seconds} seconds "
            f"({type(error).__name__}: {error}): check that the broker runs with its HTTP port on and that the "
            "option endpoint is right; timeoutSeconds and retrySeconds set how long to wait"
        )


def _json_of(text: bytes) -> dict[str, object]:
    try:
        value = json.loads(text or b"{}")
    except ValueError:
        # The response of another server, or of a proxy.
        return {"reason": text[:200].decode("utf-8", "replace")}
    return value if isinstance(value, dict) else {"reason": str(value)[:200]}


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 0.0

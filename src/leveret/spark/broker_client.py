"""The HTTP client of Spark's processes: one kept connection, and retries while the broker restarts.

Every request can be repeated: reads change nothing, and writes are numbered (leases, stages, commits) or only promised
at least once. So broken connections, timeouts and 503 (an alarm, no leader, a cell that is away) are retried, endpoint
after endpoint, for `retrySeconds` after the first failure. Any other response is final. A process remembers which of
several endpoints worked last and begins with it.

In a cluster of several cells, messages are read from the home cell of their queue. Every endpoint passes requests on to
the home cell, so the direct way only saves a step: whatever goes wrong there, the endpoints are asked next, and for a
while all requests of this process go to them.

A client belongs to one thread. It is created where it is used and never pickled; `Access` is.
"""

from __future__ import annotations

import json
import logging
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
from leveret.spark.options import Access, Endpoint, Home
from leveret.version import VERSION

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
CONNECT_SECONDS = 5  # if there are other endpoints to try
IDENTITY = "Leveret-Cell"
LARGE_READ = 4096  # bytes
AVOIDED_SECONDS = 10.0  # that requests do not go to a home cell after a failure

_preferred: dict[tuple[Endpoint, ...], int] = {}  # the place of the endpoint that worked last
_avoided: dict[Home, float] = {}  # home cells that failed, and until when they are not asked

log = logging.getLogger(__name__)
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


class Waits:
    """The time that requests had to wait for the broker, by reason: an alarm, a restart, too many uploads."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._current = 0.0  # seconds since the last success

    def add(self, reason: str, seconds: float) -> None:
        if not self._current:
            log.warning("waiting for the broker: %s", reason)
        self._current += seconds
        self.seconds[reason] = self.seconds.get(reason, 0.0) + seconds

    def end(self) -> None:
        """A request was answered."""
        if self._current:
            log.warning("waited %.1f s for the broker: %s", self._current, "; ".join(self.seconds))
            self._current = 0.0


class ArrowSource:
    """The body of a response as a file for Arrow, which reads it without copying it again.

    The end is found by reading one more byte: only this raises an error if the connection was cut off.
    """

    def __init__(self, response: Response) -> None:
        self._response = response
        self._ahead = b""
        self.closed = False

    def is_at_end(self) -> bool:
        self._ahead = self._ahead or self._response.read(1)
        return not self._ahead

    def read(self, size: int) -> bytes | pa.Buffer:
        ahead, self._ahead = self._ahead, b""
        if size < LARGE_READ:
            return ahead + self._response.read(size - len(ahead))
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer).cast("B")
        view[: len(ahead)] = ahead
        got = len(ahead) + self._response.readinto(view[len(ahead) :])
        return buffer if got == size else buffer.slice(0, got)

    def close(self) -> None:
        self.closed = True


class BrokerClient:
    """The pipeline endpoints of one virtual host. ``home``: the cell to ask first."""

    def __init__(self, access: Access, home: Home | None = None) -> None:
        self._access = access
        is_avoided = home is not None and _avoided.get(home, 0.0) > time.monotonic()
        self._home = home if access.direct and not is_avoided else None
        self._headers = {
            "Authorization": access.secret.authorization(access.username),
            "User-Agent": f"leveret-spark/{VERSION}",
        }
        self.waits = Waits()
        self._connection: HttpConnection | None = None
        self._turn = _preferred.get(access.endpoints, 0)

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
            source = ArrowSource(response)
            while not source.is_at_end():  # a stream ends where the columns that are constant change
                with pa.ipc.open_stream(pa.PythonFile(source, mode="r")) as batches:
                    yield from batches
            finished = True
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
            begun = time.monotonic()
            try:
                response = self._send(method, target, body, kind)
                if self._home is not None and not _is_from(self._home, response):
                    self._leave_home()
                    continue
                if response.status < 300:
                    self._remember()
                    self.waits.end()
                    return use(response)
                refusal = BrokerRefused(f"{method} {path}", response.status, _json_of(response.read()))
            except BROKEN as error:
                if self._home is not None:
                    self._leave_home()
                    continue
                self._next_endpoint()
                if patience.is_over():
                    raise self._unreachable(error) from error
                patience.pause()
                self.waits.add(f"no answer ({type(error).__name__})", time.monotonic() - begun)
                continue
            if response.status != HTTPStatus.SERVICE_UNAVAILABLE or patience.is_over():
                raise refusal
            if len(self._access.endpoints) > 1:
                self._next_endpoint()
            patience.pause(_seconds(response.getheader("Retry-After")))
            self.waits.add(refusal.reason, time.monotonic() - begun)

    def _send(self, method: str, target: str, body: Body, kind: str) -> Response:
        headers = self._headers | ({"Content-Type": kind} if body is not None else {})
        if self._home is not None:
            headers[IDENTITY] = self._home.identity
        if self._connection is None:
            place = self._endpoint
            is_only = self._home is None and len(self._access.endpoints) == 1
            self._connection = HttpConnection(
                place.scheme,
                place.host,
                place.port,
                self._access.timeout_seconds,
                connect_seconds=None if is_only else CONNECT_SECONDS,
            )
        return self._connection.send(method, target, body, headers)

    @property
    def _endpoint(self) -> Endpoint:
        if self._home is not None:
            return self._home.endpoint
        return self._access.endpoints[self._turn % len(self._access.endpoints)]

    def _remember(self) -> None:
        if self._home is None:
            _preferred[self._access.endpoints] = self._turn % len(self._access.endpoints)

    def _next_endpoint(self) -> None:
        self.close()
        self._turn += 1

    def _leave_home(self) -> None:
        assert self._home is not None
        _avoided[self._home] = time.monotonic() + AVOIDED_SECONDS
        self._home = None
        self.close()

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


def _is_from(home: Home, response: Response) -> bool:
    """Whether a home cell has answered. Errors do not count: the endpoints are asked as well. So it does not matter if
    something else listens at its address."""
    return response.status < 300 and response.getheader(IDENTITY) == home.identity


def _json_of(text: bytes) -> dict[str, object]:
    try:
        value = json.loads(text or b"{}")
    except ValueError:
        # The response of another server, or of a proxy.
        return {"reason": text[:200].decode("utf-8", "replace")}
    return value if isinstance(value, dict) else {"reason": str(value)[:200]}


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 0.0

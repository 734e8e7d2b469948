"""Connections to the servers of the engine, NATS JetStream, by its own client.

A connection is to one server and never moves to another by itself: code that loses it opens the next one, and knows
then that what was under way may have arrived or not. nats-py's own reconnection is off, as it would send again what
waited in its buffer, and waits for a server that does not read.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from leveret.cluster.engine_login import NO_LOGIN, EngineLogin
from leveret.errors import ClusterError
from leveret.logs import get_log

CONNECT_SECONDS = 2.0
REQUEST_SECONDS = 2.0
CLOSE_SECONDS = 1.0
PING_SECONDS = 2  # between pings; the second one without an answer ends the connection
PAUSE = 0.1
CONNECT_OPTIONS: dict[str, Any] = {
    "allow_reconnect": False,
    "max_reconnect_attempts": 1,  # also counts for the first connection: two tries
    "reconnect_time_wait": 0,
    "connect_timeout": int(CONNECT_SECONDS),
    "ping_interval": PING_SECONDS,
    "max_outstanding_pings": 2,
}
MOST_PENDING = 256 << 20  # bytes received and not handled yet; the engine sends less
NO_MESSAGE = 10037
WRONG_SEQUENCE = frozenset((10071, 10164))
STREAM_EXISTS = frozenset((10058, 10065))
NO_STREAM = 10059
NO_PEERS = 10005  # not enough servers, or not enough space on them

T = TypeVar("T")

log = get_log("cluster")


class EngineUnavailable(Exception):
    """No answer: the request may have been done or not."""


class LoginProblem(EngineUnavailable):
    """A server refuses this login, or cannot be trusted: another attempt does not help, a change does."""


class EngineRefusal(Exception):
    """The engine answered with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (error {code} of the engine)")
        self.code = code


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """``urls``: of NATS. ``monitoring``: the HTTP addresses of the servers, for their configuration; by default port
    8222 of each server. ``is_unsafe_allowed``: for development, accept fewer servers and ones that may lose data."""

    urls: tuple[str, ...]
    monitoring: tuple[str, ...] = ()
    is_unsafe_allowed: bool = False
    login: EngineLogin = NO_LOGIN

    @property
    def monitoring_urls(self) -> tuple[str, ...]:
        return self.monitoring or tuple(f"http://{urlsplit(url).hostname}:8222" for url in self.urls)

    @property
    def replicas(self) -> int:
        return 3 if len(self.urls) >= 3 else 1


class Engine:
    def __init__(self, options: EngineOptions, name: str) -> None:
        """``name`` is shown by the engine's monitoring."""
        self.options = options
        self._name = name
        self._next = 0

    async def connect(self) -> EngineConnection:
        """To the next server that can be reached, starting behind the one of the last call. Raises LoginProblem if no
        server can be used, and one for this reason."""
        problems, kind = [], EngineUnavailable
        for _ in self.options.urls:
            url = self.options.urls[self._next % len(self.options.urls)]
            self._next += 1
            try:
                return await EngineConnection.open(url, self._name, self.options.login)
            except EngineUnavailable as problem:
                problems.append(f"{url}: {problem}")
                kind = LoginProblem if isinstance(problem, LoginProblem) else kind
        raise kind("; ".join(problems))

    async def connect_within(self, seconds: float) -> EngineConnection:
        """Raises ClusterError when no server can be reached in that time, and at once when the login is refused."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            try:
                return await self.connect()
            except LoginProblem as problem:
                raise ClusterError(f"cannot log in to the engine: {problem}") from problem
            except EngineUnavailable as problem:
                if loop.time() >= deadline:
                    raise ClusterError(
                        f"no server of the engine can be reached ({problem}): start the NATS servers, or correct their "
                        "addresses"
                    ) from problem
            await asyncio.sleep(PAUSE)

    async def perform(self, job: Callable[[EngineConnection], Awaitable[T]], seconds: float) -> T:
        """Do a job on a connection; again on the next one while the engine does not answer, as during its elections. So
        it may be done twice. Raises ClusterError when it is not answered in that time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            connection = await self.connect_within(deadline - loop.time())
            try:
                return await job(connection)
            except EngineUnavailable as problem:
                if loop.time() >= deadline:
                    raise ClusterError(f"the engine does not answer ({problem}): check the NATS servers") from problem
            finally:
                await connection.close()
            await asyncio.sleep(PAUSE)


class EngineConnection:
    def __init__(self, client: Client, url: str) -> None:
        """Use ``open``."""
        self.url = url
        self.lost = asyncio.Event()
        self._client = client

    @classmethod
    async def open(cls, url: str, name: str, login: EngineLogin = NO_LOGIN) -> EngineConnection:
        try:
            login_options = login.connect_options(url)
        except (OSError, ModuleNotFoundError) as problem:
            raise LoginProblem(f"{problem}: {login.remedy(problem)}") from problem
        client = login.client(url)
        connection = cls(client, url)
        reasons: list[Exception] = []

        async def report(problem: Exception) -> None:
            reasons[:] = [problem]
            log.debug("connection to the engine", server=url, problem=repr(problem))

        async def closed() -> None:
            connection.lost.set()

        try:
            await asyncio.wait_for(
                client.connect(
                    url,
                    name=name,
                    error_cb=report,
                    closed_cb=closed,
                    **CONNECT_OPTIONS,
                    **login_options,
                ),
                CONNECT_SECONDS,
            )
        except (NatsError, OSError, TimeoutError) as problem:
            await connection.close()
            reason = reasons[0] if reasons else problem
            text, remedy = str(reason) or type(reason).__name__, login.remedy(reason)
            raise EngineUnavailable(text) if remedy is None else LoginProblem(f"{text}: {remedy}") from problem
        except asyncio.CancelledError:
            connection._abort()
            raise
        return connection

    @property
    def server(self) -> str:
        """The name of the server."""
        return str(self._client._server_info.get("server_name", ""))

    @property
    def max_payload(self) -> int:
        return self._client.max_payload

    async def request(self, subject: str, body: object = None, seconds: float = REQUEST_SECONDS) -> Any:
        """Ask the engine's API. Raises EngineRefusal or EngineUnavailable."""
        payload = b"" if body is None else msgspec.json.encode(body)
        return decode_answer(await self._ask(subject, payload, None, seconds))

    async def append(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> int:
        """Append one message, and return the sequence at which it is stored."""
        answer = decode_answer(await self._ask(subject, payload, dict(headers), REQUEST_SECONDS))
        return int(answer["seq"])

    async def _ask(self, subject: str, payload: bytes, headers: dict[str, str] | None, seconds: float) -> Msg:
        try:
            return await self._client.request(subject, payload, timeout=seconds, headers=headers)
        except (NatsError, OSError, TimeoutError) as problem:
            raise EngineUnavailable(str(problem) or type(problem).__name__) from problem

    async def read(self, stream: str, sequence: int) -> bytes | None:
        """The message of a stream with this sequence, None if there is none."""
        try:
            answer = await self.request(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": sequence})
        except EngineRefusal as refusal:
            if refusal.code == NO_MESSAGE:
                return None
            raise
        return base64.b64decode(answer["message"].get("data", ""))

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Without waiting for an answer, which goes to ``reply``."""
        try:
            await self._client.publish(subject, payload, reply, headers=dict(headers) if headers else None)
        except (NatsError, OSError) as problem:
            raise EngineUnavailable(str(problem) or type(problem).__name__) from problem

    async def receive(self, subject: str, call: Callable[[Msg], Awaitable[None]]) -> None:
        """Pass each message of this subject to ``call``, one after the other."""

        async def received(message: Msg) -> None:
            await call(message)

        try:
            await self._client.subscribe(subject, cb=received, pending_bytes_limit=MOST_PENDING)
        except (NatsError, OSError) as problem:
            raise EngineUnavailable(str(problem) or type(problem).__name__) from problem

    def new_inbox(self) -> str:
        return self._client.new_inbox()

    async def close(self) -> None:
        """Without waiting for long: the server may not read what is still to be written."""
        self.lost.set()
        try:
            await asyncio.wait_for(self._client.close(), CLOSE_SECONDS)
        except (NatsError, OSError, TimeoutError) as problem:
            log.debug("connection to the engine not closed", server=self.url, problem=repr(problem))
        finally:
            self._abort()

    def _abort(self) -> None:
        """Close the socket at once: nats-py leaves it open if its own close or connect is interrupted."""
        writer = getattr(self._client._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task that uses connections, and wait for its end. nats-py swallows a cancellation that reaches it while
    it flushes, so once may not be enough."""
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=PAUSE)


def decode_answer(message: Msg) -> Any:
    """The answer of the engine's API, or to an append."""
    if not message.data:
        status = (message.headers or {}).get("Status", "")
        raise EngineUnavailable("the engine has no leader" if status == "503" else "empty answer")
    answer = msgspec.json.decode(message.data)
    error = answer.get("error")
    if error is not None:
        if error.get("code") == 503:  # no leader, or it is not ready
            raise EngineUnavailable(error.get("description", "not available"))
        raise EngineRefusal(error.get("err_code", 0), error.get("description", "refused"))
    return answer

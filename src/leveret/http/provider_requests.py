"""Requests to the identity provider: in threads, with limits on time and size, verified TLS, and without redirects.

Clients that have not logged in cause them. So they wait as logins with a password do (server/logins.py): in a queue per
source address, served round-robin, sources with failed logins less often. If too many wait, the last one of the longest
queue is refused. The requests for the configuration and the keys, which all logins need, have a queue of their own.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from leveret.errors import ConfigError
from leveret.http.bodies import decode_object
from leveret.http.errors import BadRequest, Busy, ProviderFailed
from leveret.http_client import BROKEN, HttpConnection
from leveret.server.logins import FailedSources, LoginPeer, LoginQueue
from leveret.setting_kinds import is_provider_url

THREADS = 2
MOST_WAITING = 20  # requests, besides those in progress
OPERATION_SECONDS = 5.0  # connecting, or waiting for the next bytes
SECONDS = 10.0  # for a whole request, the wait for a thread included
LARGEST_REPLY = 256 << 10
PORTS = {"http": 80, "https": 443}

TOO_MANY = "too many logins with single sign-on at once: try again in a few seconds"
OWN = ""  # the source of requests that all logins need

Json = dict[str, Any]
Reply = tuple[int, bytes]


@dataclass(slots=True, eq=False)
class ProviderRequest:
    peer: LoginPeer | None
    exchange: Callable[[], Reply]
    reply: asyncio.Future[Reply]
    is_sent: bool = False

    @property
    def source(self) -> str:
        return OWN if self.peer is None else self.peer.source


class ProviderRequests:
    """``close`` abandons requests in progress."""

    def __init__(self, tls_ca: Path | None = None) -> None:
        """``tls_ca``: CA certificates, instead of those of the system. Raises ConfigError."""
        try:
            self._tls = ssl.create_default_context(cafile=tls_ca)
        except OSError as problem:
            raise ConfigError(f"oidc_tls_ca = '{tls_ca}' cannot be read as CA certificates (PEM): {problem}") from None
        self._pool: ThreadPoolExecutor | None = None
        self._failed = FailedSources()
        self._queue: LoginQueue[ProviderRequest] = LoginQueue(self._failed)
        self._running = 0  # threads

    async def get(self, url: str) -> Json:
        """The JSON object at the URL, which all logins need. Raises ProviderFailed."""
        status, document = await self._send("GET", url, None, {}, None)
        if status != 200:
            raise ProviderFailed(f"{url} was answered with status {status}")
        return document

    async def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str], peer: LoginPeer
    ) -> tuple[int, Json]:
        """``peer``: the client whose login needs the request."""
        body = urlencode(form).encode()
        return await self._send(
            "POST", url, body, {"Content-Type": "application/x-www-form-urlencoded", **headers}, peer
        )

    def note_failure(self, peer: LoginPeer) -> None:
        """The provider did not confirm a login of this client."""
        self._failed.note(peer.source, asyncio.get_running_loop().time())

    async def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], peer: LoginPeer | None
    ) -> tuple[int, Json]:
        if not is_provider_url(url):
            raise ProviderFailed("one of its URLs has neither https nor http on this machine")
        exchange = partial(self._exchange, method, url, body, headers)
        request = ProviderRequest(peer, exchange, asyncio.get_running_loop().create_future())
        refused = self._queue.join(request, MOST_WAITING)
        if refused is not None and not refused.reply.done():
            refused.reply.set_exception(Busy(TOO_MANY))
        self._serve()
        try:
            async with asyncio.timeout(SECONDS):
                status, reply = await request.reply
        except TimeoutError:
            if not request.is_sent:
                raise Busy(TOO_MANY) from None
            raise ProviderFailed(f"{url} was not answered in time") from None
        except BROKEN as problem:
            raise ProviderFailed(f"{url} cannot be reached: {problem}") from None
        return status, _decoded(url, status, reply)

    def _serve(self) -> None:
        """Send the next requests while threads are idle."""
        loop = asyncio.get_running_loop()
        while self._running < THREADS and (request := self._queue.next(loop.time())) is not None:
            if request.reply.done():  # it has waited too long
                continue
            if request.peer is not None and request.peer.is_gone():
                request.reply.set_exception(Busy("the client has closed the connection"))
                continue
            if self._pool is None:
                self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="leveret-provider")
            self._running += 1
            request.is_sent = True
            self._pool.submit(request.exchange).add_done_callback(partial(self._exchanged, loop, request))

    def _exchanged(self, loop: asyncio.AbstractEventLoop, request: ProviderRequest, result: Future[Reply]) -> None:
        """Runs in the thread of the request."""
        if not result.cancelled() and not loop.is_closed():
            loop.call_soon_threadsafe(self._back_on_loop, request, result)

    def _back_on_loop(self, request: ProviderRequest, result: Future[Reply]) -> None:
        self._running -= 1
        error = result.exception()
        if request.reply.done():  # not answered in time
            pass
        elif error is not None:
            request.reply.set_exception(error)
        else:
            request.reply.set_result(result.result())
        self._serve()

    def _exchange(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        """Runs in a thread."""
        parts, deadline = urlsplit(url), time.monotonic() + SECONDS
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        connection = HttpConnection(parts.scheme, host, port, OPERATION_SECONDS, self._tls)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            with connection.send(method, target, body, {"Accept": "application/json", **headers}) as response:
                reply = bytearray()
                while part := response.read1(LARGEST_REPLY):
                    reply += part
                    if len(reply) > LARGEST_REPLY:
                        raise ProviderFailed(f"the response of {url} is larger than {LARGEST_REPLY} bytes")
                    if time.monotonic() > deadline:
                        raise ProviderFailed(f"{url} was not answered in time")
                return response.status, bytes(reply)
        finally:
            connection.close()

    def close(self) -> None:
        self._queue = LoginQueue(self._failed)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _decoded(url: str, status: int, reply: bytes) -> Json:
    try:
        return decode_object(reply, "the response")
    except BadRequest:
        raise ProviderFailed(f"the response of {url} (status {status}) is not a JSON object") from None

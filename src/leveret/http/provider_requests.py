"""Requests to the identity provider: in threads, with limits on time and size, verified TLS, and without redirects."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from leveret.errors import ConfigError
from leveret.http.bodies import decode_object
from leveret.http.errors import BadRequest, Busy, ProviderFailed
from leveret.http_client import BROKEN, HttpConnection
from leveret.setting_kinds import is_provider_url

THREADS = 2
MOST_WAITING = 20  # requests, those in progress included
OPERATION_SECONDS = 5.0  # connecting, or waiting for the next bytes
SECONDS = 10.0  # for a whole request
LARGEST_REPLY = 256 << 10
PORTS = {"http": 80, "https": 443}

Json = dict[str, Any]


class ProviderRequests:
    """``close`` abandons requests in progress."""

    def __init__(self, tls_ca: Path | None = None) -> None:
        """``tls_ca``: CA certificates, instead of those of the system. Raises ConfigError."""
        try:
            self._tls = ssl.create_default_context(cafile=tls_ca)
        except OSError as problem:
            raise ConfigError(f"oidc_tls_ca = '{tls_ca}' cannot be read as CA certificates (PEM): {problem}") from None
        self._pool: ThreadPoolExecutor | None = None
        self._waiting = 0

    async def get(self, url: str) -> Json:
        """The JSON object at the URL. Raises ProviderFailed."""
        status, document = await self._send("GET", url, None, {})
        if status != 200:
            raise ProviderFailed(f"{url} was answered with status {status}")
        return document

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, Json]:
        body = urlencode(form).encode()
        return await self._send("POST", url, body, {"Content-Type": "application/x-www-form-urlencoded", **headers})

    async def _send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, Json]:
        if not is_provider_url(url):
            raise ProviderFailed("one of its URLs has neither https nor http on this machine")
        if self._waiting >= MOST_WAITING:
            raise Busy("too many logins with single sign-on at once: try again in a few seconds")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="leveret-provider")
        self._waiting += 1
        try:
            async with asyncio.timeout(SECONDS):
                loop = asyncio.get_running_loop()
                status, reply = await loop.run_in_executor(self._pool, self._exchange, method, url, body, headers)
        except TimeoutError:
            raise ProviderFailed(f"{url} was not answered in time") from None
        except BROKEN as problem:
            raise ProviderFailed(f"{url} cannot be reached: {problem}") from None
        finally:
            self._waiting -= 1
        return status, _decoded(url, status, reply)

    def _exchange(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Runs in a thread."""
        parts, deadline = urlsplit(url), time.monotonic() + SECONDS
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        connection = HttpConnection(parts.scheme, host, port, OPERATION_SECONDS, self._tls)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            response = connection.send(method, target, body, {"Accept": "application/json", **headers})
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
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _decoded(url: str, status: int, reply: bytes) -> Json:
    try:
        return decode_object(reply, "the response")
    except BadRequest:
        raise ProviderFailed(f"the response of {url} (status {status}) is not a JSON object") from None

"""A small blocking HTTP client for the broker's HTTP port, shared by the command line and Spark.

It does not follow redirects and does not use proxies. A connection belongs to one thread and cannot be pickled.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping

# Raised when the broker disconnects, at any point of a request or response.
BROKEN = (OSError, http.client.HTTPException)
Body = bytes | memoryview | None
Response = http.client.HTTPResponse


class HttpConnection:
    """Connects with the first request, and keeps the connection for the next ones."""

    def __init__(
        self,
        scheme: str,
        host: str,
        port: int,
        seconds: float,
        tls: ssl.SSLContext | None = None,
        *,
        connect_seconds: float | None = None,
    ) -> None:
        """``seconds``: the timeout of each operation; ``connect_seconds``: that of connecting, if it differs; ``tls``:
        for https, None for the defaults of the system."""
        connecting = seconds if connect_seconds is None else min(seconds, connect_seconds)
        self._connection = (
            http.client.HTTPSConnection(host, port, timeout=connecting, context=tls)
            if scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=connecting)
        )
        self._seconds = seconds
        self._is_reused = False

    def send(self, method: str, target: str, body: Body, headers: Mapping[str, str]) -> Response:
        """The response, whose body is still to be read. Raises one of BROKEN."""
        while True:
            is_reused, self._is_reused = self._is_reused, True
            try:
                if self._connection.sock is None:
                    self._connect()
                self._connection.request(method, target, body, dict(headers))
                return self._connection.getresponse()
            except BROKEN:
                self.close()
                if not is_reused:
                    raise
            # The broker may have closed a kept connection in the meantime: try once more with a new one.

    def _connect(self) -> None:
        self._connection.connect()
        self._connection.sock.settimeout(self._seconds)

    def close(self) -> None:
        self._connection.close()
        self._is_reused = False

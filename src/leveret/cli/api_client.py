"""The client of the broker's HTTP API: a path, a query, JSON in both directions.

Every error is a CommandProblem: one line for the user, and the exit code of the command.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from leveret.cli.remedies import not_found, only_leveret, with_command
from leveret.errors import LeveretError
from leveret.http_client import BROKEN, HttpConnection

Row = dict[str, Any]
Query = Mapping[str, object]

SECONDS = 60.0  # timeout of a request; an import of definitions uses a longer one
PORTS = {"http": 15672, "https": 15671}
MISSING_NODES = "X-Leveret-Missing-Nodes"  # header of an incomplete response
BYTES = "surrogateescape"  # arguments that are not UTF-8 are sent as their bytes
MOST_SHOWN = 200  # characters of a response that is not JSON
ACCEPTED = "application/json, */*;q=0.1"  # RabbitMQ refuses a purge if only JSON is accepted
NOT_SUPPORTED = (400, 404, 405, 406)  # RabbitMQ's responses, with an empty body, for unknown paths
READY = "/health/ready"
BAD_LOGIN = re.compile(
    "login|credentials", re.IGNORECASE
)  # of Leveret: "invalid credentials"; of RabbitMQ: "Login failed"
WITHOUT_PROBE = (401, *NOT_SUPPORTED)  # responses of RabbitMQ, and of proxies that pass on only /api, to READY
UNAVAILABLE = 503


class CommandProblem(LeveretError):
    """An error message that names the object, the cause and the remedy."""

    exit_code: ClassVar[int] = 1


class Refusal(CommandProblem):
    """The broker refused the request."""

    def __init__(self, text: str, status: int = 0, answer: Row | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.answer = answer or {}


class NotSupported(Refusal):
    """The broker is RabbitMQ, or an older Leveret: it does not have what the command needs."""


class Misuse(CommandProblem):
    """Invalid arguments, options or input files."""

    exit_code = 2


class NotReachable(CommandProblem):
    """No response, or a response that is not from a broker."""

    exit_code = 3


class Address(NamedTuple):
    scheme: str
    host: str
    port: int
    prefix: str = ""  # prefix of all paths

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def address_of(url: str, source: str) -> Address:
    """The parts of a URL; ``source``: the option or context that gave it, for errors."""
    if "@" in url:  # checked first: any other error would print the password
        raise Misuse(
            f"the URL from {source} contains a user name or password, which other users of this machine can read: use "
            "--username, and LEVERET_PASSWORD or --password-file"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise Misuse(f"invalid URL {url!r} (from {source}): {problem}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise Misuse(f"invalid URL {url!r} (from {source}): write it as http://HOST:PORT or https://HOST:PORT")
    if parts.query or parts.fragment:
        raise Misuse(f"invalid URL {url!r} (from {source}): remove the query and fragment")
    return Address(parts.scheme, parts.hostname, port or PORTS[parts.scheme], parts.path.rstrip("/"))


class Login(NamedTuple):
    """Address and credentials of a broker, and the default virtual host."""

    address: Address
    username: str
    password: Callable[[], str]
    vhost: str | None = None
    ca_file: str | None = None


class Answer(NamedTuple):
    """``date``: the Date header, that is, the broker's clock."""

    status: int
    body: bytes
    url: str
    date: str | None = None

    @property
    def value(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise NotReachable(_not_json(self.url, self.body)) from None

    @property
    def rows(self) -> list[Row]:
        found: list[Row] = self.value
        return found


class Api:
    """One user at one broker. The password is read at the first request.

    Each request opens a connection: the broker closes connections that are idle while the user answers a prompt.
    """

    def __init__(self, login: Login) -> None:
        self.address = login.address
        self.username = login.username
        self.vhost = login.vhost
        self._ask_password = login.password
        self.ca_file = login.ca_file
        self._missing = ""  # nodes that did not answer the broker, as last reported

    def get(self, *path: str, query: Query | None = None) -> Answer:
        return self.send("GET", path, query)

    def put(self, *path: str, value: object) -> Answer:
        return self.send("PUT", path, value=value)

    def post(self, *path: str, value: object, query: Query | None = None, seconds: float = SECONDS) -> Answer:
        return self.send("POST", path, query, value, seconds)

    def delete(self, *path: str, query: Query | None = None, reason: str | None = None) -> Answer:
        return self.send("DELETE", path, query, reason=reason)

    def ping(self, seconds: float) -> None:
        """Raises NotReachable unless the HTTP API of a broker answers. This request needs no login."""
        answer = self._ask_without_login(located(("auth",)), seconds)
        if answer.status == UNAVAILABLE:
            raise NotReachable(_not_ready(answer))
        if answer.status >= 500 or not isinstance(answer.value, dict):
            raise NotReachable(_not_json(answer.url, answer.body))

    def check_ready(self, seconds: float) -> None:
        """Raises NotReachable unless clients can connect, publish and consume, as Kubernetes checks it. RabbitMQ has no
        such probe: there, an answer is enough. This request needs no login."""
        answer = self._ask_without_login(READY, seconds)
        if answer.status in WITHOUT_PROBE:
            self.ping(seconds)
        elif answer.status == UNAVAILABLE:
            raise NotReachable(_not_ready(answer))
        elif answer.status != 200 or not isinstance(answer.value, dict):
            raise NotReachable(_not_json(answer.url, answer.body))

    def _ask_without_login(self, path: str, seconds: float) -> Answer:
        return self._exchange("GET", f"{self.address.prefix}{path}", None, {"Accept": ACCEPTED}, seconds)

    def exists(self, *path: str) -> bool:
        try:
            self.get(*path)
        except Refusal as problem:
            if problem.status == 404:
                return False
            raise
        return True

    def send(
        self,
        method: str,
        path: tuple[str, ...],
        query: Query | None = None,
        value: object = None,
        seconds: float = SECONDS,
        reason: str | None = None,
    ) -> Answer:
        """``value`` is sent as JSON, bytes are sent unchanged. A status of 400 or above raises a Refusal."""
        if "" in path:
            raise Misuse("the name is empty: only the default exchange has an empty name, written as amq.default")
        place = self.address.prefix + located(path, query)
        pair = f"{self.username}:{self.password}".encode(errors=BYTES)
        headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}", "Accept": ACCEPTED}
        if reason is not None:
            headers["X-Reason"] = quote(reason, safe=" ,;:!?'()[]/@")  # headers are ASCII
        body = None
        if value is not None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            headers["Content-Type"] = "application/json"
        answer = self._exchange(method, place, body, headers, seconds)
        if answer.status >= 400:
            raise self._refusal(answer, method, path, place)
        return answer

    @cached_property
    def password(self) -> str:
        """Read when it is first needed."""
        return self._ask_password()

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> Answer:
        place = self.address
        tls = trusting(self.ca_file) if place.scheme == "https" else None
        connection = HttpConnection(place.scheme, place.host, place.port, seconds, tls)
        try:
            response = connection.send(method, target, body, headers)
            body = response.read()
            self._warn_of_missing(response.getheader(MISSING_NODES) or "")
            return Answer(response.status, body, place.url, response.getheader("Date"))
        except BROKEN as problem:
            raise self._not_reachable(problem, seconds) from None
        finally:
            connection.close()

    def _warn_of_missing(self, names: str) -> None:
        """Once for the same nodes: a command may send several requests."""
        if names and names != self._missing:
            shown = ", ".join(unquote(name) for name in names.split(","))
            sys.stderr.write(f"leveret: incomplete: no response from {shown}\n")
        self._missing = names or self._missing

    def _not_reachable(self, problem: Exception, seconds: float) -> NotReachable:
        url = self.address.url
        if isinstance(problem, ssl.SSLCertVerificationError):
            return NotReachable(
                f"the certificate of {url} is not trusted: {problem.verify_message}; pass the CA certificate with "
                "--ca-file, or set SSL_CERT_FILE"
            )
        if isinstance(problem, TimeoutError):
            return NotReachable(f"no response from {url} within {seconds:g} s: try again, or check the broker's log")
        cause = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        if cause.startswith("AMQP"):  # the protocol header, instead of a status line
            return NotReachable(f"{url} is an AMQP port: pass the HTTP port with --url, 15672 by default")
        return NotReachable(
            f"cannot connect to {url}: {cause}; start a broker with 'leveret serve', or select another one with --url "
            "or --context"
        )

    def _refusal(self, answer: Answer, method: str, path: tuple[str, ...], place: str) -> CommandProblem:
        status, url = answer.status, self.address.url
        if status in NOT_SUPPORTED and not answer.body:
            return NotSupported(only_leveret(url, method, located(path)), status)
        try:
            error = json.loads(answer.body)
        except ValueError:
            return NotReachable(_not_json(url, answer.body))
        error = error if isinstance(error, dict) else {}
        reason = with_command(str(error.get("reason") or error.get("error") or f"status {status}"))
        if status == 401:
            hint = (
                "; set LEVERET_PASSWORD or --password-file, or enter it at the terminal"
                if BAD_LOGIN.search(reason)
                else ""
            )
            reason = f"{url} refused user '{self.username}': {reason}{hint}"
        elif reason == "Not Found":
            missing = not_found(path)
            if missing is None:
                return NotSupported(only_leveret(url, method, located(path)), status, error)
            reason = missing
        elif len(reason) < 16:  # too short to be useful
            reason = f"{method} {place}: {reason}"
        return Refusal(" ".join(reason.split()), status, error)


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """Trusts the CA certificates in the file, or those of the system."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as problem:
        cause = "it contains no certificate" if isinstance(problem, ssl.SSLError) else problem.strerror
        raise Misuse(f"invalid --ca-file {ca_file}: {cause}; pass a file of certificates (PEM)") from None


def located(path: tuple[str, ...], query: Query | None = None) -> str:
    """The path below /api, percent-encoded; in the query, True becomes ``true`` and None is omitted."""
    parts = "".join(f"/{quote(part, safe='', errors=BYTES)}" for part in path)
    given = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
    return f"/api{parts}?{urlencode(given, errors=BYTES)}" if given else f"/api{parts}"


def _query_value(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _not_ready(answer: Answer) -> str:
    """Of a response 503, which has a reason during the start and at a standby; a proxy responds with any text."""
    try:
        reason = json.loads(answer.body)["reason"]
    except (ValueError, TypeError, KeyError):
        reason = "the broker starts or stops, or its store failed"
    return f"{answer.url} is not ready: {reason}; see the broker's log"


def _not_json(url: str, body: bytes) -> str:
    begin = ascii(body[:MOST_SHOWN].decode("utf-8", "replace"))
    return f"{url} is not the HTTP API of a broker, it responded with {begin}: check the port in --url"

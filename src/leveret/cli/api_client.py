"""The broker's HTTP API as the command line speaks it: a path, a query, JSON in both directions.

What goes wrong is a CommandProblem: one line for the user, and the exit code of the command.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from leveret.cli.remedies import for_a_person, not_found, only_leveret
from leveret.errors import LeveretError

Row = dict[str, Any]
Query = Mapping[str, object]

SECONDS = 60.0  # for an answer; an import of many definitions asks for more
PORTS = {"http": 15672, "https": 15671}
BYTES = "surrogateescape"  # what is no text on the command line travels as the bytes it was
MOST_SHOWN = 200  # characters of an answer that is no JSON
ACCEPTED = "application/json, */*;q=0.1"  # RabbitMQ purges for nobody who takes JSON alone
HAS_NOT = (400, 404, 405, 406)  # RabbitMQ, without a word more, at a path that it does not have


class CommandProblem(LeveretError):
    """One line that names the object, the cause and the remedy."""

    exit_code: ClassVar[int] = 1


class Refusal(CommandProblem):
    """The broker said no."""

    def __init__(self, text: str, status: int = 0, answer: Row | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.answer = answer or {}


class Misuse(CommandProblem):
    """What was given on the command line, or in a file it names, cannot be used."""

    exit_code = 2


class NotReachable(CommandProblem):
    """Nobody answers, or somebody who is no broker."""

    exit_code = 3


class Address(NamedTuple):
    scheme: str
    host: str
    port: int
    prefix: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def address_of(url: str, source: str) -> Address:
    """The parts of a URL; ``source`` says where it was given."""
    if "@" in url:  # before anything else: what is told of it would tell the password, too
        raise Misuse(
            f"the URL from {source} has a user name or a password in it, where others can read them: use --username, "
            "and LEVERET_PASSWORD or --password-file"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        raise Misuse(f"URL {url!r} (from {source}) cannot be used: {problem}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise Misuse(f"URL {url!r} (from {source}) cannot be used: write it as http://HOST:PORT or https://HOST:PORT")
    if parts.query or parts.fragment:
        raise Misuse(f"URL {url!r} (from {source}) cannot be used: nothing may follow its path")
    return Address(parts.scheme, parts.hostname, port or PORTS[parts.scheme], parts.path.rstrip("/"))


class Login(NamedTuple):
    """Where the broker is, who asks, and in which virtual host if nothing else is said."""

    address: Address
    username: str
    password: Callable[[], str]
    vhost: str | None = None
    ca_file: str | None = None


class Answer(NamedTuple):
    """``date``: when it was given, by the clock of the broker, as HTTP writes it."""

    status: int
    body: bytes
    url: str
    date: str | None = None

    @property
    def value(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise NotReachable(_no_json(self.url, self.body)) from None

    @property
    def rows(self) -> list[Row]:
        found: list[Row] = self.value
        return found


class Api:
    """One user at one broker. The password is asked for with the first request.

    Each request has a connection of its own: a broker closes one that is idle while somebody reads a question.
    """

    def __init__(self, login: Login) -> None:
        self.address = login.address
        self.username = login.username
        self.vhost = login.vhost
        self._ask_password = login.password
        self.ca_file = login.ca_file

    def get(self, *path: str, query: Query | None = None) -> Answer:
        return self.send("GET", path, query)

    def put(self, *path: str, value: object) -> Answer:
        return self.send("PUT", path, value=value)

    def post(self, *path: str, value: object, query: Query | None = None, seconds: float = SECONDS) -> Answer:
        return self.send("POST", path, query, value, seconds)

    def delete(self, *path: str, query: Query | None = None, reason: str | None = None) -> Answer:
        return self.send("DELETE", path, query, reason=reason)

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
        """``value`` is sent as JSON, or as it is if it is bytes. A status from 400 on is a Refusal."""
        if "" in path:
            raise Misuse("a name is empty: everything but the default exchange, which is amq.default here, has one")
        place = self.address.prefix + located(path, query)
        pair = f"{self.username}:{self.password}".encode(errors=BYTES)
        headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}", "Accept": ACCEPTED}
        if reason is not None:
            headers["X-Reason"] = quote(reason, safe=" ,;:!?'()[]/@")  # a header holds no other letters
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
        """Asked for when it is first needed."""
        return self._ask_password()

    def _exchange(
        self, method: str, place: str, body: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> Answer:
        connection = self._connection(seconds)
        try:
            connection.request(method, place, body=body, headers=dict(headers))
            response = connection.getresponse()
            return Answer(response.status, response.read(), self.address.url, response.getheader("Date"))
        except (OSError, http.client.HTTPException) as problem:
            raise self._not_reachable(problem, seconds) from None
        finally:
            connection.close()

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        host, port = self.address.host, self.address.port
        if self.address.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=trusting(self.ca_file))

    def _not_reachable(self, problem: Exception, seconds: float) -> NotReachable:
        url = self.address.url
        if isinstance(problem, ssl.SSLCertVerificationError):
            return NotReachable(
                f"the certificate of {url} is not trusted: {problem.verify_message}; name the file of the authority "
                "that signed it by --ca-file, or in SSL_CERT_FILE"
            )
        if isinstance(problem, TimeoutError):
            return NotReachable(f"the broker at {url} gives no answer in {seconds:g} s: try again, or look at its log")
        cause = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        return NotReachable(
            f"no broker answers at {url}: {cause}; start one with 'leveret serve', or name another by --url or "
            "--context"
        )

    def _refusal(self, answer: Answer, method: str, path: tuple[str, ...], place: str) -> CommandProblem:
        status, url = answer.status, self.address.url
        if status in HAS_NOT and not answer.body:
            return Refusal(only_leveret(url, method, located(path)), status)
        try:
            told = json.loads(answer.body)
        except ValueError:
            return NotReachable(_no_json(url, answer.body))
        told = told if isinstance(told, dict) else {}
        reason = for_a_person(str(told.get("reason") or told.get("error") or f"status {status}"))
        if status == 401:
            is_login = "login" in reason.lower()
            hint = "; the password comes from LEVERET_PASSWORD, --password-file or the terminal" if is_login else ""
            reason = f"{url} refuses user '{self.username}': {reason}{hint}"
        elif reason == "Not Found":
            reason = not_found(path) or only_leveret(url, method, located(path))
        elif len(reason) < 16:  # tells nobody what was meant
            reason = f"{method} {place}: {reason}"
        return Refusal(" ".join(reason.split()), status, told)


def trusting(ca_file: str | None) -> ssl.SSLContext:
    """Believes the authorities in the file, or those that this machine believes."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as problem:
        cause = "it holds no certificate" if isinstance(problem, ssl.SSLError) else problem.strerror
        raise Misuse(f"--ca-file {ca_file} cannot be used: {cause}; name a file of certificates (PEM)") from None


def located(path: tuple[str, ...], query: Query | None = None) -> str:
    """The path below /api, each part percent-encoded; a True in the query is ``true``, what is None is left out."""
    parts = "".join(f"/{quote(part, safe='', errors=BYTES)}" for part in path)
    given = {name: _query_value(value) for name, value in (query or {}).items() if value is not None}
    return f"/api{parts}?{urlencode(given, errors=BYTES)}" if given else f"/api{parts}"


def _query_value(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _no_json(url: str, body: bytes) -> str:
    begin = ascii(body[:MOST_SHOWN].decode("utf-8", "replace"))
    return f"{url} answers, but not as a broker's HTTP API does: {begin}; check the port in --url"

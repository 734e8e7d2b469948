"""The HTTP port: who may come in, where it listens, how it stops, and what a stranger can take of it."""

from __future__ import annotations

import http.client
import logging
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

import leveret
from leveret.errors import ConfigError
from leveret.server.logins import FAILURES
from tests.support.broker_process import BrokerProcess
from tests.support.http_api import QUIET, HttpApi, basic, vhost_path

SOURCES = vhost_path("sources")


pytestmark = pytest.mark.broker(QUIET)


@pytest.fixture(scope="module")
def module_broker(module_broker: leveret.Broker) -> leveret.Broker:
    module_broker.vhost().declare_queue("q")
    return module_broker


def add_user(broker: leveret.Broker, name: str, read: str | None, vhost: str = "/") -> HttpApi:
    core = broker.node.broker

    def add() -> None:
        core.users.add(name, password="secret")
        if read is not None:
            core.permissions.set(name, vhost, "", "", read)

    broker.call(add)
    return HttpApi(broker.http_url, name, "secret")


# ---- who may come in


def test_everybody_is_told_where_the_api_is(broker: leveret.Broker) -> None:
    response, answer = HttpApi(broker.http_url, user=None).send("GET", "/")
    assert response.status == 200
    assert b"/api/pipeline" in answer


@pytest.mark.parametrize("path", ["/api/whoami", "/api/users", "/api/nothing", SOURCES + "?queue=q"])
@pytest.mark.feature("S4-72")
def test_answers_are_kept_by_nobody_on_the_way(broker: leveret.Broker, path: str) -> None:
    """With a session's cookie there is no Authorization header, which would tell a cache so by itself."""
    response, _ = HttpApi(broker.http_url).send("GET", path)
    assert response.headers.get_all("Cache-Control") == ["no-store"]
    assert response.getheader("X-Content-Type-Options") == "nosniff"


def test_without_a_login_nothing_is_told(broker: leveret.Broker) -> None:
    for path in (SOURCES, "/api/nothing", "/api/pipeline/queries"):
        response, answer = HttpApi(broker.http_url, user=None).send("GET", path)
        assert (response.status, b"not_authorised" in answer) == (401, True)
        assert response.getheader("WWW-Authenticate", "").startswith("Basic ")


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Basic bm9jb2xvbg==", "Bearer x", "Basic gIA6gA=="])
def test_a_login_that_cannot_be_read_is_none(broker: leveret.Broker, header: str) -> None:
    api = HttpApi(broker.http_url)
    api.headers = {"Authorization": header}
    assert api.get(SOURCES, queue="q")[0] == 401


def test_a_wrong_password_is_refused_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG),
        leveret.Broker(replace(QUIET, login_failure_delay=0.4)) as broker,
    ):
        for _ in range(FAILURES):  # the last one late, so that guessing is slow
            begun = broker.node.broker.clock.now()
            status, answer = HttpApi(broker.http_url, "guest", "hunter2-wrong").get(SOURCES, queue="q")
            assert (status, answer["error"]) == (401, "not_authorised")
        assert broker.node.broker.clock.now() - begun >= 0.4
    assert "login refused user=guest" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_user_who_may_only_come_from_this_machine_does_not_come_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer of this machine, with its own address that is no loopback one, whatever it says in a header."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError as problem:
            pytest.skip(f"kernel: no address but loopback here ({problem})")
        own = probe.getsockname()[0]
    with leveret.Broker(replace(QUIET, host=("0.0.0.0",))) as broker:
        here, there = HttpApi(broker.http_url), HttpApi(broker.http_url.replace("127.0.0.1", own))
        assert here.get("/api/pipeline/queries")[0] == 200
        assert there.get("/api/pipeline/queries")[0] == 401
        there.headers["X-Forwarded-For"] = "127.0.0.1"
        assert there.get("/api/pipeline/queries")[0] == 401
        stranger = add_user(broker, "ann", ".*")
        there.headers = stranger.headers
        assert there.get("/api/pipeline/queries")[0] == 200


def test_permissions_are_those_of_the_broker(broker: leveret.Broker) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    reader = add_user(broker, "reader", "^q$")
    assert reader.get(SOURCES, queue="q")[0] == 200
    blind = add_user(broker, "blind", "^x")
    status, answer = blind.get(SOURCES, queue="q")
    assert (status, answer["reason"]) == (403, "read access to queue 'q' in vhost '/' refused for user 'blind'")
    assert blind.get(vhost_path("messages"), queue="q")[0] == 403
    assert blind.get(SOURCES, pattern=".*")[0] == 404  # it learns of none
    status, answer = reader.get(vhost_path("sources", "other"), queue="q")
    assert status == 403
    assert "access to vhost 'other' refused for user 'reader'" in answer["reason"]
    assert reader.get(vhost_path("sources", "nowhere"), queue="q")[0] == 404


# ---- where it listens


def test_it_is_off_unless_a_port_is_given() -> None:
    with (
        leveret.Broker() as broker,
        pytest.raises(ConfigError, match=r"no http listener: .* leveret.Broker\(http_port=0\)"),
    ):
        _ = broker.http_url


LOADED = """
import sys, leveret
from leveret.config import Settings
for port in (None, 0):
    with leveret.Broker(Settings(amqp_port=0, http_port=port, stomp_port=None, shutdown_timeout=0.5)):
        print(*(name for name in ("starlette", "uvicorn", "numpy", "pyarrow", "pyspark") if name in sys.modules))
"""


def test_what_http_needs_is_loaded_with_it_and_arrow_with_the_first_fetch() -> None:
    told = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=50).stdout
    assert told == "\nstarlette uvicorn\n"


def test_a_taken_port_is_an_error_that_names_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use: set http_port to another one"):
            leveret.Broker(replace(QUIET, http_port=port)).start()


def test_both_stacks_listen_on_one_port() -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError as problem:
        pytest.skip(f"kernel: no IPv6 here ({problem})")
    with leveret.Broker(replace(QUIET, host=("127.0.0.1", "::1"))) as broker:
        six = HttpApi(broker.http_url.replace("127.0.0.1", "[::1]"))
        assert six.host == "::1"
        assert six.get("/api/pipeline/queries") == HttpApi(broker.http_url).get("/api/pipeline/queries")
    with leveret.Broker(replace(QUIET, host=("::1",))) as broker:
        assert broker.http_url.startswith("http://[::1]:")
        assert HttpApi(broker.http_url).get("/api/pipeline/queries")[0] == 200


def test_serve_names_it_in_the_banner_and_leaves_the_start_quick(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--http-port", "0") as serving:
        api = HttpApi(serving.url("http"))
        assert api.get("/api/pipeline/queries") == (200, {"queries": []})
        serving.terminate()
        assert serving.exit_code() == 0
        assert "uvicorn" not in serving.log().lower()


@pytest.mark.feature("S4-72")
def test_guest_is_refused_to_a_page_whose_name_was_made_to_lead_here(broker: leveret.Broker) -> None:
    """Its requests come from this machine; the host that it names gives it away. So are the open metrics."""
    api = HttpApi(broker.http_url)
    api.headers = api.headers | {"Host": "evil.example"}
    assert api.send("GET", "/api/whoami")[0].status == 401
    del api.headers["Authorization"]
    assert api.send("GET", "/metrics")[0].status == 401
    api.headers["Host"] = "localhost"
    assert api.send("GET", "/metrics")[0].status == 200


# ---- wrong requests


def test_what_is_not_there_and_what_does_not_fit_is_told_as_json(api: HttpApi) -> None:
    assert api.get("/api/nothing")[0] == 404
    status, answer = api.post(SOURCES, {})
    assert (status, answer["error"]) == (405, "method_not_allowed")
    status, answer = api.get(SOURCES)
    assert (status, answer["error"]) == (400, "bad_request")
    status, answer = api.get(SOURCES, queue="missing")
    assert (status, answer["reason"]) == (404, "no queue 'missing' in vhost '/'")
    status, answer = api.get(vhost_path("messages"), queue="q", from_="x")
    assert (status, "'from' must be a whole number" in answer["reason"]) == (400, True)


def test_a_refused_method_is_told_with_all_that_are_taken(api: HttpApi) -> None:
    response, _ = api.send("PATCH", "/api/queues/%2F/q", b"")
    assert (response.status, response.headers["allow"]) == (405, "DELETE, GET, HEAD, PUT")


def test_options_tells_the_methods_of_a_resource(api: HttpApi) -> None:
    response, body = api.send("OPTIONS", "/api/queues/%2F/q")
    assert (response.status, response.headers["allow"], body) == (200, "DELETE, GET, HEAD, OPTIONS, PUT", b"")
    assert api.send("OPTIONS", "/api/nothing")[0].status == 404


def test_ways_to_log_in_are_told_without_a_login(broker: leveret.Broker) -> None:
    """A management UI asks for them before it shows its form."""
    status, answer = HttpApi(broker.http_url, user=None).get("/api/auth")
    assert (status, answer["oauth_enabled"]) == (200, False)


@pytest.mark.feature("S4-77")
def test_a_slash_at_the_end_of_a_path_changes_nothing(api: HttpApi) -> None:
    for path in ("/api/exchanges", "/api/exchanges/%2F", "/api/exchanges/%2F/amq.topic"):
        answer = api.get(path)
        assert answer[0] == 200
        assert api.get(f"{path}/") == answer
    assert api.get("/api/exchanges//")[0] == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"id": 3}', b'{"id": "a", "strange": 1}', b"[" * 70_000])
def test_broken_json_is_answered_with_400(api: HttpApi, body: bytes) -> None:
    response, answer = api.send("POST", "/api/pipeline/queries", body)
    assert response.status in (400, 413), answer
    assert api.get("/api/pipeline/queries")[0] == 200


def test_a_body_that_is_too_large_is_refused_and_not_kept(api: HttpApi) -> None:
    status, answer = api.post("/api/pipeline/queries", {"id": "x" * (64 << 10)})
    assert (status, answer["error"]) == (413, "too_large")


def test_a_bug_is_logged_and_answered_without_details(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the secret inside")

    monkeypatch.setattr("leveret.pipeline.sources.source_view", broken)
    status, answer = HttpApi(broker.http_url).get(SOURCES, queue="q")
    assert (status, answer["error"]) == (500, "internal_error")
    assert "secret inside" not in answer["reason"]
    assert "secret inside" in caplog.text


# ---- bounds


def test_a_head_that_does_not_come_ends_the_connection() -> None:
    """The first one and any further one; nobody waits for an answer of ours for that long."""
    with leveret.Broker(replace(QUIET, handshake_timeout=0.3)) as broker:
        api = HttpApi(broker.http_url)
        address = (api.host, api.port)
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection(address, timeout=60) as peer:
                peer.sendall(sent)
                assert until_closed(peer) == b""


def until_closed(peer: socket.socket) -> bytes:
    read = b""
    try:
        while part := peer.recv(65536):
            read += part
    except ConnectionError:
        pass
    return read


def test_a_head_that_is_too_large_is_refused(broker: leveret.Broker) -> None:
    api = HttpApi(broker.http_url)
    with socket.create_connection((api.host, api.port), timeout=10) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20))
        assert until_closed(peer)[:12] in (b"HTTP/1.1 400", b"")


def test_the_longest_idle_connection_is_closed_for_one_more_than_wanted(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = HttpApi(broker.http_url)
    monkeypatch.setattr(broker.node._listeners.admission, "places", 3)
    with ExitStack() as stack:
        made = [stack.enter_context(closing(api.connect())) for _ in range(4)]
        for connection in made:
            connection.request("GET", "/", headers={"Connection": "keep-alive"})
            answer = connection.getresponse()
            assert (answer.status, len(answer.read()) > 0) == (200, True)
        assert made[0].sock.recv(1) == b""
        for connection in made[1:]:
            connection.request("GET", "/", headers={"Connection": "keep-alive"})
            assert connection.getresponse().read()


def test_many_requests_on_one_connection(broker: leveret.Broker) -> None:
    api = HttpApi(broker.http_url)
    connection = api.connect()
    for number in range(5):
        connection.request("GET", f"{SOURCES}?queue=q&n={number}", headers=api.headers)
        response = connection.getresponse()
        assert (response.status, b'"queue":"q"' in response.read()) == (200, True)
    connection.close()


# ---- the end


def test_a_stop_ends_idle_connections_and_leaves_no_thread() -> None:
    before = {thread.ident for thread in threading.enumerate()}
    with leveret.Broker(QUIET) as broker:
        api = HttpApi(broker.http_url)
        broker.vhost().declare_queue("q")
        api.table(vhost_path("messages"), queue="q")
        connection = api.connect()
        connection.request("GET", "/", headers=api.headers)
        connection.getresponse().read()
    assert connection.sock is not None
    assert connection.sock.recv(1) == b""
    connection.close()
    left = [thread.name for thread in threading.enumerate() if thread.ident not in before]
    assert left == []


def test_the_logging_of_the_process_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    names = ("uvicorn", "uvicorn.error", "uvicorn.access")
    access = logging.getLogger("uvicorn.access")
    handler = logging.NullHandler()
    access.addHandler(handler)
    try:
        before = [(each.level, each.propagate, list(each.handlers)) for each in map(logging.getLogger, names)]
        with caplog.at_level(logging.DEBUG), leveret.Broker(QUIET) as broker:
            HttpApi(broker.http_url).get("/api/pipeline/queries")
        assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []
        assert before == [(each.level, each.propagate, list(each.handlers)) for each in map(logging.getLogger, names)]
    finally:
        access.removeHandler(handler)


def test_a_request_can_be_sent_in_any_slicing(broker: leveret.Broker) -> None:
    api = HttpApi(broker.http_url)
    login = basic("guest", "guest")
    request = f"GET {SOURCES}?queue=q HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login}\r\n\r\n".encode()
    with socket.create_connection((api.host, api.port), timeout=10) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(request), 16):
            peer.sendall(request[place : place + 16])
        response = http.client.HTTPResponse(peer)
        response.begin()
        assert response.status == 200

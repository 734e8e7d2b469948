"""Sessions of the page, on a clock that stands still, and without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User, Users
from leveret.clock import FrozenClock
from leveret.http import sessions as module
from leveret.http.errors import BadRequest, Forbidden, Unauthorized
from leveret.http.login import SOCKET
from leveret.http.origins import refuse_other_sites, refuse_unless_own_page
from leveret.http.sessions import IDLE, LONGEST, MOST_OF_A_USER, SessionEndpoints, Sessions
from leveret.server.admission import ADMITTED, Admission
from leveret.server.logins import LoginPeer
from tests.support.session_users import known, pass_by

HOST = "broker.example:15672"


@pytest.fixture
def users() -> Users:
    users = Users()
    users.add("ann", password="secret", tags=("management",))
    users.add("bob", password="secret", tags=("administrator",))
    users.add("guest", password="guest", tags=("administrator",))
    users.add("app", password="secret")
    return users


# ---- how long they live


@pytest.mark.feature("S4-72")
def test_an_id_has_256_bits_and_leads_to_its_user(sessions: Sessions, users: Users) -> None:
    ids = {sessions.open(known(users, "ann")) for _ in range(10)}
    assert len(ids) == 10
    assert all(len(token) == 43 for token in ids)  # 32 bytes in base64
    assert {user.name for token in ids if (user := sessions.user_of(token))} == {"ann"}
    assert sessions.user_of("") is None
    assert sessions.user_of("x" * 43) is None
    assert sessions.user_of("\udcff") is None


def test_a_session_that_rests_too_long_is_over(sessions: Sessions, users: Users, clock: FrozenClock) -> None:
    token = sessions.open(known(users, "ann"))
    pass_by(clock, IDLE - 1)
    assert sessions.user_of(token) is not None
    pass_by(clock, IDLE - 1)
    assert sessions.user_of(token) is not None
    pass_by(clock, IDLE)
    assert sessions.user_of(token) is None


def test_no_session_lives_for_ever(sessions: Sessions, users: Users, clock: FrozenClock) -> None:
    token = sessions.open(known(users, "ann"))
    for _ in range(int(LONGEST / (IDLE / 2)) - 1):
        pass_by(clock, IDLE / 2)
        assert sessions.user_of(token) is not None
    pass_by(clock, IDLE / 2)
    assert sessions.user_of(token) is None


def test_logging_out_ends_one_session_only(sessions: Sessions, users: Users) -> None:
    here, there = sessions.open(known(users, "ann")), sessions.open(known(users, "ann"))
    sessions.close(here)
    assert sessions.user_of(here) is None
    assert sessions.user_of(there) is not None


def test_a_user_has_a_bounded_number_and_takes_none_of_others(sessions: Sessions, users: Users) -> None:
    other = sessions.open(known(users, "bob"))
    first, second = sessions.open(known(users, "ann")), sessions.open(known(users, "ann"))
    assert sessions.user_of(first) is not None  # now the second has rested longest
    for _ in range(MOST_OF_A_USER - 1):
        sessions.open(known(users, "ann"))
    assert len(sessions) == MOST_OF_A_USER + 1
    assert sessions.user_of(second) is None
    assert sessions.user_of(first) is not None
    assert sessions.user_of(other) is not None


def test_all_together_are_bounded(sessions: Sessions, users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    first = sessions.open(known(users, "ann"))
    for name in ("bob", "guest", "app"):
        sessions.open(known(users, name))
    assert len(sessions) == 3
    assert sessions.user_of(first) is None


def test_sessions_that_are_over_take_no_room(sessions: Sessions, users: Users, clock: FrozenClock) -> None:
    for _ in range(5):
        sessions.open(known(users, "ann"))
    pass_by(clock, IDLE)
    sessions.open(known(users, "bob"))
    assert len(sessions) == 1


# ---- what happens to the user meanwhile


@pytest.mark.feature("S4-72")
def test_a_deleted_user_and_an_old_password_are_out_at_once(sessions: Sessions, users: Users) -> None:
    ann, bob = sessions.open(known(users, "ann")), sessions.open(known(users, "bob"))
    users.delete("ann")
    users.set_password("bob", password="other")
    assert sessions.user_of(ann) is None
    assert sessions.user_of(bob) is None
    users.add("ann", password="secret")  # somebody else of that name
    assert sessions.user_of(ann) is None


def test_a_change_of_tags_holds_at_once(sessions: Sessions, users: Users) -> None:
    token = sessions.open(known(users, "ann"))
    users.set_tags("ann", ["administrator"])
    user = sessions.user_of(token)
    assert user is not None
    assert user.tags == ("administrator",)


# ---- requests


def request_of(
    method: str = "GET",
    body: object = None,
    peer: str = "127.0.0.1",
    scheme: str = "http",
    host: str = HOST,
    **headers: str,
) -> Request:
    sent = [(b"host", host.encode())]
    sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": "/api/login",
        "query_string": b"",
        "headers": sent,
        "client": (peer, 4711),
        "server": ("127.0.0.1", 15672),
        "scheme": scheme,
        "state": {SOCKET: None, ADMITTED: Admission(1 << 30, 100).enter(peer, lambda: None)},
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    return Request(scope, receive)


@pytest.fixture
def desk(sessions: Sessions, users: Users) -> SessionEndpoints:
    def login(credentials: Credentials, peer: LoginPeer, done: Callable[[User | None], None]) -> None:
        user = users.get(credentials.name)
        done(user if user is not None and user.pending_password == credentials.password else None)

    return SessionEndpoints(sessions, login, frozenset({"guest"}))


def log_in(desk: SessionEndpoints, name: str = "ann", password: str = "secret", **more: str) -> str:
    """The cookie, as the browser is told to keep it."""
    given = {"username": name, "password": password}
    answer = asyncio.run(desk.log_in(request_of("POST", given, x_requested_with="leveret", **more)))
    assert answer.status_code == 200
    return answer.headers["set-cookie"]


def test_the_cookie_is_for_this_server_and_no_script(desk: SessionEndpoints) -> None:
    name_and_value, *attributes = log_in(desk).split("; ")
    assert name_and_value.startswith("leveret_session_15672=")
    assert {attribute.lower() for attribute in attributes} == {
        "httponly",
        "path=/",
        "samesite=strict",
        f"max-age={int(LONGEST)}",
    }


def test_over_tls_the_cookie_goes_over_tls_only(desk: SessionEndpoints) -> None:
    assert "Secure" in log_in(desk, scheme="https")
    assert "Secure" in log_in(desk, origin=f"https://{HOST}")  # a proxy ended TLS
    assert "Secure" not in log_in(desk)


def test_the_cookie_lets_in_and_a_logout_ends_that(desk: SessionEndpoints) -> None:
    cookie = log_in(desk).partition(";")[0]
    user = desk.user_of(request_of(cookie=cookie))
    assert user is not None
    assert user.name == "ann"
    answer = asyncio.run(desk.log_out(request_of("POST", cookie=cookie)))
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert desk.user_of(request_of(cookie=cookie)) is None


def test_a_new_login_ends_the_session_that_the_browser_had(desk: SessionEndpoints, sessions: Sessions) -> None:
    cookie = log_in(desk).partition(";")[0]
    log_in(desk, "bob", cookie=cookie)
    assert desk.user_of(request_of(cookie=cookie)) is None
    assert len(sessions) == 1


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("nobody", "secret"), ("app", "secret")])
def test_who_may_not_log_in(desk: SessionEndpoints, sessions: Sessions, name: str, password: str) -> None:
    with pytest.raises(Unauthorized):
        log_in(desk, name, password)
    assert len(sessions) == 0


@pytest.mark.parametrize("body", [None, [], {}, {"username": "ann"}, {"username": 1, "password": "secret"}])
def test_a_login_that_cannot_be_read(desk: SessionEndpoints, body: object) -> None:
    with pytest.raises(BadRequest):
        asyncio.run(desk.log_in(request_of("POST", body, x_requested_with="leveret")))


def test_a_user_of_this_machine_only_takes_its_cookie_nowhere(desk: SessionEndpoints) -> None:
    here = "localhost:15672"
    cookie = log_in(desk, "guest", "guest", host=here).partition(";")[0]
    assert desk.user_of(request_of(cookie=cookie, host=here)) is not None
    assert desk.user_of(request_of(cookie=cookie, host=here, peer="10.0.0.9")) is None
    assert desk.user_of(request_of(cookie=cookie, host=HOST)) is None
    for elsewhere in ({"host": here, "peer": "10.0.0.9"}, {"host": HOST}):
        with pytest.raises(Unauthorized):
            log_in(desk, "guest", "guest", **elsewhere)


# ---- other sites


@pytest.mark.parametrize(
    "headers",
    [{"x_requested_with": "leveret"}, {"origin": f"http://{HOST}"}, {"origin": f"https://{HOST}"}],
)
@pytest.mark.feature("S4-72")
def test_our_own_page_may_change_things(desk: SessionEndpoints, headers: dict[str, str]) -> None:
    cookie = log_in(desk).partition(";")[0]
    refuse_unless_own_page(request_of("POST", **headers))
    refuse_other_sites(request_of("POST", **headers))
    assert desk.user_of(request_of("DELETE", cookie=cookie, **headers)) is not None


@pytest.mark.parametrize(
    "origin",
    [None, "null", "", "http://evil.example", f"http://{HOST}.evil.example", "http://broker.example", "http://["],
)
@pytest.mark.feature("S4-72")
def test_another_site_changes_nothing(desk: SessionEndpoints, origin: str | None) -> None:
    cookie = log_in(desk).partition(";")[0]
    headers = {} if origin is None else {"origin": origin}
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        with pytest.raises(Forbidden):
            desk.user_of(request_of(method, cookie=cookie, **headers))
    assert desk.user_of(request_of("GET", cookie=cookie, **headers)) is not None
    with pytest.raises(Forbidden):
        asyncio.run(desk.log_in(request_of("POST", {"username": "ann", "password": "secret"}, **headers)))

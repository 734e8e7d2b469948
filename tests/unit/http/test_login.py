"""Basic authentication, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from starlette.requests import Request

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.http.login import SOCKET, authenticate, credentials_of
from leveret.server.admission import ADMITTED, Admission
from leveret.server.logins import LoginPeer
from tests.support.http_api import basic


def request_from(address: str) -> Request:
    state = {SOCKET: None, ADMITTED: Admission(1 << 30, 100).enter(address, lambda: None)}
    return Request(
        {
            "type": "http",
            "client": (address, 1),
            "headers": [(b"host", b"localhost")],
            "http_version": "1.1",
            "state": state,
        }
    )


def test_name_and_password_of_a_header() -> None:
    assert credentials_of(basic("ann", "se:cret ü")) == Credentials("ann", "se:cret ü")
    assert credentials_of(basic("ann", "x").replace("Basic", "bAsIc")) == Credentials("ann", "x")


@pytest.mark.parametrize("header", ["", "Basic", "Basic ", "Basic %%%%", "Digest abc", "Basic YW5u", "Basic /////w=="])
def test_what_is_no_login(header: str) -> None:
    assert credentials_of(header) is None


def test_a_user_of_this_machine_only_is_verified_as_nobody_elsewhere() -> None:
    asked: list[Credentials] = []

    def login(credentials: Credentials, peer: LoginPeer, done: Callable[[User | None], None]) -> None:
        asked.append(credentials)
        done(User(credentials.name) if credentials.name else None)

    def ask(name: str, peer: str) -> User | None:
        return asyncio.run(authenticate(login, Credentials(name, "p"), request_from(peer), frozenset({"guest"})))

    assert ask("guest", "127.0.0.1") == User("guest")
    assert ask("guest", "::1") == User("guest")
    assert ask("guest", "10.0.0.1") is None
    assert ask("ann", "10.0.0.1") == User("ann")
    assert [credentials.name for credentials in asked] == ["guest", "guest", "", "ann"]


def test_an_answer_to_a_client_that_has_gone_harms_nobody() -> None:
    async def live() -> None:
        held: list[Callable[[User | None], None]] = []
        waiting = asyncio.ensure_future(
            authenticate(
                lambda _, peer, done: held.append(done), Credentials("ann", "p"), request_from("::1"), frozenset()
            )
        )
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        held[0](User("ann"))

    asyncio.run(live())

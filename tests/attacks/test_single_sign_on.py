"""Single sign-on.

- CWE-400, uncontrolled resource consumption: clients that have not logged in start logins and complete them with wrong
  codes. Each costs a request to the identity provider.
- CWE-613, insufficient session expiration: the user of a session is deleted, and another one gets its name.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.http import provider_requests
from leveret.http.provider_requests import MOST_WAITING, THREADS
from leveret.server.logins import FAILURES
from tests.support.cell_clients import until
from tests.support.forked_broker import ForkedBroker
from tests.support.http_api import QUIET, HttpApi
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider
from tests.support.signing_browser import COMPLETE, START, Answer, SigningBrowser

ATTACKER = "127.0.0.66"
WRONG = "wrong"
ATTACKS, LOGINS = 40, 6
LIMIT = 60.0  # seconds


class FromAttacker(HttpApi):
    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=LIMIT, source_address=(ATTACKER, 0))


class SlowProvider:
    """Wrong codes are answered when the test calls ``release``."""

    def __init__(self, provider: Provider) -> None:
        self._token, self._released = provider.token, threading.Event()
        self.arrived = threading.Semaphore(0)  # wrong codes
        self.codes: list[str] = []  # in the order of the requests
        provider.token = self.token  # type: ignore[method-assign]

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, object]]:
        self.codes.append(form["code"])
        if form["code"] == WRONG:
            self.arrived.release()
            assert self._released.wait(LIMIT)
            return 400, {"error": "invalid_grant"}
        return self._token(form, authorization)

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def broker(provider: Provider) -> Iterator[leveret.Broker]:
    settings = replace(QUIET, oidc_issuer=provider.url, oidc_client_id=CLIENT_ID, oidc_client_secret=CLIENT_SECRET)
    with leveret.Broker(settings) as broker:
        users = broker.node.broker.users
        broker.call(lambda: users.add("ann", tags=("monitoring",)))
        yield broker


def attack(broker: leveret.Broker) -> Answer:
    assert broker.http_url is not None
    browser = SigningBrowser(broker.http_url)
    headers = browser.api.headers
    browser.api = FromAttacker(broker.http_url)
    browser.api.headers = headers
    return browser.post(COMPLETE, {"state": browser.start()["state"], "code": WRONG})


def test_wrong_codes_of_one_address_do_not_keep_out_those_of_another(
    broker: leveret.Broker, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECONDS", "OPERATION_SECONDS"):
        monkeypatch.setattr(provider_requests, name, LIMIT)
    slow = SlowProvider(provider)
    slow.release()
    for _ in range(FAILURES):
        assert attack(broker)[0] == 502
    slow.hold()
    with ThreadPoolExecutor(ATTACKS + LOGINS) as pool:
        try:
            attacks = [pool.submit(attack, broker) for _ in range(ATTACKS)]
            for _ in range(FAILURES + THREADS):
                assert slow.arrived.acquire(timeout=LIMIT)
            until_done(attacks, ATTACKS - THREADS - MOST_WAITING)
            browsers = [SigningBrowser(broker.http_url) for _ in range(LOGINS)]
            logins = [pool.submit(browser.sign_in, provider) for browser in browsers]
            # Each takes the place of an attack, which is refused: now all of them wait.
            until_done([*attacks, *logins], ATTACKS - THREADS - MOST_WAITING + LOGINS)
        finally:
            slow.release()
    assert [login.result()[0] for login in logins] == [200] * LOGINS
    answered = MOST_WAITING + THREADS - LOGINS
    assert sorted(each.result()[0] for each in attacks) == [502] * answered + [503] * (ATTACKS - answered)
    waiting = slow.codes[FAILURES + THREADS :]
    last = max(place for place, code in enumerate(waiting) if code != WRONG)
    assert waiting[:last].count(WRONG) <= LOGINS // 2  # an address with failed logins is served less often


def until_done(futures: list[Future[Answer]], number: int) -> None:
    """At least ``number`` of them."""
    done: set[Future[Answer]] = set()
    while len(done) < number:
        found, _ = wait(set(futures) - done, LIMIT, FIRST_COMPLETED)
        assert found
        done |= found


def test_logins_started_by_others_behind_the_same_proxy_do_not_end_one(
    broker: leveret.Broker, provider: Provider
) -> None:
    """All requests have the address of the proxy."""
    browser = SigningBrowser(broker.http_url)
    sent = browser.go(provider)
    other = SigningBrowser(broker.http_url)
    connection = other.api.connect()
    for _ in range(1_100):
        connection.request("POST", START, body=json.dumps({}), headers=other.api.headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 200
    connection.close()
    assert browser.post(COMPLETE, sent)[0] == 200


# ---- sessions of deleted users


def test_a_session_is_not_that_of_a_later_user_of_the_same_name(tmp_path: Path, provider: Provider) -> None:
    """Neither user has a password. The broker is killed just after the first one was deleted."""
    settings = ("--http-port", "0", "--oidc-issuer", provider.url, "--oidc-client-id", CLIENT_ID)
    provider.is_confidential = False
    with ForkedBroker(tmp_path, *settings) as killed:
        url = killed.url("http").rstrip("/")
        create_ann(url)
        browser = SigningBrowser(url)
        assert browser.sign_in(provider)[0] == 200
        until(lambda: is_saved(tmp_path), LIMIT)
        assert HttpApi(url).send("DELETE", "/api/users/ann")[0].status == 204
        killed.process.kill()
    with ForkedBroker(tmp_path, *settings) as without_ann:
        create_ann(without_ann.url("http").rstrip("/"))
        without_ann.terminate()
        assert without_ann.exit_code(60) == 0
    with ForkedBroker(tmp_path, *settings) as broker:
        url = broker.url("http").rstrip("/")
        assert user_of(url, browser) is None
        fresh = SigningBrowser(url)
        assert fresh.sign_in(provider)[0] == 200
        assert user_of(url, fresh)["name"] == "ann"


def create_ann(url: str) -> None:
    user = b'{"password_hash": "", "tags": "monitoring"}'
    assert HttpApi(url).send("PUT", "/api/users/ann", user)[0].status == 201


def user_of(url: str, browser: SigningBrowser) -> Any:
    """Cookies are named by the port, which differs after a restart."""
    api, port = HttpApi(url, None), url.rpartition(":")[2]
    api.headers["Cookie"] = f"leveret_session_{port}={next(iter(browser.cookies.values()))}"
    return api.get("/api/login")[1]


def is_saved(folder: Path) -> bool:
    file = folder / "data" / "sessions"
    return file.exists() and b"ann" in file.read_bytes()

"""Login to the management UI with OpenID Connect, at a provider that signs real tokens.

Length: one table of everything that is refused, with the provider and the broker that it needs.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme

import leveret
from leveret.http import provider_requests
from leveret.http import server as server_module
from leveret.http.identity_provider import KEEP, NEW_KEYS_AFTER
from leveret.http.pending_logins import SECONDS
from leveret.http.provider_requests import LARGEST_REPLY
from tests.support.broker_process import BrokerProcess
from tests.support.http_api import QUIET, HttpApi
from tests.support.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    FIRST,
    SECOND,
    STRANGE,
    Provider,
    running_provider,
)
from tests.support.management_api import ManagementApi
from tests.support.signing_browser import COMPLETE, START, SigningBrowser, parameters_of

Change = Callable[[Provider], object]
DISCOVERY = "/.well-known/openid-configuration"


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


def add_users(broker: leveret.Broker) -> None:
    users = broker.node.broker.users
    broker.call(lambda: users.add("ann", tags=("monitoring",)))
    broker.call(lambda: users.add("app"))


@pytest.fixture(scope="module")
def broker(shared_provider: Provider) -> Iterator[leveret.Broker]:
    settings = replace(
        QUIET,
        oidc_issuer=shared_provider.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        oidc_provider_name="Keycloak",
    )
    with leveret.Broker(settings) as broker:
        add_users(broker)
        yield broker


@pytest.fixture
def provider(shared_provider: Provider, broker: leveret.Broker) -> Provider:
    """As at first, and the broker has to fetch its configuration and keys."""
    shared_provider.reset()
    shared_provider.now = broker.node.broker.clock.wall
    broker.clock.advance(KEEP)
    return shared_provider


@pytest.fixture
def browser(broker: leveret.Broker) -> SigningBrowser:
    return SigningBrowser(broker.http_url)


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "log" in line]


# ---- logins


def test_a_login_at_the_provider_ends_in_a_session_of_the_user(
    browser: SigningBrowser, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "leveret"):
        sent = browser.go(provider)
        status, answer = browser.post(COMPLETE, sent)
    assert (status, answer) == (200, {"name": "ann", "tags": ["monitoring"], "has_session": True})
    assert browser.user == answer
    (name,) = browser.cookies  # that of the pending login is removed
    assert name.startswith("leveret_session_")
    assert browser.attributes[name]["samesite"] == "strict"
    (line,) = [line for line in caplog.messages if "logged in" in line]
    assert "user=ann" in line
    assert 'mechanism="OpenID Connect"' in line
    secrets = [sent["code"], sent["state"], CLIENT_SECRET, *browser.cookies.values(), *provider.forms[0].values()]
    assert not [text for text in secrets if text in caplog.text and text not in (CLIENT_ID, "authorization_code")]


def test_elliptic_keys_and_keys_without_an_id_verify_tokens(browser: SigningBrowser, provider: Provider) -> None:
    provider.keys, provider.sign = [SECOND.jwk()], SECOND.sign
    assert browser.sign_in(provider)[0] == 200


def test_the_only_key_needs_no_id(browser: SigningBrowser, provider: Provider) -> None:
    provider.sign = lambda claims: jwt.encode(claims, FIRST.key, "RS256")
    assert browser.sign_in(provider)[0] == 200


def test_unusable_keys_are_skipped(browser: SigningBrowser, provider: Provider) -> None:
    odd: list[Any] = [{"kty": "oct", "k": "AAAA", "kid": "first"}, {"kty": "RSA", "kid": "first"}, {"kty": "new"}, 7]
    provider.keys = [*odd, STRANGE.jwk(use="enc"), FIRST.jwk()]
    assert browser.sign_in(provider)[0] == 200


def test_a_token_for_several_clients_names_this_one(browser: SigningBrowser, provider: Provider) -> None:
    provider.claims = {"aud": ["other", CLIENT_ID], "azp": CLIENT_ID}
    assert browser.sign_in(provider)[0] == 200


def test_the_secret_is_sent_in_the_form_where_the_provider_takes_it_there_only(
    browser: SigningBrowser, provider: Provider
) -> None:
    provider.changes = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert browser.sign_in(provider)[0] == 200
    assert provider.forms[0]["client_secret"] == CLIENT_SECRET


def test_the_new_session_replaces_that_of_the_browser(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    assert browser.post("/api/login", {"username": "guest", "password": "guest"})[0] == 200
    earlier = dict(browser.cookies)
    assert browser.sign_in(provider)[0] == 200
    other = SigningBrowser(broker.http_url)
    other.cookies = earlier
    assert other.user is None


@pytest.mark.parametrize(
    ("origin", "path", "uri"),
    [
        ("http://localhost:15672", "/", "http://localhost:15672/"),
        ("https://broker.example", "/mq/", "https://broker.example/mq/"),
        ("https://broker.example", "//evil.example/", "https://broker.example/"),
        ("https://[::1]:8443", "/a/b/", "https://[::1]:8443/a/b/"),
    ],
)
def test_the_provider_sends_the_browser_to_the_folder_of_the_management_ui(
    broker: leveret.Broker, provider: Provider, origin: str, path: str, uri: str
) -> None:
    browser = SigningBrowser(broker.http_url, origin=origin, path=path)
    assert browser.start()["redirect_uri"] == uri
    ((name, attributes),) = browser.attributes.items()
    assert name.startswith("leveret_login_")
    assert attributes["path"] == "/" + uri.split("/", 3)[3]
    assert attributes["httponly"]
    assert attributes["samesite"] == "strict"
    assert bool(attributes.get("secure")) == origin.startswith("https")
    assert attributes["max-age"] == str(int(SECONDS))
    assert browser.sign_in(provider)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://user@{host}"},
        {"Origin": "http://{host}/path"},
        {"Origin": "javascript://{host}"},
    ],
)
def test_a_login_starts_in_the_management_ui_only(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider, headers: dict[str, str]
) -> None:
    host = browser.api.headers["Host"]
    browser.api.headers |= {name: value.format(host=host) for name, value in headers.items()}
    status, answer = browser.post(START, {})
    assert (status, "a proxy must pass on Host and Origin" in answer["reason"]) == (400, True)
    del browser.api.headers["X-Requested-With"]
    browser.api.headers["Origin"] = "http://evil.example"
    assert browser.post(START, {})[0] == 403
    del browser.api.headers["Origin"]
    assert browser.post(START, {})[0] == 403
    assert browser.post(COMPLETE, {"state": "s", "code": "c"})[0] == 403
    assert provider.requests == []


# ---- refused tokens


def signed_with_the_public_key(provider: Provider) -> None:
    """HS256 with the PEM of the public key as secret, which PyJWT refuses to make."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = FIRST.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def sign(claims: dict[str, Any]) -> str:
        import hashlib
        import hmac

        from jwt.utils import base64url_encode

        parts = [{"alg": "HS256", "typ": "JWT", "kid": "first"}, claims]
        start = b".".join(base64url_encode(json.dumps(part).encode()) for part in parts)
        return b".".join([start, base64url_encode(hmac.new(pem, start, hashlib.sha256).digest())]).decode()

    provider.sign = sign


def claims(**given: Any) -> Change:
    return lambda provider: provider.claims.update(given)


def sign(by: Callable[[dict[str, Any]], str]) -> Change:
    return lambda provider: setattr(provider, "sign", by)


def at(seconds: float) -> Change:
    """``exp`` and ``iat`` moved by so much."""

    def change(provider: Provider) -> None:
        now = int(provider.now() + seconds)
        provider.claims = {"iat": now, "exp": now + 300}

    return change


ALGORITHM = "its algorithm is not one of RS256"
REFUSED: dict[str, tuple[Change, str]] = {
    "issuer": (claims(iss="https://evil.example"), "from another issuer"),
    "audience": (claims(aud="other"), "for another client"),
    "party": (claims(azp="other"), "issued to another client"),
    "no party": (claims(aud=[CLIENT_ID, "other"]), "issued to another client"),
    "expired": (at(-361), "has expired"),
    "future": (at(75), "from the future"),  # a minute is allowed
    "not before": (lambda provider: provider.claims.update(nbf=provider.now() + 90), "from the future"),
    "strange time": (claims(exp="tomorrow"), "exp is not a time"),
    "nonce": (claims(nonce="other"), "answer to another login"),
    "no nonce": (claims(nonce=None), "answer to another login"),
    "no expiry": (claims(exp=None), "does not have all of the claims"),
    "no audience": (claims(aud=None), "does not have all of the claims"),
    "signature": (sign(STRANGE.sign), "its signature is wrong"),
    "cut signature": (sign(lambda claims: FIRST.sign(claims).rpartition(".")[0] + "."), "its signature is wrong"),
    "no algorithm": (sign(lambda claims: jwt.encode(claims, None, "none", {"kid": "first"})), ALGORITHM),
    "public key as secret": (signed_with_the_public_key, ALGORITHM),
    "secret of the client": (sign(lambda each: jwt.encode(each, "s" * 32, "HS256", {"kid": "first"})), ALGORITHM),
    "algorithm of another key": (sign(lambda each: SECOND.sign(each, kid="first")), "does not belong to the key"),
    "longer algorithm": (sign(lambda each: jwt.encode(each, FIRST.key, "RS512", {"kid": "first"})), "does not belong"),
    "unknown key": (sign(lambda each: FIRST.sign(each, kid="other")), "no key with its ID"),
    "extension": (sign(lambda each: FIRST.sign(each, crit=["b64"], b64=True)), "needs an extension"),
    "no token": (sign(lambda each: "x.y"), "not a signed token"),
    "no name": (claims(preferred_username=None), "no text in the claim 'preferred_username'"),
    "number as name": (claims(preferred_username=7), "no text in the claim"),
    "empty name": (claims(preferred_username=""), "no text in the claim"),
    "half a character": (claims(preferred_username="\ud800"), "no text in the claim"),
    "unknown user": (claims(preferred_username="Ann"), "the broker has no user 'Ann': an administrator can create it"),
    "no tag": (claims(preferred_username="app"), "'app' has none of the tags"),
    "error": (lambda provider: setattr(provider, "error", "access_denied"), "access_denied (the user said no)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_login_has_a_reason_one_log_line_and_no_session(
    name: str, browser: SigningBrowser, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    change, reason = REFUSED[name]
    change(provider)
    with caplog.at_level(logging.DEBUG, "leveret"):
        sent = browser.go(provider)
        status, answer = browser.post(COMPLETE, sent)
    assert (status, answer["error"]) == (401, "not_authorised")
    assert reason in answer["reason"]
    assert not [each for each in browser.cookies if each.startswith("leveret_session")]
    (line,) = [line for line in caplog.messages if "log" in line]
    assert line.startswith("login refused ")
    assert 'mechanism="OpenID Connect"' in line
    assert sent.get("code", "no code") not in caplog.text
    assert "eyJ" not in caplog.text  # the start of every token


@pytest.mark.parametrize(
    ("origin", "status"), [("http://127.0.0.1:15672", 200), ("http://localhost", 200), ("https://broker.example", 401)]
)
def test_loopback_users_sign_in_from_this_machine_only(
    broker: leveret.Broker, provider: Provider, origin: str, status: int
) -> None:
    provider.user = "guest"
    found, answer = SigningBrowser(broker.http_url, origin=origin).sign_in(provider)
    assert found == status
    if status == 401:
        assert answer["reason"] == "user 'guest' may log in from the machine of the broker only (loopback_users)"


def test_the_session_of_a_loopback_user_does_not_work_from_elsewhere(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    provider.user = "guest"
    assert browser.sign_in(provider)[0] == 200
    browser.api.headers["Host"] = "broker.example"
    assert browser.user is None


# ---- state


def refused_as_unknown(answer: tuple[int, Any]) -> None:
    assert answer[0] == 401
    assert "was not started in this browser" in answer[1]["reason"]


def test_a_response_is_for_one_use(browser: SigningBrowser, provider: Provider) -> None:
    sent, cookies = browser.go(provider), dict(browser.cookies)
    assert browser.post(COMPLETE, sent)[0] == 200
    browser.cookies = cookies
    refused_as_unknown(browser.post(COMPLETE, sent))


def test_a_response_is_for_the_browser_that_started_the_login(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    other = SigningBrowser(broker.http_url)
    other.start()
    refused_as_unknown(other.post(COMPLETE, browser.go(provider)))
    refused_as_unknown(SigningBrowser(broker.http_url).post(COMPLETE, browser.go(provider)))
    assert "/token" not in provider.requests


def test_a_response_with_another_state_is_refused(browser: SigningBrowser, provider: Provider) -> None:
    sent = browser.go(provider)
    refused_as_unknown(browser.post(COMPLETE, {**sent, "state": "other"}))


def test_the_code_of_another_login_is_refused(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    """PKCE: the provider compares the verifier."""
    stolen = SigningBrowser(broker.http_url).go(provider)["code"]
    status, answer = browser.post(COMPLETE, {**browser.go(provider), "code": stolen})
    assert (status, "error invalid_grant" in answer["reason"]) == (502, True)


def test_a_login_that_takes_too_long_is_refused(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    sent = browser.go(provider)
    broker.clock.advance(SECONDS)
    refused_as_unknown(browser.post(COMPLETE, sent))


@pytest.mark.parametrize(
    ("changes", "issuer", "status"),
    [
        ({}, None, 200),
        ({}, "https://evil.example", 401),
        ({"authorization_response_iss_parameter_supported": True}, None, 401),
    ],
)
def test_a_response_of_another_issuer_is_refused(
    browser: SigningBrowser, provider: Provider, changes: dict[str, Any], issuer: str | None, status: int
) -> None:
    provider.changes = changes
    sent = browser.go(provider)
    del sent["iss"]
    assert browser.post(COMPLETE, sent if issuer is None else {**sent, "iss": issuer})[0] == status


@pytest.mark.parametrize("body", [{}, {"state": 1}, [], {"state": "s", "code": "c" * 9000}])
def test_a_malformed_response_is_refused(browser: SigningBrowser, provider: Provider, body: object) -> None:
    assert browser.post(COMPLETE, body)[0] in (400, 413)


# ---- the provider


def reply(path: str, status: int, body: bytes) -> Change:
    return lambda provider: provider.replies.update({path: (status, body)})


def configured(**changes: object) -> Change:
    return lambda provider: provider.changes.update(changes)


FAILED: dict[str, tuple[Change, str]] = {
    "error": (reply(DISCOVERY, 500, b"{}"), "status 500"),
    "redirect": (reply(DISCOVERY, 302, b"{}"), "status 302"),
    "no JSON": (reply(DISCOVERY, 200, b"<html>"), "not a JSON object"),
    "too large": (reply(DISCOVERY, 200, b'{"a": "' + b"x" * LARGEST_REPLY + b'"}'), "larger than"),
    "other issuer": (configured(issuer="https://evil.example"), "'https://evil.example': set oidc_issuer to the same"),
    "plain endpoint": (configured(token_endpoint="http://evil.example/token"), "no token_endpoint with https"),
    "script": (configured(authorization_endpoint="javascript:alert(1)"), "no authorization_endpoint with https"),
    "no keys": (configured(jwks_uri=None), "no jwks_uri with https"),
    "nothing there": (configured(token_endpoint="http://127.0.0.1:1/token"), "cannot be reached"),
    "token error": (reply("/token", 200, b"{}"), "status 200 and no ID token"),
    "keys error": (reply("/keys", 404, b"{}"), "status 404"),
}


@pytest.mark.parametrize("name", FAILED)
def test_a_provider_that_fails_is_named_in_the_reason_and_in_the_log(
    name: str, browser: SigningBrowser, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    change, reason = FAILED[name]
    change(provider)
    status, answer = browser.post(START, {})
    if status == 200:
        sent = parameters_of(provider.log_in(parameters_of(answer["location"])))
        status, answer = browser.post(COMPLETE, sent)
    assert (status, answer["error"]) == (502, "provider_failed")
    assert answer["reason"].startswith("the identity provider cannot be used: ")
    assert reason in answer["reason"]
    (line,) = [line for line in caplog.messages if "login refused" in line]
    assert reason in line


def test_a_provider_that_fails_is_not_asked_again_at_once(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    provider.replies[DISCOVERY] = (500, b"{}")
    for _ in range(3):
        assert browser.post(START, {})[0] == 502
    assert provider.requests == [DISCOVERY]
    del provider.replies[DISCOVERY]
    broker.clock.advance(5)
    assert browser.sign_in(provider)[0] == 200


def test_a_provider_that_does_not_answer_holds_up_nothing_else(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_requests, "SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(1) as thread:
        provider.changes = {"token_endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}/token"}
        sent = browser.go(provider)
        completing = thread.submit(browser.post, COMPLETE, sent)
        connection, _ = silent.accept()
        with connection:
            assert HttpApi(broker.http_url).get("/api/whoami")[0] == 200
            assert not completing.done()
            status, answer = completing.result(60)
    assert (status, "was not answered in time" in answer["reason"]) == (502, True)


def test_configuration_and_keys_are_fetched_once_an_hour(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    for _ in range(3):
        assert browser.sign_in(provider)[0] == 200
    assert sorted(provider.requests) == sorted([DISCOVERY, "/keys", "/token", "/token", "/token"])


def test_a_new_key_is_fetched_when_a_token_names_it(
    broker: leveret.Broker, browser: SigningBrowser, provider: Provider
) -> None:
    assert browser.sign_in(provider)[0] == 200
    provider.keys, provider.sign = [SECOND.jwk()], SECOND.sign
    assert browser.sign_in(provider)[0] == 401  # the keys were fetched just now
    broker.clock.advance(NEW_KEYS_AFTER)
    assert browser.sign_in(provider)[0] == 200
    provider.sign = lambda each: SECOND.sign(each, kid="unknown")
    for _ in range(3):
        assert browser.sign_in(provider)[0] == 401
    assert provider.requests.count("/keys") == 2


# ---- settings


def test_the_login_page_shows_single_sign_on_if_it_is_configured(broker: leveret.Broker) -> None:
    answer = HttpApi(broker.http_url, None).get("/api/auth")[1]
    assert (answer["oidc_provider_name"], answer["oauth_enabled"]) == ("Keycloak", False)


def test_without_a_provider_there_is_no_single_sign_on() -> None:
    with leveret.Broker(QUIET) as plain:
        assert HttpApi(plain.http_url, None).get("/api/auth")[1]["oidc_provider_name"] is None
        for path in (START, COMPLETE):
            status, answer = SigningBrowser(plain.http_url).post(path, {"state": "s", "code": "c"})
            assert (status, answer["reason"].partition(":")[0]) == (404, "single sign-on is not configured")


def test_a_missing_extra_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = server_module.find_spec
    monkeypatch.setattr(server_module, "find_spec", lambda name: None if name == "jwt" else found(name))
    settings = replace(QUIET, oidc_issuer="https://id.example", oidc_client_id="x")
    with pytest.raises(leveret.errors.ConfigError, match=r"oidc_issuer needs jwt: pip install 'leveret\[oidc\]'"):
        leveret.Broker(settings).start()


def test_a_file_that_holds_no_certificates_is_named_at_the_start(tmp_path: Path) -> None:
    settings = replace(QUIET, oidc_issuer="https://id.example", oidc_client_id="x", oidc_tls_ca=tmp_path / "ca.pem")
    for _ in range(2):
        with pytest.raises(leveret.errors.ConfigError, match=r"oidc_tls_ca = '.*ca\.pem' cannot be read"):
            leveret.Broker(settings).start()
        (tmp_path / "ca.pem").write_text("no certificate")


def test_a_public_client_with_another_claim_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with running_provider("localhost", context) as provider:
        provider.is_confidential = False
        settings = replace(
            QUIET,
            oidc_issuer=provider.url,
            oidc_client_id=CLIENT_ID,
            oidc_user_claim="email",
            oidc_scopes=frozenset({"email"}),
        )
        with leveret.Broker(settings) as untrusting:
            status, answer = SigningBrowser(untrusting.http_url).post(START, {})
            assert (status, "certificate verify failed" in answer["reason"]) == (502, True)
        with leveret.Broker(replace(settings, oidc_tls_ca=tmp_path / "ca.pem")) as broker:
            users = broker.node.broker.users
            broker.call(lambda: users.add("ann@example.com", tags=("management",)))
            browser = SigningBrowser(broker.http_url)
            assert browser.start()["scope"] == "openid email"
            provider.claims = {"email": "ann@example.com", "email_verified": False}
            status, answer = browser.sign_in(provider)
            assert (status, "not verified the e-mail address" in answer["reason"]) == (401, True)
            provider.claims["email_verified"] = True
            assert browser.sign_in(provider)[0] == 200
            assert browser.user["name"] == "ann@example.com"
            assert "client_secret" not in provider.forms[0]


def test_single_sign_on_at_the_first_of_several_cells(tmp_path: Path, provider: Provider) -> None:
    provider.is_confidential, provider.now = False, time.time
    settings = ("--oidc-issuer", provider.url, "--oidc-client-id", CLIENT_ID)
    with BrokerProcess(tmp_path, "--cells", "2", "--http-port", "0", *settings) as cells:
        url = cells.url("http")
        api = ManagementApi(url)
        assert api.put("users/ann", {"password_hash": "", "tags": "monitoring"})[0] == 201
        browser = SigningBrowser(url.rstrip("/"))
        assert browser.sign_in(provider)[0] == 200
        assert browser.user["name"] == "ann"
        api.http.headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
        assert len(api.get("nodes")[1]) == 2  # asks both cells

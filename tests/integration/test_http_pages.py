"""The files of the page, and logging in at it, over a socket."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import leveret
from leveret.http import static_files as pages
from tests.support.http_api import HttpApi, basic

STRANGER = {"X-Requested-With": "leveret"}
FILES = pages.WebFiles()
DOCS = "https://www.rabbitmq.com/docs"  # a link for users; nothing is loaded from it


pytestmark = pytest.mark.broker


GUEST = {"name": "guest", "tags": ["administrator"], "has_session": True}


def api_of(broker: leveret.Broker, **headers: str) -> HttpApi:
    api = HttpApi(broker.http_url, user=None)
    api.headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return api


def log_in(broker: leveret.Broker) -> str:
    api = api_of(broker, X_Requested_With="leveret")
    response, answer = api.send("POST", "/api/login", b'{"username": "guest", "password": "guest"}')
    assert (response.status, json.loads(answer)) == (200, GUEST)
    return response.getheader("Set-Cookie", "").partition(";")[0]


# ---- files


def test_the_guide_is_open_to_all_and_names_outside_of_it_are_not_found(broker: leveret.Broker) -> None:
    api = api_of(broker)
    response, body = api.send("GET", "/web/guide/backup.md")
    assert (response.status, response.getheader("Content-Type")) == (200, "text/markdown; charset=utf-8")
    assert body.startswith(b"# Backup, restore, check\n")
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    for name in ("none", "proxies/nginx.conf", "..%2F..%2FREADME", "%2Fetc%2Fpasswd", "backup.md%00"):
        assert api.send("GET", f"/web/guide/{name}.md")[0].status == 404


@pytest.mark.feature("S4-78")
def test_the_front_page_is_open_to_all_and_strict(broker: leveret.Broker) -> None:
    response, body = api_of(broker).send("GET", "/")
    assert response.status == 200
    assert response.getheader("Content-Type") == "text/html; charset=utf-8"
    assert re.search(rb'src="web/[0-9a-f]{16}/main.js"', body)  # relative: a proxy may serve it below a path
    assert response.getheader("Cache-Control") == "no-cache"
    policy = dict(part.split(" ", 1) for part in response.getheader("Content-Security-Policy", "").split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    assert response.getheader("Referrer-Policy") == "no-referrer"


@pytest.mark.parametrize(
    ("folder", "cache_control"),
    [
        pytest.param("/web", "no-cache", id="without a digest"),
        pytest.param("/web/0123456789abcdef", "no-cache", id="the digest of another release"),
        pytest.param(f"/web/{FILES.digest}", pages.KEEP, id="the digest in the front page"),
    ],
)
def test_every_file_has_its_kind_and_is_asked_for_once(broker: leveret.Broker, folder: str, cache_control: str) -> None:
    kinds = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    assert len(FILES.by_name) > 10
    for name, file in FILES.by_name.items():
        path = f"{folder}/{name}"
        response, body = api_of(broker).send("GET", path)
        assert (response.status, body) == (200, file.body)
        assert response.getheader("Content-Type") == kinds[Path(name).suffix]
        assert response.getheader("Cache-Control") == cache_control
        again, nothing = api_of(broker, If_None_Match=response.getheader("ETag", "")).send("GET", path)
        assert (again.status, nothing) == (304, b"")
        changed, whole = api_of(broker, If_None_Match='"other"').send("GET", path)
        assert (changed.status, whole) == (200, file.body)


@pytest.mark.parametrize(
    "path",
    [
        "/web/../app.py",
        "/web/%2e%2e/app.py",
        "/web/",
        "/web",
        "/web/nothing.js",
        "/index.html",
        "/web/index.html",
        f"/web/{FILES.digest}/index.html",
    ],
)
def test_nothing_else_is_served(broker: leveret.Broker, path: str) -> None:
    response, body = HttpApi(broker.http_url).send("GET", path)
    assert response.status == 404
    assert b"import" not in body


def test_a_file_takes_no_other_method(broker: leveret.Broker) -> None:
    assert api_of(broker).send("POST", "/", b"")[0].status == 405
    response, body = api_of(broker).send("HEAD", "/web/main.js")
    assert (response.status, body) == (200, b"")


def test_files_of_other_kinds_are_left_alone(tmp_path: Path) -> None:
    for name in ("index.html", "main.js", "notes.txt", "main.js.bak"):
        (tmp_path / name).write_text("x")
    assert [*pages.WebFiles(tmp_path).by_name] == ["main.js"]


@pytest.mark.feature("S4-78")
def test_modules_import_only_what_is_there_and_no_code_takes_html() -> None:
    """Nothing from elsewhere, no markup made of names, no inline script or style."""
    served = {f"/web/{name}": file.body.decode() for name, file in FILES.by_name.items()}
    served["/"] = (pages.FOLDER / "index.html").read_text()
    for path, text in served.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            path
        )
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), path
        assert "https://" not in text.replace(DOCS, ""), path
        for name in re.findall(r'(?:from|import) "(\.[^"]+)"', text):
            target = Path(path).parent.joinpath(name)
            assert str(Path("/" + "/".join(_resolved(target)))) in served, (path, name)
    assert not re.search(r"<style|style=|<script(?![^>]*src=)| on[a-z]+=", served["/"])


def _resolved(path: Path) -> list[str]:
    parts: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return parts


# ---- sessions


@pytest.mark.feature("S4-72")
def test_a_cookie_stands_for_the_password(broker: leveret.Broker) -> None:
    cookie = log_in(broker)
    assert api_of(broker, Cookie=cookie).get("/api/whoami")[1]["name"] == "guest"
    assert api_of(broker, Cookie=cookie).get("/api/login") == (200, GUEST)
    assert api_of(broker).get("/api/login") == (200, None)
    page = api_of(broker, Cookie=cookie, **STRANGER)
    assert page.send("POST", "/api/logout")[0].status == 204
    assert page.get("/api/whoami")[0] == 401


@pytest.mark.feature("S4-72")
def test_another_site_cannot_use_the_cookie(broker: leveret.Broker) -> None:
    cookie = log_in(broker)
    address = "/api/queues/%2F/made"
    status, answer = api_of(broker, Cookie=cookie, Origin="http://evil.example").put(address, {})
    assert (status, answer["error"]) == (403, "access_refused")
    assert "X-Requested-With" in answer["reason"]
    assert "made" not in broker.call(lambda: broker.node.broker.vhosts["/"].queues)
    own = api_of(broker, Cookie=cookie, Origin=broker.http_url)
    assert own.send("PUT", address, b"{}")[0].status == 201


def test_a_password_in_the_request_counts_more_than_a_cookie(broker: leveret.Broker) -> None:
    api = HttpApi(broker.http_url, "guest", "wrong")
    api.headers["Cookie"] = log_in(broker)
    assert api.get("/api/whoami")[0] == 401


@pytest.mark.feature("S4-72")
def test_credentials_that_a_proxy_adds_replace_the_login_form(broker: leveret.Broker) -> None:
    """Also beside the cookie of another user, as in every request. A logout ends the session of the cookie only."""
    broker.call(lambda: broker.node.broker.users.add("ops", password="ops", tags=("monitoring",)))
    broker.call(lambda: broker.node.broker.users.add("app", password="app"))
    ops = {"name": "ops", "tags": ["monitoring"], "has_session": False}
    api = api_of(broker, Authorization=basic("ops", "ops"), Cookie=log_in(broker), **STRANGER)
    assert api.get("/api/login") == (200, ops)
    assert api.get("/api/whoami")[1]["name"] == "ops"
    assert api.send("POST", "/api/logout")[0].status == 204
    assert api.get("/api/login") == (200, ops)
    for name, password in (("ops", "wrong"), ("nobody", "x"), ("app", "app")):
        status, answer = api_of(broker, Authorization=basic(name, password)).get("/api/login")
        assert (status, "ops" in str(answer)) == (401, False), name
    assert api_of(broker, Authorization="Bearer abc").get("/api/login")[0] == 401


@pytest.mark.feature("S4-72")
def test_another_site_cannot_use_the_credentials_that_a_proxy_adds(broker: leveret.Broker) -> None:
    api = api_of(broker, Authorization=basic("guest", "guest"), Origin="http://evil.example")
    assert api.put("/api/queues/%2F/made", {})[0] == 403
    assert api.get("/api/login")[0] == 200  # which the other site cannot read
    assert api.send("GET", "/api/login")[0].getheader("Access-Control-Allow-Origin") is None


def test_the_page_is_spared_the_dialogue_of_the_browser(broker: leveret.Broker) -> None:
    assert api_of(broker).send("GET", "/api/whoami")[0].getheader("WWW-Authenticate", "").startswith("Basic")
    response, answer = api_of(broker, **STRANGER).send("GET", "/api/whoami")
    assert response.status == 401
    assert response.getheader("WWW-Authenticate") is None
    response, answer = api_of(broker, **STRANGER).send("POST", "/api/login", b'{"username": "guest", "password": "no"}')
    assert (response.status, response.getheader("Set-Cookie")) == (401, None)
    assert json.loads(answer)["reason"] == "invalid credentials"


def test_a_login_is_bounded(broker: leveret.Broker) -> None:
    api = api_of(broker, X_Requested_With="leveret")
    assert api.send("POST", "/api/login", b'{"username": "' + b"x" * 9000)[0].status == 413
    assert api.send("POST", "/api/login", b"nonsense")[0].status == 400


# ---- pages of other sites


CHANGES = [
    ("POST", "/api/definitions"),
    ("POST", "/api/queues/%2F/made/get"),
    ("PUT", "/api/queues/%2F/made"),
    ("DELETE", "/api/queues/%2F/made"),
    ("POST", "/api/pipeline/queries"),
    ("POST", "/api/tunnel"),
]


def as_page(broker: leveret.Broker, **headers: str) -> HttpApi:
    """What a browser sends for a page that knows, or guesses, a password: a form's address may name one."""
    api = HttpApi(broker.http_url)
    api.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    return api


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
@pytest.mark.feature("S4-72")
def test_a_form_of_another_site_changes_nothing_though_it_names_a_password(
    broker: leveret.Broker, method: str, path: str, headers: dict[str, str]
) -> None:
    response, body = as_page(broker, **headers).send(method, path, b'{"queues": []}')
    answer = json.loads(body)
    assert (response.status, answer["error"]) == (403, "access_refused")
    assert "X-Requested-With" in answer["reason"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "{own}"},
        {"Origin": "{own}", "Sec_Fetch_Site": "same-origin"},
        {"Sec_Fetch_Site": "none"},
        {"Origin": "http://proxied.example", "X_Requested_With": "leveret"},
    ],
)
def test_programs_and_our_own_page_go_on_as_ever(broker: leveret.Broker, headers: dict[str, str]) -> None:
    given = {name: value.format(own=broker.http_url) for name, value in headers.items()}
    status = as_page(broker, **given).send("PUT", "/api/queues/%2F/kept", b"{}")[0].status
    assert status in (201, 204)


def test_pages_of_other_sites_may_ask_since_they_are_not_told_the_answer(broker: leveret.Broker) -> None:
    response, _ = as_page(broker, Origin="http://evil.example").send("GET", "/api/whoami")
    assert response.status == 200
    assert response.getheader("Access-Control-Allow-Origin") is None

"""The management UI below a path of a real nginx, which removes the path or passes it on."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

import leveret
from tests.support.http_api import HttpApi
from tests.support.proxies import Proxy, nginx
from tests.support.web_page import SCREENSHOTS, Complaints

NGINX = """
events {}
http {
    server {
        listen 443;
        proxy_set_header Host $http_host;
        proxy_http_version 1.1;
        location /cut/mq/ { proxy_pass http://127.0.0.1:15672/; }
        location /kept { proxy_pass http://127.0.0.1:15672; }
        location / { return 404; }
    }
}
"""
pytestmark = pytest.mark.broker(http_path_prefix="/kept")


@pytest.fixture(scope="module")
def proxy(module_broker: leveret.Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("nginx")
    with nginx(folder, NGINX, urlsplit(module_broker.http_url).port or 0) as running:
        yield running


@pytest.mark.parametrize(
    ("address", "path"), [("/cut/mq/", "/cut/mq/"), ("/cut/mq", "/cut/mq/"), ("/kept/", "/kept/"), ("/kept", "/kept/")]
)
def test_login_pages_and_logout_work_below_a_path(
    module_broker: leveret.Broker, proxy: Proxy, chromium: Browser, complaints: Complaints, address: str, path: str
) -> None:
    port = proxy.ports[443]
    with chromium.new_context(base_url=f"http://localhost:{port}", locale="en-US") as context:
        page = context.new_page()
        complaints.watch(page)
        page.goto(f"{address}#/queues")
        page.get_by_label("User name").fill("guest")
        page.get_by_label("Password").fill("guest")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1, name="Queues")).to_be_visible()
        assert [cookie["path"] for cookie in context.cookies()] == [path]
        page.get_by_role("link", name="Overview").click()
        expect(page.locator(".tile").first).to_contain_text("0")
        page.screenshot(path=SCREENSHOTS / f"prefix-{path.strip('/').replace('/', '-')}.png", full_page=True)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Password")).to_be_visible()
        assert context.cookies() == []
    assert complaints == []


def test_the_api_answers_with_and_without_the_prefix(module_broker: leveret.Broker) -> None:
    api = HttpApi(module_broker.http_url)
    for address in ("/api/whoami", "/kept/api/whoami"):
        assert api.get(address)[0] == 200, address
    assert api.get("/keptapi/whoami")[0] == 404
    assert api.get("/kept/kept/api/whoami")[0] == 404


def test_a_cookie_has_no_path_but_a_folder(module_broker: leveret.Broker) -> None:
    for given, path in (("/a/b/", "/a/b/"), ("/a; Domain=x", "/"), ("//evil/", "/"), ("a", "/"), ("/a" * 200, "/")):
        api = HttpApi(module_broker.http_url, None)
        api.headers |= {"X-Requested-With": "leveret", "X-Leveret-Path": given}
        response, _ = api.send("POST", "/api/login", b'{"username": "guest", "password": "guest"}')
        assert f"Path={path};" in f"{response.getheader('set-cookie')};", given

"""Login with an identity provider, in a browser: the provider is another site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

import leveret
from tests.support.http_api import QUIET
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider
from tests.support.proxies import nginx
from tests.support.web_page import Complaints, Picture

NGINX = """
events {}
http {
    server {
        listen 443;
        proxy_set_header Host $http_host;
        proxy_http_version 1.1;
        location /cut/mq/ { proxy_pass http://127.0.0.1:15672/; }
        location /kept { proxy_pass http://127.0.0.1:15672; }
    }
}
"""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider("localhost") as provider:
        yield provider


@pytest.fixture
def broker(provider: Provider) -> Iterator[leveret.Broker]:
    settings = replace(
        QUIET,
        oidc_issuer=provider.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        oidc_provider_name="Example ID",
        http_path_prefix="/kept",
    )
    with leveret.Broker(settings) as broker:
        broker.call(lambda: broker.node.broker.users.add("ann", tags=("administrator",)))
        yield broker


def sign_in(page: Page) -> None:
    page.get_by_role("button", name="Sign in with Example ID").click()
    page.get_by_role("link", name="Continue").click()


def test_a_person_signs_in_at_the_provider_and_lands_on_the_overview(page: Page, picture: Picture) -> None:
    page.goto("/")
    expect(page.get_by_role("button", name="Sign in with Example ID")).to_be_visible()
    picture("single-sign-on")
    sign_in(page)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".user")).to_have_text("ann")
    assert urlsplit(page.url).query == ""
    (cookie,) = page.context.cookies()
    assert (cookie["sameSite"], cookie["httpOnly"]) == ("Strict", True)
    page.reload()
    expect(page.locator(".user")).to_have_text("ann")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    assert page.context.cookies() == []


def test_the_requested_page_is_shown_after_the_login(page: Page) -> None:
    page.goto("/#/queues")
    sign_in(page)
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()


def test_a_refused_login_shows_the_reason_and_can_be_repeated(
    page: Page, provider: Provider, complaints: Complaints, picture: Picture
) -> None:
    complaints.expect("401")
    provider.user = "<b>bob</b>"
    page.goto("/")
    sign_in(page)
    expect(page.get_by_role("alert")).to_contain_text("the broker has no user '<b>bob</b>'")
    assert urlsplit(page.url).query == ""
    picture("single-sign-on-refused")
    provider.user = "ann"
    sign_in(page)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_link_of_another_site_starts_no_session(page: Page, complaints: Complaints) -> None:
    complaints.expect("401")
    page.goto("/?state=x&code=y&error_description=call+us")
    expect(page.get_by_role("alert")).to_contain_text("this login was not started in this browser")
    expect(page.get_by_text("call us")).to_have_count(0)


def test_a_provider_that_does_not_answer_is_reported(page: Page, provider: Provider, complaints: Complaints) -> None:
    complaints.expect("502")
    provider.replies["/.well-known/openid-configuration"] = (500, b"{}")
    page.goto("/")
    page.get_by_role("button", name="Sign in with Example ID").click()
    expect(page.get_by_role("alert")).to_contain_text("status 500")
    expect(page.get_by_label("Password")).to_be_visible()


@pytest.mark.parametrize("path", ["/cut/mq/", "/kept/"])
def test_single_sign_on_works_below_a_path(
    broker: leveret.Broker,
    chromium: Browser,
    complaints: Complaints,
    tmp_path_factory: pytest.TempPathFactory,
    path: str,
) -> None:
    port = urlsplit(broker.http_url).port or 0
    with nginx(tmp_path_factory.mktemp("nginx"), NGINX, port) as proxy:
        base = f"http://127.0.0.1:{proxy.ports[443]}"
        with chromium.new_context(base_url=base, locale="en-US") as context:
            page = context.new_page()
            complaints.watch(page)
            page.goto(f"{path}#/queues")
            sign_in(page)
            expect(page.get_by_role("heading", level=1, name="Queues")).to_be_visible()
            assert page.url == f"{base}{path}#/queues"
            assert [cookie["path"] for cookie in context.cookies()] == [path]
    assert complaints == []

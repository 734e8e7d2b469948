"""The management UI behind a proxy that authenticates people and adds the credentials of a user of the broker."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import leveret
from tests.support.http_api import basic
from tests.support.web_page import Complaints, settle, stand_still


def test_credentials_of_a_proxy_open_the_pages_without_a_login(
    page: Page, broker: leveret.Broker, complaints: Complaints
) -> None:
    users = broker.node.broker.users
    broker.call(lambda: users.add("ops", password="ops", tags=("administrator",)))
    stand_still(page)
    page.set_extra_http_headers({"Authorization": basic("ops", "ops")})
    page.goto("/#/queues")
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
    expect(page.locator(".user")).to_have_text("ops")
    expect(page.get_by_role("button", name="Log out")).to_have_count(0)
    assert page.context.cookies() == []
    page.keyboard.press("Control+k")
    page.keyboard.type("log out")
    expect(page.get_by_role("option", name="Log out")).to_have_count(0)
    page.keyboard.press("Escape")
    complaints.expect("401")
    settle(page)
    broker.call(lambda: users.set_password("ops", password="changed"))
    page.clock.run_for(5_000)
    expect(page.get_by_text("Reload the page to log in at the proxy again")).to_be_visible()
    expect(page.get_by_label("Password")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("invalid credentials")

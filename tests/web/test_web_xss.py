"""Names chosen by users are shown as text."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.web_page import Complaints, LogIn, Picture

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, #notices img').length"


def furnish_with_canaries(broker: leveret.Broker) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost(CANARY))
    broker.call(lambda: core.users.add(CANARY, password="secret", tags=("administrator", CANARY)))
    broker.call(lambda: core.permissions.set(CANARY, CANARY, ".*", ".*", ".*"))
    vhost = broker.vhost(CANARY)
    vhost.declare_exchange(CANARY, "headers")
    vhost.declare_queue(CANARY, arguments={"x-canary": CANARY})
    vhost.bind(CANARY, CANARY, CANARY, {CANARY: CANARY})
    vhost.set_policy(CANARY, ".*", {"max-length": 1000})
    vhost.consume(CANARY, lambda message: None, tag=CANARY)
    vhost.declare_queue(f"{CANARY}2")
    properties = Properties(content_type=CANARY, message_id=CANARY, headers={CANARY: {CANARY: [CANARY]}})
    vhost.publish("", f"{CANARY}2", CANARY.encode(), properties)


def shows_as_text(page: Page, complaints: Complaints) -> None:
    expect(page.get_by_text(CANARY).first).to_be_visible()
    assert page.evaluate(FOUND) == 0
    assert complaints == []


def test_a_canary_in_every_field_shows_as_text(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints, picture: Picture
) -> None:
    furnish_with_canaries(broker)
    page = log_in(CANARY, "secret", "/#/queues")
    expect(page.locator(".rows tr")).to_have_count(2)
    shows_as_text(page, complaints)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("<img")
    page.get_by_role("dialog").get_by_role("option", name=f"{CANARY} queue in").first.click()
    expect(page.get_by_role("heading", name=CANARY)).to_be_visible()
    expect(page.get_by_role("region", name="consumers")).to_contain_text(CANARY)
    expect(page.get_by_role("region", name="bindings").locator(".rows tr").nth(1)).to_contain_text(CANARY)
    expect(page.locator(".badges")).to_contain_text(f"policy {CANARY}")
    page.get_by_text("Arguments, policy and counters").click()
    expect(page.locator(".facts")).to_contain_text(CANARY)
    shows_as_text(page, complaints)


def test_a_canary_in_a_message_shows_as_text(broker: leveret.Broker, log_in: LogIn, complaints: Complaints) -> None:
    furnish_with_canaries(broker)
    page = log_in(CANARY, "secret", "/#/queues")
    page.get_by_role("link", name=f"{CANARY}2").click()
    message = page.locator("details.message")
    message.locator("summary").click()
    expect(message.locator("pre")).to_have_text(CANARY)
    expect(message.locator("dl").first).to_contain_text(CANARY)
    expect(message.locator("dl").last).to_contain_text(CANARY)
    message.get_by_role("button", name="JSON").click()
    expect(message.locator("pre")).to_contain_text("Not valid JSON")
    page.get_by_role("button", name="Purge").click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    shows_as_text(page, complaints)


def test_a_canary_in_the_address_shows_as_text(log_in: LogIn, complaints: Complaints) -> None:
    page = log_in(address="/#/<img src=x onerror=alert(1)>")
    expect(page.get_by_role("alert")).to_contain_text("Page not found")
    assert page.evaluate(FOUND) == 0


def test_the_policy_of_the_page_stops_what_gets_in_all_the_same(log_in: LogIn, complaints: Complaints) -> None:
    page = log_in()
    ran = page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.canary = 1";
            document.body.append(script);
            return window.canary;
        }"""
    )
    assert ran is None
    assert any("Content Security Policy" in complaint for complaint in complaints)
    complaints.clear()

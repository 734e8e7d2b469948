"""The page of scheduled messages: list and cancel."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, #notices img').length"


def schedule(broker: leveret.Broker, exchange: str, key: str, seconds: float, vhost: str = "/") -> None:
    due = round((broker.clock.core.wall() + seconds) * 1000)
    broker.vhost(vhost).publish(exchange, key, b"x" * 2000, Properties(headers={"x-deliver-at": due}))


@pytest.mark.feature("S4-78")
def test_scheduled_messages_are_counted_down(
    broker: leveret.Broker, log_in: LogIn, page: Page, picture: Picture
) -> None:
    """The broker's clock counts, not the browser's."""
    broker.vhost().declare_queue("reminders")
    broker.vhost().declare_exchange("shop", "topic")
    broker.clock.advance(1_000_000)
    schedule(broker, "", "reminders", 3 * 86_400 + 7_230)
    schedule(broker, "shop", "order.late", 650)
    stand_still(page)
    log_in(address="/#/schedules")
    rows = page.locator(".rows tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(re.compile(r"10 min \d+ s"))
    expect(rows.first).to_contain_text("order.late")
    expect(rows.last).to_contain_text("3 d 2 h")
    expect(rows.last).to_contain_text("2.0 KiB")
    shown = rows.first.locator(".countdown").inner_text()
    page.clock.run_for(3_000)
    expect(rows.first.locator(".countdown")).to_have_text(f"10 min {int(shown.split()[2]) - 3} s")
    picture("schedules")
    with page.expect_download() as downloading:
        rows.first.get_by_role("button", name="Download the body of order.late").click()
    assert downloading.value.path().read_bytes() == b"x" * 2000
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)
    page.get_by_placeholder("Filter by exchange or routing key").fill("remind")
    page.clock.run_for(300)
    expect(rows).to_have_count(1)


@pytest.mark.feature("S4-78")
def test_a_scheduled_message_is_cancelled(broker: leveret.Broker, log_in: LogIn, page: Page) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("reminders")
    schedule(broker, "", "reminders", 60)
    stand_still(page)
    log_in(address="/#/schedules")
    page.get_by_role("button", name="Cancel reminders").click()
    expect(
        page.get_by_text("The scheduled message for (AMQP default) → reminders will be cancelled in 5 s")
    ).to_be_visible()
    page.clock.run_for(4_000)
    assert vhost.scheduled_count() == 1
    page.clock.run_for(1_100)
    expect(page.get_by_text("was cancelled.")).to_be_visible()
    expect(page.get_by_role("heading", name="No scheduled messages")).to_be_visible()
    assert vhost.scheduled_count() == 0


def test_schedules_of_all_virtual_hosts_or_of_one(
    broker: leveret.Broker, log_in: LogIn, picture: Picture, complaints: Complaints
) -> None:
    page = log_in(address="/#/schedules")
    expect(page.get_by_text("x-deliver-at").first).to_be_visible()
    picture("schedules-empty")
    core = broker.node.broker
    broker.call(lambda: core.add_vhost(CANARY))
    broker.call(lambda: core.permissions.set("guest", CANARY, ".*", ".*", ".*"))
    broker.vhost(CANARY).declare_exchange(CANARY, "topic")
    schedule(broker, CANARY, CANARY, 60, CANARY)
    schedule(broker, "", "reminders", 60)
    page.reload()
    rows = page.locator(".rows tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Virtual host").select_option(CANARY)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(CANARY)
    page.get_by_role("button", name="Cancel", exact=False).first.click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    assert page.evaluate(FOUND) == 0
    assert complaints == []


@pytest.mark.parametrize("reads", ["", ".*"])
def test_a_virtual_host_that_is_closed_is_left_out_or_told(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints, reads: str
) -> None:
    complaints.expect("403")
    core = broker.node.broker
    broker.call(lambda: core.add_vhost("open"))
    broker.call(lambda: core.users.add("ann", password="secret", tags=("management",)))
    broker.call(lambda: core.permissions.set("ann", "/", "", "", ""))
    broker.call(lambda: core.permissions.set("ann", "open", "", "", reads))
    schedule(broker, "", "reminders", 60, "open")
    page = log_in("ann", "secret", "/#/schedules")
    if reads:
        expect(page.locator(".rows tr")).to_have_count(1)
    else:
        expect(page.get_by_role("alert")).to_contain_text("refused for user 'ann'")

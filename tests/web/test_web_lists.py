"""Common to all lists: rows are shown at once, and filter and order survive Back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import leveret
from tests.support.web_page import Complaints, LogIn, stand_still

SHOP = "shop"


def names(page: Page) -> list[str]:
    return page.locator(".rows tr td.w-name a").all_inner_texts()


def add_vhost(broker: leveret.Broker, name: str) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost(name))
    broker.call(lambda: core.permissions.set("guest", name, ".*", ".*", ".*"))


@pytest.mark.feature("S4-78")
def test_a_list_is_full_at_first_sight(broker: leveret.Broker, page: Page, log_in: LogIn) -> None:
    """Before, a list without height showed few rows until the next poll, five seconds later."""
    for number in range(60):
        broker.vhost().declare_queue(f"q{number:02}")
    stand_still(page)
    log_in(address="/#/queues")
    last = page.locator(".rows tr").nth(25)
    expect(last).to_contain_text("q25")
    seen = page.locator(".table-scroll").evaluate("place => place.clientHeight / 36")
    assert page.locator(".rows tr").count() >= seen


def test_filter_order_and_virtual_host_are_there_again_after_back_and_in_a_link(
    broker: leveret.Broker, log_in: LogIn
) -> None:
    add_vhost(broker, SHOP)
    for vhost in ("/", SHOP):
        for name in ("orders.eu", "orders.us", "mails"):
            broker.vhost(vhost).declare_queue(name)
    page = log_in(address="/#/queues")
    page.get_by_label("Virtual host").select_option(SHOP)
    page.get_by_label("Filter queues by name").fill("orders")
    expect(page.locator(".count")).to_have_text("2 of 3 queues")
    page.get_by_role("button", name="Name").click()  # the other way round
    expect(page.locator(".rows tr").first).to_contain_text("orders.us")

    page.get_by_role("link", name="orders.us").click()
    expect(page.get_by_role("heading", level=1, name="orders.us")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Filter queues by name")).to_have_value("orders")
    expect(page.locator(".count")).to_have_text("2 of 3 queues")
    assert names(page) == ["orders.us", "orders.eu"]

    page.reload()
    expect(page.get_by_label("Virtual host")).to_have_value(SHOP)
    expect(page.locator(".count")).to_have_text("2 of 3 queues")
    page.get_by_role("link", name="Queues").click()  # the whole list again
    expect(page.locator(".count")).to_have_text("6 queues")


def test_a_virtual_host_without_queues_can_be_left_again(broker: leveret.Broker, log_in: LogIn) -> None:
    add_vhost(broker, SHOP)
    broker.vhost().declare_queue("orders")
    page = log_in(address="/#/queues")
    page.get_by_label("Virtual host").select_option(SHOP)
    expect(page.get_by_role("heading", name="No queues in virtual host shop yet")).to_be_visible()
    expect(page.locator(".first pre")).to_contain_text(re.compile(r":\d+/shop"))
    page.get_by_label("Virtual host").select_option("")
    expect(page.locator(".rows tr")).to_contain_text("orders")


def test_a_link_to_a_virtual_host_that_is_gone_shows_all(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints
) -> None:
    complaints.expect("404")
    broker.vhost().declare_queue("orders")
    page = log_in(address="/#/queues?vhost=gone")
    expect(page.locator(".rows tr")).to_contain_text("orders")
    expect(page.get_by_role("alert").filter(visible=True)).to_have_count(0)


def test_queues_of_the_same_name_are_told_apart_where_there_is_no_room_for_a_column(
    broker: leveret.Broker, log_in: LogIn
) -> None:
    add_vhost(broker, SHOP)
    for vhost in ("/", SHOP):
        broker.vhost(vhost).declare_queue("orders")
    page = log_in(address="/#/queues")
    expect(page.locator(".rows tr")).to_have_count(2)
    expect(page.get_by_text("in shop")).to_be_hidden()
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.get_by_text("in shop")).to_be_visible()


def test_numbers_are_written_as_they_are(log_in: LogIn) -> None:
    """A hundred thousand was "1 k"."""
    page = log_in()
    written = """async () => {
        const { ago, short } = await import("/web/format.js");
        return [0, 950, 4321, 12345, 100000, 200000, 1500000, 0.25].map(short).concat(ago(0.3), ago(3));
    }"""
    assert page.evaluate(written) == [
        *("0", "950", "4,321", "12.3 k", "100 k", "200 k", "1.5 M", "0.3"),
        *("just now", "3 s ago"),
    ]

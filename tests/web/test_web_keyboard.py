"""The management UI without a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

import leveret
from tests.support.web_page import LogIn, stand_still


@pytest.mark.feature("S4-78")
def test_one_escape_closes_the_search_and_focus_goes_back(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders")
    page = log_in(address="/#/queues/%2F/orders")
    publish = page.get_by_role("button", name="Publish message …")
    publish.focus()
    page.keyboard.press("Control+k")
    page.keyboard.type("ord")
    expect(page.get_by_role("option", name="orders")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(publish).to_be_focused()


def test_what_is_called_just_so_is_found_first(broker: leveret.Broker, log_in: LogIn) -> None:
    for name in ("a.mails", "mails", "mails.old"):
        broker.vhost().declare_queue(name)
    page = log_in()
    page.keyboard.press("Control+k")
    page.keyboard.type("mails")
    expect(page.get_by_role("option")).to_have_count(3)
    titles = page.locator("[role=option] > span").all_inner_texts()
    assert titles == ["mails", "mails.old", "a.mails"]


def test_who_types_faster_than_the_page_looks_goes_where_that_leads(
    broker: leveret.Broker, page: Page, log_in: LogIn
) -> None:
    """Enter within 150 ms opened the overview, the first entry of the previous results."""
    broker.vhost().declare_queue("orders")
    stand_still(page)
    log_in(address="/#/queues")
    page.keyboard.press("Control+k")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="orders")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option", selected=True)).to_contain_text("Overview")


def test_focus_follows_to_the_new_page_and_the_menu_can_be_skipped(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders")
    page = log_in(address="/#/queues")
    page.get_by_role("link", name="orders").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="orders")).to_be_visible()
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Publish message …")).to_be_focused()

    page.reload()
    expect(page.get_by_role("button", name="Pause")).to_be_enabled()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_a_dialogue_begins_in_its_first_field(broker: leveret.Broker, log_in: LogIn) -> None:
    page = log_in(address="/#/queues")
    page.get_by_role("button", name="Add queue").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="orders")).to_be_visible()
    assert broker.vhost().message_count("orders") == 0

"""Polling: pages follow the broker without disturbing the user."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

import leveret
from tests.support.management_api import as_guest
from tests.support.running_clients import client, name_of
from tests.support.web_page import Complaints, LogIn, settle, stand_still

INTERVAL = 5_000  # milliseconds between two polls
SHOP = "shop"
STREAM = {"x-queue-type": "stream"}

SHOWN_BY = """async () => {
    const { Table, rowsSource } = await import("/web/table.js");
    const leaving = new AbortController();
    const table = (show) => new Table({
        columns: [{ title: "Name", value: (row) => row.name, show }],
        source: rowsSource(async () => [{ name: "a" }]),
        signal: leaving.signal,
    });
    const given = await new Promise((told) => document.body.append(table((...all) => told(all.length)).element));
    leaving.abort();
    return given;
}"""


def add_shop(broker: leveret.Broker) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost(SHOP))
    broker.call(lambda: core.permissions.set("guest", SHOP, ".*", ".*", ".*"))


def refreshed(page: Page, address: str) -> None:
    """Answer two further requests of the page to `address` and wait until it has displayed the answers.

    The clock runs only while no request is in flight: the page sets its timer when an answer arrives, and for longer
    the longer the answer took.
    """
    for _ in range(2):
        settle(page)
        with page.expect_response(address):
            page.clock.run_for(INTERVAL)
    settle(page)


def test_a_name_leads_to_its_own_virtual_host_when_another_is_chosen(broker: leveret.Broker, log_in: LogIn) -> None:
    """Before, the link of a row with the same name stayed, and led to a queue of another virtual host."""
    add_shop(broker)
    for vhost in ("/", SHOP):
        broker.vhost(vhost).declare_queue("events", durable=True, arguments=STREAM)
    page = log_in()
    for kind, name in (("queues", "events"), ("exchanges", "amq.direct"), ("streams", "events")):
        page.goto(f"/#/{kind}?vhost=%2F")
        link = page.get_by_role("link", name=name, exact=True)
        expect(link).to_have_attribute("href", f"#/{kind}/%2F/{name}")
        page.get_by_label("Virtual host").select_option(SHOP)
        expect(link).to_have_attribute("href", f"#/{kind}/{SHOP}/{name}")
    assert page.evaluate(SHOWN_BY) == 1, "cells are shown by their value alone: it says when they must be shown anew"


def test_what_stays_the_same_is_not_made_anew_at_each_look(
    broker: leveret.Broker, page: Page, log_in: LogIn, complaints: Complaints
) -> None:
    """Before, buttons were replaced every five seconds and lost the focus."""
    complaints.expect("404")
    stand_still(page)
    log_in(address="/#/traces/%2F")
    switch = page.get_by_role("button", name="Enable tracing")
    switch.focus()
    refreshed(page, "**/api/traces/%2F?*")
    expect(switch).to_be_focused()
    switch.click()
    switch = page.get_by_role("button", name="Disable tracing")
    switch.focus()
    refreshed(page, "**/api/traces/%2F?*")
    expect(switch).to_be_focused()

    page.goto("/#/connections")
    expect(page.get_by_text("No connections.")).to_contain_text(re.compile(r":\d+/"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    refreshed(page, "**/api/connections?*")
    assert [url for url in asked if "/api/overview" in url] == []
    with client(broker) as channel:
        page.goto(f"/#/channels/{name_of(as_guest(broker))} ({channel.channel_number})")
        link = page.locator(".page-head a")
        link.focus()
        refreshed(page, "**/api/channels/*msg_rates*")
        expect(link).to_be_focused()

    page.goto("/#/queues/%2F/gone")
    back = page.get_by_role("link", name="All queues")
    back.focus()
    refreshed(page, "**/api/queues/%2F/gone?lengths*")
    expect(back).to_be_focused()


def test_only_answers_say_that_the_broker_answers(page: Page, log_in: LogIn, complaints: Complaints) -> None:
    """Before, tables over loaded rows cleared the error, because they send no request."""
    complaints.expect("ERR_CONNECTION_REFUSED")
    stand_still(page)
    log_in(address="/#/pipelines")
    expect(page.get_by_role("heading", name="No Spark queries yet")).to_be_visible()
    settle(page)
    page.route("**/api/**", lambda route: route.abort("connectionrefused"))
    page.clock.run_for(INTERVAL)
    told = page.get_by_role("alert").filter(has_text="No response from the broker")
    expect(told).to_be_visible()
    settle(page)
    page.unroute("**/api/**")
    held: list[Route] = []
    page.route("**/api/**", lambda route: held.append(route))  # neither answered nor refused
    with page.expect_request("**/api/leases"):
        page.clock.run_for(INTERVAL)
    assert told.is_visible()
    for route in held:
        route.continue_()
    expect(told).to_be_hidden()


def test_what_was_typed_before_a_page_was_left_does_not_follow(
    broker: leveret.Broker, page: Page, log_in: LogIn
) -> None:
    broker.vhost().declare_queue("orders")
    stand_still(page)
    log_in(address="/#/queues")
    page.get_by_label("Filter queues by name").fill("ord")
    page.get_by_role("link", name="Exchanges").click()
    expect(page.locator(".count")).to_contain_text("exchanges")
    page.clock.run_for(1_000)
    assert page.evaluate("location.hash") == "#/exchanges"


def test_a_virtual_host_stays_chosen_when_nobody_tells_which_there_are(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints
) -> None:
    complaints.expect("ERR_FAILED")
    add_shop(broker)
    for vhost in ("/", SHOP):
        broker.vhost(vhost).declare_queue(f"of {vhost}")
    page = log_in()
    page.route("**/api/vhosts?*", lambda route: route.abort())
    with page.expect_event("requestfailed"):
        page.goto(f"/#/queues?vhost={SHOP}")
    expect(page.locator(".rows tr")).to_contain_text("of shop")
    assert page.evaluate("location.hash") == f"#/queues?vhost={SHOP}"


def test_undo_can_be_pressed_while_a_dialogue_is_open(broker: leveret.Broker, page: Page, log_in: LogIn) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("orders")
    vhost.publish("", "orders", b"x")
    stand_still(page)
    log_in(address="/#/queues/%2F/orders")
    purge, undo = page.get_by_role("button", name="Purge"), page.get_by_role("button", name="Undo")
    purge.click()
    page.get_by_role("button", name="Publish message …").click()
    expect(page.get_by_role("dialog")).to_contain_text("Publish message to")
    undo.click()
    expect(page.get_by_text("Undone. Nothing was changed.")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("Undone. Nothing was changed.")).to_be_visible()

    purge.click()
    page.keyboard.press("Control+k")
    undo.focus()
    page.keyboard.press("Enter")  # is not for the search
    expect(undo).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.clock.run_for(3 * INTERVAL)
    expect(page.get_by_role("heading", level=1, name="orders")).to_be_visible()
    assert vhost.message_count("orders") == 1


def test_a_clipboard_that_is_refused_is_told(log_in: LogIn) -> None:
    page = log_in()
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    page.get_by_role("button", name="Copy").click()
    expect(page.locator(".notice")).to_contain_text("select the text and copy it")
    page.goto("/#/pipelines")
    page.get_by_role("button", name="Copy").click()
    expect(page.locator(".notice")).to_have_count(2)

"""The list of queues, and one queue."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.web_page import Complaints, LogIn, Picture, furnish, stand_still


def names(page: Page) -> list[str]:
    return page.locator(".rows tr td.w-name").all_inner_texts()


# ---- the list


@pytest.mark.feature("S4-78")
def test_queues_are_listed_sorted_and_filtered(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    furnish(broker)
    page = log_in(address="/#/queues")
    rows = page.locator(".rows tr")
    expect(rows).to_have_count(5)
    assert names(page) == ["audit.log", "invoices", "mails", "orders", "returns"]
    expect(rows.filter(has_text="orders").locator("svg.spark:not(.rates) path")).to_be_visible()
    expect(
        rows.filter(has_text="orders").get_by_label("Publish and deliver rates of orders").locator("path")
    ).to_have_count(2)
    picture("queues")
    page.get_by_role("button", name="Ready").click()
    expect(rows.first).to_contain_text("invoices")  # it has no consumers
    page.get_by_label("Filter queues by name").fill("il")
    expect(rows).to_have_count(1)
    assert names(page) == ["mails"]
    page.get_by_label("Filter queues by name").fill("nothing like it")
    expect(page.get_by_text("No queues match “nothing like it”.")).to_be_visible()


def test_ten_thousand_queues_need_few_rows_of_the_document(broker: leveret.Broker, log_in: LogIn) -> None:
    def declare_many() -> None:
        for number in range(10_000):
            broker.node.broker.vhosts["/"].declare_queue(f"q{number:05}")

    broker.call(declare_many)
    page = log_in(address="/#/queues")
    expect(page.locator(".rows tr").first).to_contain_text("q00000")
    expect(page.locator(".count")).to_have_text("10,000 queues")
    assert page.locator(".rows tr").count() < 60
    page.locator(".table-scroll").evaluate("scroller => scroller.scrollTop = scroller.scrollHeight / 2")
    expect(page.get_by_text("q05000")).to_be_visible()
    page.locator(".table-scroll").evaluate("scroller => scroller.scrollTop = scroller.scrollHeight")
    expect(page.get_by_text("q09999")).to_be_visible()
    assert page.locator(".rows tr").count() < 60


def test_a_queue_is_added(broker: leveret.Broker, log_in: LogIn) -> None:
    page = log_in(address="/#/queues")
    expect(page.get_by_role("heading", name="No queues yet")).to_be_visible()
    page.get_by_role("button", name="Add queue").click()
    page.get_by_label("Name", exact=True).fill("brand new/ü")
    page.get_by_role("dialog").get_by_role("button", name="Add queue").click()
    expect(page.get_by_role("heading", name="brand new/ü")).to_be_visible()
    assert broker.call(lambda: broker.node.broker.vhosts["/"].queues["brand new/ü"].durable)


# ---- one queue


@pytest.mark.feature("S4-78")
def test_a_queue_shows_its_messages_decoded(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    furnish(broker)
    page = log_in(address="/#/queues/%2F/invoices")
    first = page.locator("details.message").first
    first.locator("summary").click()
    expect(first.locator("pre")).to_contain_text('"city": "Ghent"')
    picture("queue")
    first.get_by_role("button", name="Hex").click()
    expect(first.locator("pre")).to_contain_text("00000000  7b 22 6f 72 64 65 72 22")
    first.get_by_role("button", name="Text").click()
    expect(first.locator("pre")).to_have_text(re.compile(r'^\{"order": 0, '))
    page.get_by_placeholder("Body contains").fill('"order": 31,')
    page.get_by_role("button", name="Search messages").click()
    expect(page.locator("details.message")).to_have_count(1)
    page.goto("/#/queues/%2F/returns")
    page.locator("details.message summary").click()
    expect(page.locator("details.message pre")).to_contain_text("00 01 02 03")
    assert broker.vhost().message_count("returns") == 1


def test_consumers_and_bindings_are_listed(broker: leveret.Broker, log_in: LogIn) -> None:
    vhost = broker.vhost()
    vhost.declare_exchange("shop", "topic")
    vhost.declare_queue("orders")
    vhost.bind("orders", "shop", "order.*")
    vhost.consume("orders", lambda message: None, tag="till")
    page = log_in(address="/#/queues/%2F/orders")
    expect(page.get_by_role("region", name="consumers")).to_contain_text("till")
    expect(page.get_by_role("region", name="bindings")).to_contain_text("order.*")


def test_a_message_is_published(broker: leveret.Broker, log_in: LogIn) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("orders", durable=True)
    page = log_in(address="/#/queues/%2F/orders")
    expect(page.get_by_text("No ready messages.")).to_be_visible()
    page.get_by_role("button", name="Publish message …").click()
    page.get_by_label("Body", exact=True).fill('{"n": 1}')
    page.get_by_role("textbox", name="Headers").fill('{"colour": "red"}')
    page.get_by_role("dialog").get_by_role("button", name="Publish message").click()
    expect(page.locator("details.message")).to_contain_text('{"n": 1}')
    got = vhost.get("orders", auto_ack=True)
    assert got is not None
    assert (got.body, got.properties.headers, got.properties.delivery_mode) == (b'{"n": 1}', {"colour": "red"}, 2)
    page.get_by_role("textbox", name="Headers").fill("[1]")
    page.get_by_role("dialog").get_by_role("button", name="Publish message").click()
    expect(page.get_by_role("alert")).to_contain_text("must be a JSON object")


def test_a_purge_waits_and_can_be_undone(broker: leveret.Broker, log_in: LogIn, page: Page) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("orders")
    for _ in range(3):
        vhost.publish("", "orders", b"x")
    stand_still(page)
    log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Purge").click()
    expect(page.get_by_text("3 messages in queue orders will be deleted in 5 s")).to_be_visible()
    page.clock.run_for(4_000)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone. Nothing was changed.")).to_be_visible()
    page.clock.run_for(10_000)
    assert vhost.message_count("orders") == 3

    page.get_by_role("button", name="Purge").click()
    page.clock.run_for(4_000)
    assert vhost.message_count("orders") == 3
    page.clock.run_for(1_100)
    expect(page.get_by_text("Queue orders purged.")).to_be_visible()
    assert vhost.message_count("orders") == 0


def test_a_queue_is_paused_and_goes_on(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders")
    queue = broker.node.broker.vhosts["/"].queues["orders"]
    page = log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.locator(".badges")).to_contain_text("paused")
    assert broker.call(lambda: queue.consumers.paused)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert not broker.call(lambda: queue.consumers.paused)


def test_the_oldest_message_has_an_age(broker: leveret.Broker, log_in: LogIn) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("orders", arguments={"x-message-ttl": 3_600_000})
    vhost.publish("", "orders", b"x", Properties())
    broker.clock.advance(125)
    page = log_in(address="/#/queues/%2F/orders")
    expect(page.locator(".tile").filter(has_text="Oldest")).to_contain_text("2 min ")


def test_a_queue_that_is_gone_is_told(broker: leveret.Broker, log_in: LogIn, complaints: Complaints) -> None:
    complaints.expect("404")
    page = log_in(address="/#/queues/%2F/nowhere")
    expect(page.get_by_role("alert").first).to_contain_text("nowhere")
    page.goto("/#/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

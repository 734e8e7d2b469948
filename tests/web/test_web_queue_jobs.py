"""Jobs on many messages of a queue: dry run, start, progress and cancel."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, #notices img, dialog img').length"


def stock(broker: leveret.Broker) -> None:
    """Ten orders of three customers, three of them urgent."""
    vhost = broker.vhost()
    for name in ("orders", "other"):
        vhost.declare_queue(name, durable=True)
    for n in range(10):
        body = b'{"order": %d, "customer": {"id": %d}}' % (n, n % 3)
        vhost.publish("", "orders", body, Properties(headers={"urgent": n < 3}))


def counts(broker: leveret.Broker) -> tuple[int, int]:
    return broker.vhost().message_count("orders"), broker.vhost().message_count("other")


@pytest.mark.feature("S4-78")
def test_messages_are_searched_by_json_and_moved(
    broker: leveret.Broker, log_in: LogIn, picture: Picture, complaints: Complaints
) -> None:
    complaints.expect("404")
    stock(broker)
    page = log_in(address="/#/queues/%2F/orders")
    page.get_by_placeholder("JSON: ").fill("customer.id=2")
    page.get_by_role("button", name="Search messages").click()
    expect(page.locator("details.message")).to_have_count(3)
    page.get_by_role("button", name="Move …").click()
    box = page.get_by_role("dialog", name="Move messages from orders")
    expect(box.get_by_label("JSON path and value")).to_have_value("customer.id=2")  # preset from the filter of the list
    box.get_by_label("Destination queue").fill("nowhere")
    box.get_by_role("button", name="Count messages").click()
    expect(box.get_by_role("alert")).to_contain_text("no queue 'nowhere'")
    box.get_by_label("Destination queue").fill("other")
    box.get_by_role("button", name="Count messages").click()
    expect(box).to_contain_text("Would move 3 messages of 10 inspected.")
    picture("queue-move")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)
    assert counts(broker) == (10, 0)
    box.get_by_label("JSON path and value").fill("customer.id=1")
    expect(box.get_by_text("Would move")).to_be_hidden()  # the filter has changed
    box.get_by_label("JSON path and value").fill("")
    box.get_by_label("Header selector").fill("urgent = TRUE")
    box.get_by_role("button", name="Count messages").click()
    box.get_by_role("button", name="Move 3 messages").click()
    expect(page.get_by_text("Moved 3 messages from orders to other.")).to_be_visible()
    expect(page.locator("details.message")).to_have_count(2)  # order 2 was one of the three
    assert counts(broker) == (7, 3)


@pytest.mark.feature("S4-78")
def test_messages_are_moved_to_another_virtual_host(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    stock(broker)
    core = broker.node.broker
    page = log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Move …").click()
    box = page.get_by_role("dialog")
    expect(box.get_by_label("Destination queue")).to_be_visible()
    expect(box.get_by_label("Virtual host of the destination")).to_be_hidden()  # there is only one
    page.keyboard.press("Escape")
    broker.call(lambda: core.add_vhost("shop"))
    broker.call(lambda: core.permissions.set("guest", "shop", ".*", ".*", ".*"))
    broker.vhost("shop").declare_queue("orders")
    page.get_by_role("button", name="Move …").click()
    box.get_by_label("Virtual host of the destination").select_option("shop")
    expect(box.locator("#destinations option[value='orders']")).to_have_count(1)
    box.get_by_label("Destination queue").fill("orders")
    box.get_by_label("Header selector").fill("urgent = TRUE")
    box.get_by_role("button", name="Count messages").click()
    expect(box).to_contain_text("Would move 3 messages")
    picture("queue-move-vhost")
    box.get_by_role("button", name="Move 3 messages").click()
    expect(page.get_by_text("Moved 3 messages from orders to orders in shop.")).to_be_visible()
    assert (counts(broker)[0], broker.vhost("shop").message_count("orders")) == (7, 3)


@pytest.mark.feature("S4-78")
def test_messages_are_copied_and_deleted(broker: leveret.Broker, log_in: LogIn, page: Page) -> None:
    stock(broker)
    log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Copy …").click()
    box = page.get_by_role("dialog")
    box.get_by_label("Destination queue").fill("other")
    box.get_by_label("Maximum messages").fill("4")
    box.get_by_role("button", name="Count messages").click()
    box.get_by_role("button", name="Copy 4 messages").click()
    expect(page.get_by_text("Copied 4 messages from orders to other.")).to_be_visible()
    assert counts(broker) == (10, 4)

    page.get_by_role("button", name="Delete …").click()
    box.get_by_label("Body contains").fill('"order": 9')
    box.get_by_role("button", name="Count messages").click()
    expect(box).to_contain_text("Would delete 1 message of 10 inspected.")
    stand_still(page)
    box.get_by_role("button", name="Delete 1 message").click()
    expect(page.get_by_text("1 message in queue orders will be deleted in 5 s")).to_be_visible()
    page.clock.run_for(4_000)
    assert counts(broker) == (10, 4)
    page.clock.run_for(1_100)
    expect(page.get_by_text("Deleted 1 message from orders.")).to_be_visible()
    assert counts(broker) == (9, 4)


@pytest.mark.feature("S4-78")
def test_dead_letters_are_driven_back_at_a_rate_and_the_job_is_cancelled(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    stock(broker)
    vhost = broker.vhost()
    vhost.declare_queue("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"})
    for _ in range(3):
        vhost.publish("", "work", b"x")
        got = vhost.get("work")
        assert got is not None
        vhost.nack(got.delivery_tag, requeue=False)
    vhost.publish("", "other", b"not dead")
    page = log_in(address="/#/queues/%2F/other")
    page.get_by_role("button", name="Retry …").click()
    box = page.get_by_role("dialog")
    box.get_by_label("Messages per second").fill("0.01")
    box.get_by_role("button", name="Count messages").click()
    expect(box).to_contain_text("Would retry 3 messages of 4 inspected.")
    expect(box).to_contain_text("Destination: work (3).")
    expect(box).to_contain_text("1 message would be skipped: they are not dead-lettered")
    box.get_by_role("button", name="Retry 3 messages").click()
    running = page.get_by_role("region", name="Running jobs")
    expect(running).to_contain_text("Retrying messages from other at 0.01/s: 1 of 3")
    picture("queue-job")
    running.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Job cancelled. Retried 1 message from other before it stopped.")).to_be_visible()
    assert vhost.message_count("work") == 1


def test_a_stream_can_only_be_copied_from(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("log", durable=True, arguments={"x-queue-type": "stream"})
    page = log_in(address="/#/queues/%2F/log")
    expect(page.locator(".badges")).to_contain_text("stream")
    expect(page.get_by_role("button", name="Copy …")).to_be_visible()
    for name in ("Move …", "Delete …", "Retry …", "Purge"):
        expect(page.get_by_role("button", name=name)).to_be_hidden()


def test_a_canary_in_a_job_shows_as_text(broker: leveret.Broker, log_in: LogIn, complaints: Complaints) -> None:
    vhost = broker.vhost()
    vhost.declare_queue(CANARY)
    vhost.declare_queue(f"{CANARY}2")
    vhost.publish("", CANARY, b"x")
    page = log_in(address="/#/queues")
    page.get_by_role("link", name=CANARY, exact=True).click()
    page.get_by_role("button", name="Move …").click()
    box = page.get_by_role("dialog")
    expect(box.get_by_role("heading")).to_contain_text(CANARY)
    box.get_by_label("Destination queue").fill(f"{CANARY}2")
    box.get_by_role("button", name="Count messages").click()
    box.get_by_role("button", name="Move 1 message").click()
    expect(page.get_by_text("Moved 1 message from")).to_contain_text(f"from {CANARY} to {CANARY}2.")
    assert page.evaluate(FOUND) == 0
    assert complaints == []

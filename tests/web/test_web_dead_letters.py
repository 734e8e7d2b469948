"""Dead letters by cause: browse, retry and delete."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.embedded_vhost import EmbeddedVhost
from leveret.wire.fields import Table
from leveret.wire.properties import Properties
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, #notices img, dialog img').length"


def reject(vhost: EmbeddedVhost, queue: str) -> None:
    got = vhost.get(queue)
    assert got is not None
    vhost.nack(got.delivery_tag, requeue=False)


def bury(broker: leveret.Broker) -> None:
    """Six rejected orders and two expired mails, all in the queue dead."""
    vhost = broker.vhost()
    vhost.declare_exchange("shop", "topic")
    vhost.declare_queue("dead", durable=True)
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    for name in ("orders", "mails"):
        vhost.declare_queue(name, durable=True, arguments=to_dead)
        vhost.bind(name, "shop", f"{name}.*")
    for n in range(6):
        headers: Table = {"n": n, "x-exception-message": "no stock"}
        vhost.publish("shop", "orders.new", b'{"order": %d}' % n, Properties(headers=headers))
        reject(vhost, "orders")
    for n in range(2):
        vhost.publish("shop", "mails.new", b"mail %d" % n, Properties(expiration="1000"))
    broker.clock.advance(2)


def open_cause(page: Page, text: str) -> None:
    page.locator(".rows tr").filter(has_text=text).get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(text)


@pytest.mark.feature("S4-78")
def test_dead_letters_are_shown_by_cause_and_a_group_is_retried(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    bury(broker)
    page = log_in(address="/#/dead-letters")
    rows = page.locator(".rows tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("rejected orders")
    expect(rows.first).to_contain_text("shop → orders.new")
    expect(rows.first).to_contain_text("no stock")
    expect(page.locator(".tile").first).to_have_text("Dead letters8")
    picture("dead-letters")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)
    page.set_viewport_size({"width": 1600, "height": 900})
    page.get_by_label("Filter causes by name").fill("mails")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Retry expired in mails").click()
    page.get_by_role("button", name="Retry 2 messages").click()
    expect(page.get_by_text("Retried 2 messages from dead.")).to_be_visible()
    expect(page.get_by_text("No causes match “mails”.")).to_be_visible()
    vhost = broker.vhost()
    assert (vhost.message_count("mails"), vhost.message_count("dead")) == (2, 6)


@pytest.mark.feature("S4-78")
def test_single_dead_letters_are_retried_and_the_rest_at_a_rate(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    bury(broker)
    vhost = broker.vhost()
    page = log_in(address="/#/dead-letters")
    open_cause(page, "rejected")
    messages = page.locator("details.message")
    expect(messages).to_have_count(6)
    expect(page.get_by_role("button", name="Retry selected …")).to_be_disabled()
    for number in (2, 5):
        page.get_by_label(f"Select message {number}", exact=True).check()
    messages.first.locator("code").click()
    expect(messages.first.locator("pre")).to_contain_text('"order": 0')
    picture("dead-letter-group")
    page.get_by_role("button", name="Retry 2 selected …").click()
    page.get_by_role("button", name="Retry 2 messages").click()
    expect(messages).to_have_count(4)
    bodies = [vhost.get("orders", auto_ack=True), vhost.get("orders", auto_ack=True)]
    assert [got and got.body for got in bodies] == [b'{"order": 1}', b'{"order": 4}']
    page.get_by_role("button", name="Retry all …").click()
    page.get_by_label("Messages per second").fill("0.01")
    page.get_by_role("button", name="Retry 4 messages").click()
    running = page.get_by_role("region", name="Running jobs")
    expect(running).to_contain_text("Retrying messages from dead at 0.01/s: 1 of 4")
    broker.clock.advance(100)
    expect(running).to_contain_text("2 of 4")
    picture("dead-letter-retry")
    running.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Job cancelled. Retried 2 messages from dead before it stopped.")).to_be_visible()
    expect(running).to_be_hidden()
    assert (vhost.message_count("orders"), vhost.message_count("dead")) == (2, 4)


@pytest.mark.feature("S4-78")
def test_a_group_is_deleted_and_it_can_be_undone(broker: leveret.Broker, log_in: LogIn, page: Page) -> None:
    bury(broker)
    stand_still(page)
    log_in(address="/#/dead-letters")
    open_cause(page, "expired")
    delete = page.get_by_role("button", name="Delete all")
    delete.click()
    announced = page.get_by_text("2 messages in queue dead will be deleted in 5 s")
    expect(announced).to_be_visible()
    page.clock.run_for(4_000)
    page.get_by_role("button", name="Undo").click()
    page.clock.run_for(10_000)
    assert broker.vhost().message_count("dead") == 8
    delete.click()
    expect(announced).to_be_visible()
    page.clock.run_for(5_100)
    page.clock.resume()  # the page looks now and then whether the job has ended
    expect(page.get_by_text("Deleted 2 messages from dead.")).to_be_visible()
    expect(page.get_by_text("No messages with this cause are left.")).to_be_visible()
    assert broker.vhost().message_count("dead") == 6


def test_a_group_without_exchange_or_key_holds_no_others(broker: leveret.Broker, log_in: LogIn) -> None:
    """Empty names were left out of the request, so messages of other groups were shown too."""
    vhost = broker.vhost()
    vhost.declare_exchange("shop", "topic")
    vhost.declare_queue("dead")
    vhost.declare_queue("orders", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    vhost.bind("orders", "shop", "#")
    for exchange, key in (("", "orders"), ("shop", "orders"), ("shop", "")):
        vhost.publish(exchange, key, f"by {exchange}, {key}".encode())
        reject(vhost, "orders")
    page = log_in(address="/#/dead-letters")
    for row, body in (("(AMQP default) → orders", "by , orders"), ("shop → ", "by shop, ")):
        page.locator(".rows tr").filter(has=page.get_by_title(row, exact=True)).get_by_role("link").first.click()
        expect(page.locator("details.message code")).to_have_text([body])
        page.go_back()


def test_what_to_do_first_is_told_and_all_is_retried(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    page = log_in(address="/#/dead-letters")
    expect(page.get_by_role("heading", name="No queue has a dead-letter exchange yet")).to_be_visible()
    picture("dead-letters-empty")
    bury(broker)
    page.reload()
    page.get_by_role("button", name="Retry all …").click()
    page.get_by_role("button", name="Retry 8 messages").click()
    expect(page.get_by_text("Retried 8 messages from dead.")).to_be_visible()
    expect(page.get_by_text("No dead letters in 1 dead-letter queue (dead)")).to_be_visible()
    assert broker.vhost().message_count("orders") == 6


def test_a_canary_in_a_dead_letter_shows_as_text(broker: leveret.Broker, log_in: LogIn, complaints: Complaints) -> None:
    vhost = broker.vhost()
    vhost.declare_exchange(CANARY, "topic")
    vhost.declare_queue(f"{CANARY}dead")
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{CANARY}dead"}
    vhost.declare_queue(CANARY, arguments=to_dead)
    vhost.bind(CANARY, CANARY, "#")
    vhost.publish(CANARY, CANARY, CANARY.encode(), Properties(headers={"error": CANARY, CANARY: CANARY}))
    reject(vhost, CANARY)
    vhost.publish("", f"{CANARY}dead", b"not dead")
    page = log_in(address="/#/dead-letters")
    row = page.locator(".rows tr").first
    for text in (f"rejected {CANARY}", f"{CANARY} → {CANARY}", f"{CANARY}dead"):
        expect(row).to_contain_text(text)
    expect(page.get_by_text("Not included: messages that were not dead-lettered")).to_contain_text(CANARY)
    row.get_by_role("button").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Retry rejected in {CANARY}")
    page.keyboard.press("Escape")
    row.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"rejected in {CANARY}")
    expect(page.locator(".dead-error")).to_contain_text(CANARY)
    page.locator("details.message code").first.click()
    expect(page.locator("details.message pre")).to_have_text(CANARY)
    page.get_by_role("button", name="Delete all").click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    assert page.evaluate(FOUND) == 0
    assert complaints == []
    page.goto("/#/dead-letters/%5B1%5D")
    expect(page.get_by_role("alert")).to_contain_text("Group not found")

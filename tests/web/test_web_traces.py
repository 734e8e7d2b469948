"""Traces: enabling tracing, the list of messages, and one message trace."""

from __future__ import annotations

import re

import pika
import pytest
from playwright.sync_api import expect

import leveret
from leveret.wire.properties import Properties
from tests.support.management_api import as_guest
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, #notices img').length"
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def trace_a_life(broker: leveret.Broker) -> None:
    """An order that is delivered, requeued, rejected, and acknowledged as a dead letter."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.exchange_declare("shop", "topic")
    channel.queue_declare("orders", arguments=TO_DEAD)
    channel.queue_declare("dead")
    channel.queue_bind("orders", "shop", "order.#")
    headers = {"customer": "Ann"}
    channel.basic_publish("shop", "order.paid", b"{}", pika.BasicProperties(message_id="order 1234", headers=headers))
    got = channel.basic_get("orders")[0]
    broker.clock.advance(3)
    channel.basic_nack(got.delivery_tag, requeue=True)
    for method, _, _ in channel.consume("orders"):
        channel.basic_nack(method.delivery_tag, requeue=False)
        break
    channel.cancel()
    channel.basic_ack(channel.basic_get("dead")[0].delivery_tag)
    channel.basic_publish("shop", "order.paid", b"{}", pika.BasicProperties(message_id="order 1235"))
    connection.close()


@pytest.mark.feature("S4-78")
def test_a_message_is_followed_through_its_life(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    page = log_in(address="/#/traces")
    expect(page.get_by_role("heading", name="Tracing is disabled for virtual host /")).to_be_visible()
    picture("traces-off")
    page.get_by_role("button", name="Enable tracing").click()
    expect(page.get_by_text("No messages traced since tracing was enabled.")).to_be_visible()
    assert as_guest(broker).get("vhosts/%2F")[1]["tracing"] is True
    trace_a_life(broker)
    page.reload()
    rows = page.locator(".rows tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("order 1235")
    picture("traces")
    page.get_by_label("Name of the queue").fill("nowhere")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No messages match the filter.")).to_be_visible()
    page.get_by_label("Name of the queue").fill("")
    page.keyboard.press("Enter")
    page.get_by_label("Search messages").fill("ann")
    expect(rows).to_have_count(1)
    page.get_by_role("link", name="order 1234").click()
    steps = page.locator(".timeline > li")
    expect(steps).to_have_count(10)
    expect(steps.nth(0)).to_contain_text("from guest on 127.0.0.1")
    expect(steps.nth(1)).to_contain_text("shop → orders by binding order.#")
    expect(steps.nth(5)).to_contain_text(re.compile(r"\+3 s.*consumer ctag.*redelivered", re.DOTALL))
    expect(steps.nth(6)).to_contain_text("from orders: rejected")
    expect(page.get_by_text("none")).to_be_visible()
    picture("message-trace")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)
    page.set_viewport_size({"width": 1600, "height": 900})
    steps.nth(2).get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()

    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("order 1235")
    page.get_by_role("option", name="order 1235").click()
    expect(page.get_by_role("heading", name="order 1235")).to_be_visible()
    page.get_by_role("button", name="Delete trace").click()
    expect(page.locator(".rows tr")).to_have_count(1)
    assert as_guest(broker).get("traces")[1][0]["traces"] == 1
    page.get_by_role("button", name="Disable tracing").click()
    expect(page.get_by_role("heading", name="Tracing is disabled for virtual host /")).to_be_visible()
    assert as_guest(broker).get("vhosts/%2F")[1]["tracing"] is False


def test_a_canary_in_a_story_shows_as_text(broker: leveret.Broker, log_in: LogIn, complaints: Complaints) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost(CANARY))
    broker.call(lambda: core.users.add(CANARY, password="secret", tags=("administrator",)))
    broker.call(lambda: core.permissions.set(CANARY, CANARY, ".*", ".*", ".*"))
    vhost = broker.vhost(CANARY)
    vhost.declare_exchange(CANARY, "headers")
    vhost.declare_queue(CANARY)
    vhost.bind(CANARY, CANARY, CANARY, {"x-match": "any", CANARY: CANARY})
    page = log_in(CANARY, "secret", "/#/traces")
    page.get_by_role("combobox", name="Virtual host").select_option(CANARY)
    page.get_by_role("button", name="Enable tracing").click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    vhost.consume(CANARY, lambda message: None, tag=CANARY)
    said = Properties(message_id=CANARY, content_type=CANARY, headers={CANARY: CANARY})
    vhost.publish(CANARY, CANARY, CANARY.encode(), said)
    page.reload()
    page.get_by_role("link", name=CANARY).click()
    expect(page.get_by_role("heading", name=CANARY)).to_be_visible()
    expect(page.locator(".timeline > li").nth(1)).to_contain_text(CANARY)
    expect(page.locator(".timeline")).to_contain_text(f"consumer {CANARY}")
    expect(page.locator(".message-trace dl").last).to_contain_text(CANARY)
    assert page.evaluate(FOUND) == 0
    assert complaints == []


def test_a_story_that_is_not_known_says_what_to_do(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints
) -> None:
    complaints.expect("404")
    page = log_in(address="/#/traces/%2F/7-0-1")
    expect(page.get_by_role("alert")).to_contain_text("vhost '/' has no tracing")
    page.get_by_role("link", name="See all traces").click()
    expect(page.get_by_role("heading", name="Tracing is disabled for virtual host /")).to_be_visible()

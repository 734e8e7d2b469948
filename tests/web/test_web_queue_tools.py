"""What operators do with queues every day: choose columns, filter, act on several, declare, bind, and find holders."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Locator, Page, expect

import leveret
from leveret.wire.fields import Table
from leveret.wire.properties import Properties
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, settle, stand_still

RICH = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-max-length": 1000, "x-max-priority": 5}


@contextmanager
def worker(broker: leveret.Broker, name: str = "billing") -> Iterator[BlockingChannel]:
    parameters = pika.URLParameters(f"{broker.amqp_url}?heartbeat=0")
    parameters.client_properties = {"connection_name": name}
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


def queues_of(broker: leveret.Broker) -> list[str]:
    return broker.call(lambda: sorted(broker.node.broker.vhosts["/"].queues))


def head(page: Page, title: str) -> Locator:
    return page.locator("thead th").filter(has_text=re.compile(f"^{title}")).first


@pytest.mark.feature("S4-78")
def test_the_list_shows_what_operators_look_at_at_every_width(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("jobs", durable=True, arguments=RICH)
    vhost.declare_queue(" edges ", arguments={"x-queue-type": "quorum"}, durable=True)
    for _ in range(3):
        vhost.publish("", "jobs", b"x")
    page = log_in(address="/#/queues")
    row = page.locator(".rows tr").filter(has_text="jobs")
    for badge in ("D", "TTL", "DLX", "Lim", "Pri"):
        expect(row.get_by_text(badge, exact=True)).to_be_attached()
    expect(page.locator(".totals")).to_contain_text("3 ready, 0 unacked, 0 consumers")
    expect(page.locator(".rows .edge-space")).to_have_count(2)
    for width, titles in (
        (390, "Ready Consumers"),
        (1024, "Ready Features Consumers"),
        (1440, "Type Oldest Consumers"),
    ):
        page.set_viewport_size({"width": width, "height": 800})
        for title in titles.split():
            expect(head(page, title)).to_be_visible()
        assert not does_not_fit(page), width

    page.get_by_role("button", name="Columns …").click()
    page.get_by_role("dialog").get_by_label("Memory").check()
    page.get_by_role("dialog").get_by_label("Features").uncheck()
    picture("queue-columns")
    page.keyboard.press("Escape")
    page.reload()  # the browser remembers the choice
    expect(head(page, "Memory")).to_be_visible()
    expect(head(page, "Features")).to_be_hidden()
    page.get_by_role("button", name="Columns …").click()
    page.get_by_role("button", name="Default columns").click()
    expect(head(page, "Features")).to_be_visible()
    expect(head(page, "Memory")).to_be_hidden()

    page.get_by_label("Filter queues by name").fill("^j.b")
    expect(page.get_by_text("No queues match")).to_be_visible()
    page.get_by_role("button", name="Regular expression").click()
    expect(page.locator(".rows tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("regex=yes"))


@pytest.mark.feature("S4-78")
def test_several_queues_are_paused_purged_and_deleted_at_once(
    broker: leveret.Broker, log_in: LogIn, page: Page, picture: Picture, complaints: Complaints
) -> None:
    complaints.expect("400")  # a queue that is not empty any more is not deleted
    vhost = broker.vhost()
    for name in ("keep", "q1", "q2"):
        vhost.declare_queue(name)
        vhost.publish("", name, b"x")
    stand_still(page)
    log_in(address="/#/queues?name=q")
    bar = page.locator(".selection-bar")

    def filter_by(text: str, *names: str) -> None:
        page.get_by_label("Filter queues by name").fill(text)
        page.clock.run_for(300)
        expect(page.get_by_label(re.compile("^Select queue "))).to_have_count(len(names))
        for name in names:
            expect(page.get_by_label(f"Select queue {name}")).to_be_visible()

    rows = {"keep": ["keep"], "q": ["q1", "q2"]}
    for hidden, shown in (("keep", "q"), ("q", "keep")):  # rows that the filter hides are not selected any more
        filter_by(hidden, *rows[hidden])
        page.get_by_label("Select all matching rows").check()
        expect(bar).to_contain_text("selected")
        filter_by(shown, *rows[shown])
        expect(bar).to_be_hidden()
        expect(page.get_by_label("Select all matching rows")).not_to_be_checked()
    filter_by("q", *rows["q"])
    page.get_by_label("Select all matching rows").check()
    expect(bar).to_contain_text("2 queues selected")
    head(page, "Type").get_by_role("button").click()
    expect(bar).to_contain_text("2 queues selected")
    bar.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("2 queues paused.")).to_be_visible()
    expect(bar).to_be_hidden()
    for name in ("q1", "q2"):
        page.get_by_label(f"Select queue {name}").check()
    bar.get_by_role("button", name="Purge").click()
    expect(page.get_by_text("2 messages in 2 queues will be deleted in 5 s")).to_be_visible()
    picture("queue-selection")
    page.clock.run_for(5_100)
    expect(page.get_by_text("2 queues purged.")).to_be_visible()
    assert [vhost.message_count(name) for name in ("keep", "q1", "q2")] == [1, 0, 0]

    settle(page)
    vhost.publish("", "q1", b"x")
    page.clock.run_for(5_100)  # the list is loaded again
    expect(page.locator(".rows tr").filter(has_text="q1").locator("td.right").first).to_have_text("1")
    for name in ("q1", "q2"):
        page.get_by_label(f"Select queue {name}").check()
    bar.get_by_role("button", name="Delete …").click()
    box = page.get_by_role("dialog", name="Delete 2 queues", exact=True)
    expect(box).to_contain_text("This deletes 2 queues, 1 message and their bindings.")
    box.get_by_label("Number of queues").fill("2")
    box.get_by_role("button", name="Delete queues").click()
    expect(page.get_by_text("2 queues deleted.")).to_be_visible()
    assert queues_of(broker) == ["keep"]

    for name in ("q3", "q4"):
        vhost.declare_queue(name)
    settle(page)
    page.clock.run_for(5_100)
    expect(page.get_by_label("Select queue q4")).to_be_visible()
    page.get_by_label("Select all matching rows").check()
    bar.get_by_role("button", name="Delete …").click()
    expect(page.get_by_text("2 queues will be deleted in 5 s")).to_be_visible()
    vhost.publish("", "q3", b"x")
    page.clock.run_for(5_100)
    expect(page.get_by_text("1 queue deleted.")).to_be_visible()
    expect(page.get_by_text("1 queue not deleted")).to_be_visible()
    expect(page.get_by_text("Queue q3 in /:")).to_contain_text("not empty")
    assert queues_of(broker) == ["keep", "q3"]


@pytest.mark.feature("S4-78")
def test_what_a_bulk_action_cannot_do_is_said(
    broker: leveret.Broker, log_in: LogIn, page: Page, complaints: Complaints
) -> None:
    """Streams are not purged, at most 500 queues are selected, and queues that fail are named."""
    complaints.expect("404")
    vhost = broker.vhost()
    vhost.declare_queue("events", durable=True, arguments={"x-queue-type": "stream"})
    names = [f"q{number:03}" for number in range(510)]
    for name in names:
        vhost.declare_queue(name)
    vhost.publish("", "q000", b"x")
    stand_still(page)
    log_in(address="/#/queues")
    bar, notices = page.locator(".selection-bar"), page.locator("#notices")
    page.get_by_label("Select queue events").check()
    bar.get_by_role("button", name="Purge").click()
    expect(notices).to_contain_text("Streams cannot be purged")
    expect(notices.get_by_role("button", name="Undo")).to_have_count(0)
    page.get_by_label("Select queue q000").check()
    bar.get_by_role("button", name="Purge").click()
    expect(notices).to_contain_text("1 stream cannot be purged. 1 message in 1 queue will be deleted in 5 s")
    notices.get_by_role("button", name="Undo").click()
    page.get_by_label("Select all matching rows").uncheck()
    expect(bar).to_be_hidden()
    page.get_by_label("Select all matching rows").check()
    expect(bar).to_contain_text("500 queues selectedof 511 that match: at most 500 are selected at once")
    bar.get_by_role("button", name="Clear selection").click()
    for name in ("q001", "q002", "q003"):
        page.get_by_label(f"Select queue {name}").check()
        vhost.delete_queue(name)
    bar.get_by_role("button", name="Pause").click()
    expect(notices).to_contain_text("3 queues not paused")
    expect(notices).to_contain_text(re.compile(r"Also not paused: q\d{3}, q\d{3}\."))


@pytest.mark.feature("S4-78")
def test_a_queue_is_declared_with_arguments_bound_published_to_and_deleted(
    broker: leveret.Broker, log_in: LogIn, page: Page, complaints: Complaints, picture: Picture
) -> None:
    complaints.expect("400")  # a queue that is not empty is not deleted
    vhost = broker.vhost()
    vhost.declare_exchange("shop", "topic")
    stand_still(page)
    log_in(address="/#/queues")
    page.get_by_role("button", name="Add queue", exact=True).first.click()
    box = page.get_by_role("dialog")
    box.get_by_label("Name", exact=True).fill("orders")
    box.get_by_label("Type").select_option("quorum")
    box.get_by_text("Known keys").click()
    box.get_by_role("button", name="x-max-length", exact=True).click()
    expect(box.locator(".meaning")).to_contain_text("Maximum number of ready messages.")
    box.get_by_label("Value").fill("100")
    picture("queue-new")
    box.get_by_role("button", name="Add queue").click()
    badges = page.locator(".head-text .badges")
    for text in ("quorum", "durable", "max length 100"):
        expect(badges).to_contain_text(text)
    queue = broker.node.broker.vhosts["/"].queues["orders"]
    assert broker.call(lambda: dict(queue.arguments)) == {"x-queue-type": "quorum", "x-max-length": 100}

    page.get_by_role("button", name="Add binding …").click()
    box.get_by_label("Source exchange").fill("shop")
    box.get_by_label("Routing key").fill("order.*")
    box.get_by_role("button", name="Add binding").click()
    bound = page.get_by_role("region", name="bindings")
    expect(bound).to_contain_text("order.*")
    unbind = bound.get_by_role("button", name="Unbind orders from shop by order.*")
    unbind.click()
    expect(page.locator("#notices")).to_contain_text("will be deleted in 5 s")
    bindings = broker.node.broker.vhosts["/"].bindings
    assert len(broker.call(lambda: list(bindings.of_source("shop")))) == 1
    page.clock.run_for(5_100)
    expect(unbind).to_have_count(0)
    assert broker.call(lambda: list(bindings.of_source("shop"))) == []

    page.get_by_role("button", name="Publish message …").click()
    box.get_by_label("Body", exact=True).fill("hello")
    box.get_by_text("Properties", exact=True).click()
    given = {"Priority": "7", "Message ID": "m1", "Correlation ID": "c1", "Reply to": "r", "Type": "t", "App ID": "a"}
    for label, value in {**given, "Expiration": "60000", "Timestamp": "2026-01-02T03:04:05"}.items():
        box.get_by_label(label, exact=True).fill(value)
    picture("queue-publish")
    box.get_by_role("button", name="Publish message").click()
    expect(page.get_by_text("Message published.")).to_be_visible()
    got = vhost.get("orders")
    assert got is not None
    sent = got.properties
    assert (sent.priority, sent.message_id, sent.correlation_id, sent.reply_to) == (7, "m1", "c1", "r")
    assert (sent.type, sent.app_id, sent.expiration, sent.timestamp is not None) == ("t", "a", "60000", True)
    vhost.nack(got.delivery_tag, requeue=True)
    page.keyboard.press("Escape")
    page.reload()
    expect(page.get_by_role("button", name="Purge 1 message")).to_be_enabled()
    page.get_by_role("button", name="Delete queue …").click()
    expect(box.get_by_label("Only if it has no messages")).not_to_be_checked()
    box.get_by_label("Only if it has no messages").check()
    box.get_by_label("Queue name").fill("orders")
    box.get_by_role("button", name="Delete queue").click()
    expect(box.get_by_role("alert")).to_contain_text("orders")
    assert queues_of(broker) == ["orders"]


@pytest.mark.feature("S4-78")
def test_holders_of_messages_are_shown_and_consumers_cancelled(
    broker: leveret.Broker, log_in: LogIn, page: Page, picture: Picture
) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("jobs")
    with worker(broker) as channel:
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("jobs", lambda *_: None, consumer_tag="till", arguments={"x-priority": 3})
        vhost.publish("", "jobs", b"x", Properties(message_id="m-77"))
        stand_still(page)
        log_in(address="/#/queues/%2F/jobs")
        held = page.get_by_role("region", name="unacked messages")
        for text in ("m-77", "billing", "till"):
            expect(held).to_contain_text(text)
        consumers = page.get_by_role("region", name="consumers")
        for text in ("billing", "manual", "1", '{"x-priority":3}'):
            expect(consumers).to_contain_text(text)
        picture("queue-unacked")
        expect(held.locator("..")).not_to_contain_text("held by")
        hoarder = channel.connection.channel()
        hoarder.basic_qos(prefetch_count=250)
        for _ in range(260):
            vhost.publish("", "jobs", b"x")
        assert vhost.get("jobs") is not None
        hoarder.basic_consume("jobs", lambda *_: None, consumer_tag="hoarder")
        settle(page)
        page.clock.run_for(5_100)
        expect(held.locator("..")).to_contain_text("200 of 251 unacked messages")
        expect(page.get_by_text("1 further message is held by leases or in-process clients.")).to_be_visible()
        hoarder.close()
        for address, text in (("channels", "billing"), ("consumers", "till")):
            page.goto(f"/#/{address}")
            expect(page.locator(".rows")).to_contain_text(text)
            picture(address)
            page.get_by_role("searchbox").first.fill("nothing like it")
            page.clock.run_for(300)
            expect(page.get_by_text(f"No {address} match")).to_be_visible()
            page.get_by_role("searchbox").first.fill("billing")
            page.clock.run_for(300)
            expect(page.locator(".rows")).to_contain_text(text)
        page.get_by_role("button", name="Cancel consumer till").click()
        page.clock.run_for(5_100)
        expect(page.get_by_text("Consumer till cancelled.")).to_be_visible()
        expect(page.get_by_text("No consumers.")).to_be_visible()


@pytest.mark.feature("S4-78")
def test_bodies_are_unpacked_and_downloaded_and_tasks_of_celery_named(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("mixed")
    large = b"0123456789" * 20_000
    task: Table = {
        "task": "shop.bill",
        "id": "t-1",
        "retries": 2,
        "eta": None,
        "argsrepr": "(7,)",
        "kwargsrepr": "{'a': 1}",
    }
    packed = gzip.compress(json.dumps({"inside": "gzip"}).encode())
    vhost.publish("", "mixed", b"[[7], {}, {}]", Properties(headers=task))
    vhost.publish("", "mixed", packed, Properties(content_encoding="gzip", content_type="application/json"))
    vhost.publish("", "mixed", large, Properties(content_type="text/plain", message_id="big/one"))
    page = log_in(address="/#/queues/%2F/mixed")
    messages = page.locator("details.message")
    expect(messages).to_have_count(3)
    for text in ("shop.bill", "(7,)", "retry 2"):
        expect(messages.nth(0).locator("summary")).to_contain_text(text)
    expect(messages.nth(0).locator(".key-of")).to_have_text("mixed")
    messages.nth(0).locator("summary").click()
    expect(messages.nth(0).locator("dl").first).to_contain_text("t-1")
    messages.nth(1).locator("summary").click()
    expect(messages.nth(1).locator("pre")).to_contain_text('"inside": "gzip"')
    messages.nth(2).locator("summary").click()
    expect(messages.nth(2)).to_contain_text("Truncated: the whole body has 195 KiB.")
    picture("queue-bodies")
    with page.expect_download() as downloading:
        messages.nth(2).get_by_role("button", name="Download").click()
    assert downloading.value.suggested_filename == "big_one.txt"
    assert downloading.value.path().read_bytes() == large
    bounded = """async (packed) => {
        const { gunzipped } = await import("/web/payload.js");
        return (await gunzipped(Uint8Array.from(packed), 1000)).length;
    }"""
    assert page.evaluate(bounded, list(gzip.compress(bytes(100_000)))) == 1000
    assert page.evaluate(bounded, list(packed[:-9])) <= 20  # what can be read of a truncated body

"""The pages of streams, super streams and sharded queues."""

from __future__ import annotations

import re
from functools import partial

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

STREAM = {"x-queue-type": "stream"}
CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, #notices img, dialog img').length"


def furnish(broker: leveret.Broker) -> None:
    """A stream with readers, a super stream and a sharded exchange, with five minutes of traffic."""
    shop = broker.vhost()
    shop.declare_queue("clicks", durable=True, arguments={**STREAM, "x-max-age": "7D"})
    shop.set_policy("orders", "^orders$", {"shards-per-node": 3, "shard-queue-type": "stream"}, apply_to="exchanges")
    shop.declare_exchange("orders", "x-modulus-hash", durable=True)
    shop.set_policy("images", "^images$", {"shards-per-node": 4}, apply_to="exchanges")
    shop.declare_exchange("images", "x-modulus-hash", durable=True)
    for step in range(60):
        for number in range(2 + step % 5):
            shop.publish("", "clicks", b'{"page": %d, "user": "ann"}' % (step * 10 + number))
            shop.publish("orders", f"customer-{step % 7}", b"an order")
            shop.publish("images", f"image-{step}-{number}", b"an image")
        shop.publish("images", "image-1-1", b"the one that all want")
        broker.clock.advance(5)
    offsets = broker.node.broker.vhosts["/"].stream_offsets
    for name, offset in (("nightly", 150), ("fraud", 20), ("audit", 200)):
        broker.call(partial(offsets.put, "clicks", name, offset, name == "fraud"))


def rows(page: Page, region: str) -> list[list[str]]:
    lines = page.get_by_role("region", name=region, exact=True).locator(".rows tr")
    return [line.locator("td").all_inner_texts() for line in lines.all()]


@pytest.mark.feature("S4-78")
def test_streams_their_partitions_and_readers_are_shown(
    broker: leveret.Broker, log_in: LogIn, picture: Picture, page: Page
) -> None:
    furnish(broker)
    stand_still(page)
    log_in(address="/#/streams")
    expect(page.locator(".rows tr")).to_have_count(3)
    assert [(row[0], row[2]) for row in rows(page, "streams")] == [
        ("clicks", "stream"),
        ("images", "shards · 4"),
        ("orders", "super stream · 3"),
    ]
    picture("streams")
    page.get_by_role("link", name="clicks").click()
    expect(page.locator(".tile").filter(has_text="Largest lag")).to_contain_text("220")
    expect(page.locator(".tile").filter(has_text="Last offset")).to_contain_text("239")
    expect(page.locator(".badges")).to_contain_text("max age 7 d")
    readers = page.get_by_role("region", name="readers")
    expect(readers.locator(".rows tr").first).to_contain_text("fraud")  # the one that is furthest behind
    assert [row[0].strip().split()[0] for row in rows(page, "readers")] == ["fraud", "nightly", "audit"]
    picture("stream")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)
    page.set_viewport_size({"width": 1600, "height": 900})

    first = page.locator("details.message").first
    expect(first).to_contain_text("190")
    page.get_by_label("From offset").fill("7")
    page.get_by_role("button", name="Go to offset").click()
    expect(first).to_contain_text('{"page": 22, ')
    first.locator("summary").click()
    expect(first.locator("pre")).to_contain_text('"user": "ann"')
    page.get_by_role("button", name="Newer").click()
    expect(first).to_contain_text("57")
    page.get_by_role("button", name="Older").click()
    expect(first.locator(".offset")).to_have_text("7")

    readers.locator("tr").filter(has_text="nightly").get_by_role("button", name="Delete offset").click()
    expect(page.locator(".notice")).to_contain_text("The stored offset of reader nightly in clicks will be deleted")
    page.clock.run_for(5_500)
    expect(readers.locator(".rows tr")).to_have_count(2)
    names = broker.call(lambda: [each.consumer for each in broker.node.broker.vhosts["/"].stream_offsets.list()])
    assert sorted(names) == ["audit", "fraud"]


@pytest.mark.feature("S4-78")
def test_shards_show_how_even_they_are(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    furnish(broker)
    page = log_in(address="/#/streams/%2F/images")
    shards = page.get_by_role("region", name="shards")
    expect(shards.locator(".rows tr")).to_have_count(4)
    expect(shards.locator(".amount i").first).to_have_attribute("style", re.compile(r"width: \d+"))
    expect(page.locator(".tile").filter(has_text="Ready")).to_contain_text("300")
    picture("shards")
    shards.get_by_role("link").first.click()
    expect(page.get_by_role("button", name="Publish message …")).to_be_visible()
    page.goto("/#/streams/%2F/orders")
    expect(page.get_by_role("region", name="partitions").locator(".rows tr")).to_have_count(3)
    expect(page.get_by_text("No readers.")).to_be_visible()
    page.get_by_label("Partition", exact=True).select_option(index=1)
    expect(page.locator("details.message").first).to_be_visible()
    picture("super-stream")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("clic")
    page.get_by_role("option", name="clicks stream in /").click()
    expect(page.get_by_role("heading", name="clicks")).to_be_visible()
    assert page.evaluate("location.hash") == "#/streams/%2F/clicks"


def test_a_stream_is_added_where_there_is_none(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    page = log_in(address="/#/streams")
    expect(page.get_by_role("heading", name="No streams yet")).to_be_visible()
    picture("streams-empty")
    page.get_by_role("button", name="Or add a stream here").click()
    page.get_by_label("Name", exact=True).fill("events/ü")
    page.get_by_label("Max age").select_option("1 week")
    page.get_by_role("dialog").get_by_role("button", name="Add stream").click()
    expect(page.get_by_role("heading", name="events/ü")).to_be_visible()
    expect(page.get_by_text("The stream is empty.")).to_be_visible()
    arguments = broker.call(lambda: dict(broker.node.broker.vhosts["/"].queues["events/ü"].arguments))
    assert arguments == {"x-queue-type": "stream", "x-max-age": "7D"}
    page.goto("/#/streams")
    page.get_by_role("button", name="Add stream").click()
    page.get_by_label("Name", exact=True).fill("events/ü")
    page.get_by_label("Max age").select_option("1 week")
    page.get_by_role("dialog").get_by_role("button", name="Add stream").click()
    expect(page.get_by_role("alert")).to_contain_text("Queue events/ü already exists in virtual host /")


def test_a_canary_in_every_field_of_streams_shows_as_text(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints
) -> None:
    broker.call(lambda: broker.node.broker.add_vhost(CANARY))
    broker.call(lambda: broker.node.broker.permissions.set("guest", CANARY, ".*", ".*", ".*"))
    vhost = broker.vhost(CANARY)
    vhost.declare_exchange(CANARY, "direct", arguments={"x-super-stream": True})
    vhost.declare_queue(f"{CANARY}1", durable=True, arguments=STREAM)
    vhost.bind(f"{CANARY}1", CANARY, "0")
    vhost.publish(CANARY, "0", CANARY.encode(), Properties(content_type=CANARY, headers={CANARY: CANARY}))
    offsets = broker.node.broker.vhosts[CANARY].stream_offsets
    broker.call(lambda: offsets.put(f"{CANARY}1", CANARY, 0, True))
    page = log_in(address="/#/streams")
    page.get_by_role("link", name=CANARY, exact=True).click()
    expect(page.get_by_role("heading", name=CANARY)).to_be_visible()
    expect(page.get_by_role("region", name="partitions")).to_contain_text(f"{CANARY}1")
    expect(page.get_by_role("region", name="readers")).to_contain_text(CANARY)
    page.locator("details.message summary").click()
    expect(page.locator("details.message pre")).to_have_text(CANARY)
    page.get_by_role("button", name="Delete offset").click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    page.get_by_role("button", name="Undo").click()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("<img")
    expect(page.get_by_role("option", name=f"{CANARY} super stream in {CANARY}")).to_be_visible()
    assert page.evaluate(FOUND) == 0
    assert complaints == []
    assert len(page.get_by_text(CANARY).all()) > 3

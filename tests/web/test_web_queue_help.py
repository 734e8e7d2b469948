"""The page of a queue: why messages are waiting, and deleting the queue."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pika
import pytest
from playwright.sync_api import Page, Route, expect

import leveret
from leveret.errors import LeveretError
from tests.support.running_clients import client
from tests.support.web_page import Complaints, LogIn


@pytest.mark.feature("S4-78")
def test_why_a_queue_is_slow_is_told_without_a_manual(broker: leveret.Broker, log_in: LogIn) -> None:
    vhost = broker.vhost()
    for name in ("orders", "mails", "calm"):
        vhost.declare_queue(name)
    for _ in range(5):
        vhost.publish("", "orders", b"x")
    vhost.publish("", "mails", b"x")
    connection = pika.BlockingConnection(pika.URLParameters(f"{broker.amqp_url}?heartbeat=0"))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("orders", lambda *_: None)

    page = log_in()  # the overview
    longest = page.get_by_role("region", name="queues")
    expect(longest.locator(".rows tr")).to_have_count(2)
    expect(longest.locator(".rows tr").nth(1)).to_contain_text("No consumers.")
    longest.get_by_role("link", name="orders").click()
    told = page.locator(".findings")
    expect(told).to_contain_text("Consumers are busy. They have 2 unacked messages, as many as their prefetch")
    expect(told).to_contain_text("3 messages ready. Add consumers")

    page.goto("/#/queues/%2F/mails")
    expect(told).to_have_text("No consumers. 1 message ready.")
    page.get_by_role("button", name="Pause").click()
    expect(told).to_contain_text("Queue is paused.")
    page.goto("/#/queues/%2F/calm")
    expect(page.get_by_role("button", name="Pause")).to_be_enabled()
    expect(told).to_be_hidden()
    connection.close()


@pytest.mark.feature("S4-78")
def test_the_prefetch_of_a_channel_is_a_limit_of_its_consumers(broker: leveret.Broker, log_in: LogIn) -> None:
    """Celery limits the channel, not the consumer."""
    vhost = broker.vhost()
    vhost.declare_queue("tasks")
    for _ in range(5):
        vhost.publish("", "tasks", b"x")
    with client(broker, "celery") as channel:
        channel.basic_qos(prefetch_count=2, global_qos=True)
        channel.basic_consume("tasks", lambda *_: None)
        page = log_in()
        row = page.get_by_role("region", name="queues").locator(".rows tr")
        expect(row).to_contain_text("Consumers are busy.")
        row.get_by_role("link", name="tasks").click()
        expect(page.locator(".findings")).to_contain_text("Consumers are busy. They have 2 unacked messages")
        expect(page.get_by_role("region", name="consumers")).to_contain_text("2 (channel)")


def test_streams_do_not_hide_the_queues_in_which_messages_wait(broker: leveret.Broker, log_in: LogIn) -> None:
    vhost = broker.vhost()
    for number in range(26):
        vhost.declare_queue(f"s{number}", durable=True, arguments={"x-queue-type": "stream"})
        for _ in range(2):
            vhost.publish("", f"s{number}", b"kept")
    vhost.declare_queue("orders")
    vhost.publish("", "orders", b"waits")
    page = log_in()
    expect(page.get_by_role("region", name="queues").locator(".rows tr")).to_contain_text(["orders"])
    streams = [{"name": f"s{n}", "vhost": "/", "type": "stream", "messages_ready": 2} for n in range(500)]
    page.route("**/api/queues?*", lambda route: route.fulfill(json={"items": streams[: page_size(route)]}))
    page.reload()
    expect(page.get_by_text("The 500 longest queues are streams.")).to_be_visible()
    nobody_is_blamed_for_what_others_hold(page)


def nobody_is_blamed_for_what_others_hold(page: Page) -> None:
    """For queues that are read by basic.get, and queues with more leased messages than the prefetch allows."""
    briefs = """async (queue) => {
        const { findingsOf } = await import("/web/pages/queue_findings.js");
        return findingsOf(queue).map((one) => one.brief);
    }"""
    waiting = {"type": "classic", "state": "running", "messages_ready": 3}
    polled = waiting | {"consumers": 0, "message_stats": {"deliver_get_details": {"rate": 0.2}}}
    assert page.evaluate(briefs, polled) == []
    left = waiting | {"consumers": 0, "message_stats": {"deliver_get_details": {"rate": 0.0}}}
    assert page.evaluate(briefs, left) == ["No consumers."]
    consumed = waiting | {"consumers": 1, "consumer_details": [{"ack_required": True, "prefetch_count": 2}]}
    for held, told in ((1, []), (2, ["Consumers are busy."]), (5, [])):
        assert page.evaluate(briefs, consumed | {"messages_unacknowledged": held}) == told


def page_size(route: Route) -> int:
    return int(parse_qs(urlsplit(route.request.url).query)["page_size"][0])


def test_a_queue_is_deleted_by_whoever_types_its_name(broker: leveret.Broker, log_in: LogIn) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("orders")
    vhost.publish("", "orders", b"x")
    page = log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Delete queue …").click()
    box = page.get_by_role("dialog")
    expect(box).to_contain_text("This deletes the queue, its 1 message and its bindings.")
    expect(box.get_by_role("button", name="Delete queue")).to_be_disabled()
    box.get_by_label("Queue name").fill("order")
    expect(box.get_by_role("button", name="Delete queue")).to_be_disabled()
    page.keyboard.press("Escape")
    assert vhost.message_count("orders") == 1
    page.get_by_role("button", name="Delete queue …").click()
    box.get_by_label("Queue name").fill("orders")
    box.get_by_role("button", name="Delete queue").click()
    expect(page.get_by_role("heading", level=1, name="Queues")).to_be_visible()
    with pytest.raises(LeveretError):
        vhost.message_count("orders")


def test_an_empty_queue_is_deleted_without_typing(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders")
    page = log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Delete queue …").click()
    expect(page.get_by_role("dialog")).to_contain_text("The queue is empty.")
    page.get_by_role("dialog").get_by_role("button", name="Delete queue").click()
    expect(page.get_by_text("Queue orders deleted.")).to_be_visible()
    assert broker.call(lambda: "orders" not in broker.node.broker.vhosts["/"].queues)


def test_a_queue_that_is_there_already_is_not_added_again(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders")
    page = log_in(address="/#/queues")
    page.get_by_role("button", name="Add queue").click()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_role("dialog").get_by_role("button", name="Add queue").click()
    expect(page.get_by_role("alert")).to_contain_text("Queue orders already exists in virtual host /")


@pytest.mark.parametrize(
    ("address", "back"),
    [
        ("queues/%2F/gone", "All queues"),
        ("exchanges/%2F/gone", "All exchanges"),
        ("streams/%2F/gone", "All streams"),
        ("connections/gone", "All connections"),
        ("channels/gone", "All channels"),
        ("admin/users/gone", "All users"),
        ("admin/vhosts/gone", "All virtual hosts"),
    ],
)
def test_what_is_gone_is_told_once_with_the_way_to_what_is_there(
    log_in: LogIn, complaints: Complaints, address: str, back: str
) -> None:
    complaints.expect("404")
    page = log_in()
    page.goto(f"/#/{address}")
    expect(page.locator("main").get_by_role("alert").filter(visible=True)).to_have_count(1)
    expect(page.locator("main .tile, main .table, main form").filter(visible=True)).to_have_count(0)
    page.get_by_role("link", name=back).click()
    expect(page.locator("main").get_by_role("alert").filter(visible=True)).to_have_count(0)


def test_the_legend_of_a_chart_knows_what_the_number_above_it_knows(log_in: LogIn) -> None:
    page = log_in()
    drawn = """async (series) => {
        const { lineChart } = await import("/web/chart.js");
        const chart = lineChart("Messages");
        chart.draw([series]);
        const labels = [...chart.element.querySelectorAll("text.axis")].map((label) => label.textContent);
        return [chart.element.querySelector(".legend").textContent, labels.slice(0, 3)];
    }"""
    points = [[0, 0], [5_000, 1]]
    assert page.evaluate(drawn, {"label": "Ready", "points": points}) == ["Ready 1", ["0", "1", "2"]]  # no half message
    assert page.evaluate(drawn, {"label": "Ready", "points": points, "now": 7})[0] == "Ready 7"  # no sample has it yet

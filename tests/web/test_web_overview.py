"""The overview page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import leveret
from tests.support.running_clients import client
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, furnish, settle, stand_still

INTERVAL = 5_000  # milliseconds between two polls


@pytest.mark.feature("S4-78")
def test_the_overview_shows_what_moves(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    furnish(broker)
    page = log_in()
    ready = broker.call(lambda: sum(queue.ready for queue in broker.node.broker.vhosts["/"].queues.values()))
    expect(page.locator(".tile").filter(has_text="Ready")).to_contain_text(str(ready))
    expect(page.locator(".tile").filter(has_text="Queues")).to_contain_text("5")
    expect(page.locator("svg.chart path.line")).to_have_count(25)
    expect(page.locator(".node")).to_contain_text(broker.node.broker.node_name)
    page.get_by_role("button", name="1 h").click()
    expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="10 min").click()
    picture("overview")


def test_the_overview_stays_up_to_date_by_itself(broker: leveret.Broker, page: Page, log_in: LogIn) -> None:
    broker.vhost().declare_queue("q")
    stand_still(page)
    log_in()
    tile = page.locator(".tile").filter(has_text="Ready")
    expect(tile.locator("b")).to_have_text("0")
    broker.vhost().publish("", "q", b"x")
    broker.clock.advance(5)
    settle(page)
    page.clock.run_for(INTERVAL)
    expect(tile.locator("b")).to_have_text("1")


@pytest.mark.broker(fresh=True, clock=leveret.FrozenClock)
def test_data_rates_are_those_of_all_clients(broker: leveret.Broker, page: Page, log_in: LogIn) -> None:
    with client(broker) as channel:
        channel.queue_declare("a")
        for _ in range(3):
            channel.basic_publish("", "a", b"x" * 10_240)
            channel.basic_get("a", auto_ack=True)
            broker.clock.advance(5)
        log_in()
        chart = page.locator("figure").filter(has=page.get_by_role("heading", name="Data rates"))
        expect(chart.locator("path.line")).to_have_count(2)
        expect(chart.locator(".key").nth(0)).to_have_text(re.compile(r"^From clients 2\.\d KiB/s$"))
        expect(chart.locator(".key").nth(1)).to_have_text(re.compile(r"^To clients 2\.\d KiB/s$"))


@pytest.mark.broker(storage="disk", fresh=True, clock=leveret.FrozenClock)
@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("/", {"Disk reads": "Read 4.0 KiB/s"}),
        (
            "/#/nodes",
            {
                "Journal writes and disk reads": "Read 4.0 KiB/s",
                "Disk operations per second": "Reads 2.0/s",
                "Mean time of a journal write or disk read": "Read 100 µs",
            },
        ),
    ],
)
def test_disk_reads_are_shown_beside_the_writes(
    broker: leveret.Broker, log_in: LogIn, address: str, shown: dict[str, str]
) -> None:
    store = broker.node.store
    assert store is not None
    handle = store.disk.create("some")
    store.disk.append(handle, [bytes(2048)])
    store.disk.close(handle)
    for _ in range(3):
        for _ in range(10):
            store.disk.read("some", 0, 2048)
        store.disk.read_seconds += 0.001
        broker.clock.advance(5)
    page = log_in(address=address)
    for title, text in shown.items():
        chart = page.locator("figure").filter(has=page.get_by_role("heading", name=title, exact=True))
        expect(chart.locator(".key").filter(has_text="Read")).to_have_text(re.compile(f"^{text}$"))


def test_an_empty_broker_says_what_to_do_first(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    page = log_in()
    expect(page.get_by_role("heading", name="No queues yet: send your first message")).to_be_visible()
    expect(page.locator("pre")).to_contain_text(broker.amqp_url.rpartition(":")[2].partition("/")[0])
    picture("empty")


def test_an_alarm_is_seen_at_once(broker: leveret.Broker, page: Page, log_in: LogIn) -> None:
    core = broker.node.broker
    broker.call(lambda: core.set_alarm("memory", "low on memory"))
    stand_still(page)
    log_in()
    expect(page.get_by_role("alert")).to_contain_text("Memory alarm")
    broker.call(lambda: core.set_alarm("memory", None))
    settle(page)
    page.clock.run_for(INTERVAL)
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.feature("S4-72")
def test_a_user_who_may_see_little_sees_that_without_errors(broker: leveret.Broker, log_in: LogIn) -> None:
    core = broker.node.broker

    def prepare() -> None:
        core.users.add("ann", password="secret", tags=("management",))
        core.add_vhost("hers")
        core.permissions.set("ann", "hers", "", "", ".*")

    broker.call(prepare)
    broker.vhost().declare_queue("secret plans")
    broker.vhost("hers").declare_queue("her queue")
    page = log_in("ann", "secret", "/#/queues")
    expect(page.locator(".rows tr")).to_have_count(1)
    expect(page.locator(".rows tr")).to_contain_text("her queue")
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".node")).to_contain_text("Shown to users with the tag monitoring")
    expect(page.locator(".tile").filter(has_text="Queues").locator("b")).to_have_text("1")
    expect(page.get_by_role("heading", name="Message rates")).to_be_visible()
    expect(page.get_by_role("heading", name="Data rates")).to_have_count(0)


def test_nothing_is_asked_while_nobody_looks(page: Page, log_in: LogIn) -> None:
    stand_still(page)
    log_in()
    expect(page.locator(".node")).to_contain_text("Uptime")
    settle(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    look_away = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(look_away, True)
    page.clock.run_for(10 * INTERVAL)
    assert asked == []
    with page.expect_request("**/api/overview?*"):
        page.evaluate(look_away, False)


def test_a_broker_that_does_not_answer_is_told(
    broker: leveret.Broker, page: Page, log_in: LogIn, complaints: Complaints
) -> None:
    complaints.expect("ERR_CONNECTION_REFUSED")
    stand_still(page)
    log_in()
    expect(page.locator(".node")).to_contain_text("Uptime")
    settle(page)
    broker.stop()
    page.clock.run_for(INTERVAL)
    expect(page.get_by_role("alert")).to_contain_text("No response from the broker")


def test_nothing_is_wider_than_the_window(broker: leveret.Broker, log_in: LogIn) -> None:
    name = "orders-with-a-name-that-is-much-longer-than-any-phone-is-wide-" * 3
    broker.vhost().declare_queue(name)
    page = log_in()
    for address in ("/#/", "/#/queues", f"/#/queues/%2F/{name}"):
        page.goto(address)
        expect(page.locator(".tile, .rows tr").first).to_be_visible()
        for width in (360, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            assert not does_not_fit(page), (address, width)


def test_ctrl_k_leads_to_any_object(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    broker.vhost().declare_queue("orders.eu")
    broker.vhost().declare_queue("mails")
    page = log_in()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("orders")
    expect(page.get_by_role("option", name="orders.eu")).to_be_visible()
    picture("search")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders.eu")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()

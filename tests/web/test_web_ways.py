"""Links between the pages, on a new broker too."""

from __future__ import annotations

from urllib.parse import urlsplit

import pika
import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.broker.tracing import set_tracing
from leveret.wire.properties import Properties
from tests.support.web_page import LogIn, does_not_fit, furnish

NARROW = {"width": 360, "height": 740}
TABLET = {"width": 800, "height": 900}
LAPTOP = {"width": 1280, "height": 800}
WIDE = {"width": 1600, "height": 900}
MENU = [
    *("Overview", "Queues", "Exchanges", "Connections", "Channels", "Consumers", "Dead letters", "Traces"),
    *("Schedules", "Streams", "Pipelines", "Admin"),
]


def at(page: Page, heading: str) -> None:
    expect(page.get_by_role("heading", level=1, name=heading, exact=True)).to_be_visible()


@pytest.mark.feature("S4-78")
def test_a_queue_leads_to_its_exchange_its_consumers_connection_and_the_stories_of_its_messages(
    broker: leveret.Broker, log_in: LogIn
) -> None:
    core = broker.node.broker
    broker.call(lambda: set_tracing(core, core.vhosts["/"], True))
    furnish(broker)
    connection = pika.BlockingConnection(pika.URLParameters(f"{broker.amqp_url}?heartbeat=0"))
    connection.channel().basic_consume("returns", lambda *_: None)
    page = log_in(address="/#/queues/%2F/invoices")
    bound = page.get_by_role("region", name="bindings")
    expect(bound.get_by_role("link", name="(AMQP default)")).to_be_visible()
    bound.get_by_role("link", name="shop").click()
    at(page, "shop")

    page.goto("/#/queues/%2F/invoices")
    page.locator(".message summary").first.click()
    page.get_by_role("link", name="Message trace").click()
    expect(page.locator(".timeline > li").first).to_contain_text("received")
    page.get_by_role("link", name="All traces").click()
    at(page, "Traces")

    page.goto("/#/queues/%2F/returns")
    link = page.get_by_role("region", name="consumers").get_by_role("link").first
    expect(link).to_contain_text("127.0.0.1")
    name = link.inner_text()
    link.click()
    expect(page.locator("main")).to_contain_text(name)
    expect(page.get_by_role("heading", name="Channels")).to_be_visible()
    connection.close()


def test_stories_are_offered_only_to_those_who_may_read_them(broker: leveret.Broker, log_in: LogIn) -> None:
    core = broker.node.broker
    broker.call(lambda: core.users.add("anna", password="secret", tags=("management",)))
    broker.call(lambda: core.permissions.set("anna", "/", ".*", ".*", ".*"))
    broker.vhost().declare_queue("orders")
    broker.vhost().publish("", "orders", b"tea", Properties(message_id="m"))
    page = log_in("anna", "secret", "/#/queues")
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(page.get_by_role("link", name="Traces")).to_have_count(0)
    page.get_by_role("link", name="orders").click()
    page.locator(".message summary").click()
    expect(page.locator(".payload")).to_have_text("tea")
    expect(page.get_by_text("What became of it")).to_have_count(0)
    page.keyboard.press("Control+k")
    for text in ("traces", "add user"):
        page.get_by_role("combobox", name="Search").fill(text)
        expect(page.get_by_text(f"No results for “{text}”.")).to_be_visible()


def test_tiles_of_the_overview_lead_to_their_pages(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders")
    page = log_in()
    for tile, heading in (("Ready", "Queues"), ("Exchanges", "Exchanges"), ("Connections", "Connections")):
        page.goto("/#/")
        page.locator("a.tile", has_text=tile).click()
        at(page, heading)


def test_a_dialogue_goes_with_its_page(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders")
    page = log_in(address="/#/queues")
    page.get_by_role("link", name="orders").click()
    page.get_by_role("button", name="Publish message …").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.go_back()
    at(page, "Queues")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_names_stay_in_sight_on_a_laptop_and_the_whole_menu_on_a_phone(broker: leveret.Broker, log_in: LogIn) -> None:
    furnish(broker)
    broker.vhost().declare_queue("clicks", durable=True, arguments={"x-queue-type": "stream"})
    with pika.BlockingConnection(pika.URLParameters(f"{broker.amqp_url}?heartbeat=0")) as connection:
        connection.channel()
        page = log_in()
        page.goto("/#/connections")
        peer = page.locator(".rows tr a").first.get_attribute("href")
        for address in ("queues", "streams", "connections", str(peer).removeprefix("#/")):
            page.goto(f"/#/{address}")
            name = page.locator(".rows tr").first.get_by_role("link").first
            table = page.locator(".table").first
            for size in (LAPTOP, WIDE, TABLET, NARROW):
                page.set_viewport_size(size)  # type: ignore[arg-type]
                table.evaluate("table => table.scrollIntoView()")  # up and down only: within the table nothing moves
                expect(name).to_be_in_viewport()
                assert page.locator("thead th.w-name").first.evaluate("cell => cell.offsetWidth") >= 90, (address, size)
                inside = page.locator(".table-scroll").evaluate("place => place.scrollWidth <= place.clientWidth")
                assert inside, (address, size)
                assert not does_not_fit(page)
        page.evaluate("scrollTo(0, 0)")
        for entry in MENU:
            expect(page.get_by_role("navigation").get_by_role("link", name=entry)).to_be_in_viewport(ratio=1)


@pytest.mark.feature("S4-78")
def test_ctrl_k_finds_objects_of_every_kind(broker: leveret.Broker, log_in: LogIn) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost("lunar-vhost"))
    broker.call(lambda: core.users.add("lunar-user", password="secret"))
    broker.call(lambda: set_tracing(core, core.vhosts["/"], True))
    vhost = broker.vhost()
    vhost.declare_queue("lunar-queue")
    vhost.declare_queue("lunar-stream", durable=True, arguments={"x-queue-type": "stream"})
    vhost.declare_exchange("lunar-exchange", "topic")
    vhost.set_policy("lunar-policy", "^x", {"max-length": 1})
    vhost.publish("", "lunar-queue", b"", Properties(message_id="lunar-message"))
    parameters = pika.URLParameters(f"{broker.amqp_url}?heartbeat=0")
    parameters.client_properties = {"connection_name": "lunar-client"}
    connection = pika.BlockingConnection(parameters)
    page = log_in()
    page.keyboard.press("Control+k")
    search = page.get_by_role("combobox", name="Search")
    search.fill("lunar")
    for kind in ("queue", "stream", "exchange", "vhost", "user", "policy", "message", "client"):
        expect(page.get_by_role("option").filter(has_text=f"lunar-{kind}").first).to_be_visible()
    search.fill("definitions")
    expect(page.get_by_role("option").first).to_contain_text("Definitions")
    page.keyboard.press("Enter")
    at(page, "Definitions")
    connection.close()


def test_on_a_fresh_broker_the_first_queue_is_made_where_it_is_offered(broker: leveret.Broker, log_in: LogIn) -> None:
    page = log_in(address="/#/topology/%2F")
    expect(page.get_by_text("No bindings yet")).to_be_visible()
    page.goto("/#/queues")
    port = urlsplit(broker.amqp_url).port
    expect(page.locator(".first pre")).to_contain_text(f":{port}/")
    page.get_by_role("button", name="Or add a queue here").click()
    page.get_by_role("dialog").get_by_label("Name").fill("first")
    page.get_by_role("dialog").get_by_role("button", name="Add queue").click()
    at(page, "first")
    assert broker.vhost().message_count("first") == 0

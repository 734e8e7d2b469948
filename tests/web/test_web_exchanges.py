"""The list of exchanges, one exchange with its topology, and the route tester."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

import leveret
from leveret.routing.bindings import Binding, Destination
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
INJECTED = "document.querySelectorAll('#app img, #app script, #app b b, #notices img, dialog img').length"
UNDO = 5_100  # milliseconds, and a little


def furnish_shop(broker: leveret.Broker) -> None:
    """An exchange that routes to queues and to another exchange, with alternate and dead-letter exchanges."""
    shop = broker.vhost()
    shop.declare_exchange("lost", "fanout", durable=True)
    shop.declare_exchange("dead", "direct", durable=True)
    shop.declare_exchange("web", "fanout", durable=True)
    shop.declare_exchange("shop", "topic", durable=True, arguments={"alternate-exchange": "lost"})
    shop.declare_exchange("billing", "headers", durable=True)
    for name in ("orders", "audit", "invoices", "unrouted", "graveyard"):
        arguments = {"x-dead-letter-exchange": "dead"} if name == "orders" else {}
        shop.declare_queue(name, durable=True, arguments=arguments)
    shop.bind("orders", "shop", "order.*")
    shop.bind("audit", "shop", "#")
    shop.bind("invoices", "billing", "", {"x-match": "all", "country": "be"})
    shop.bind("unrouted", "lost")
    shop.bind("graveyard", "dead", "orders")
    between(broker, "web", "shop", "")
    between(broker, "shop", "billing", "order.paid")
    shop.unbind("audit", "shop", "#")
    shop.bind("audit", "shop", "order.#")
    for step in range(60):
        for _ in range(1 + step % 5):
            shop.publish("shop", "order.new", b"x")
        broker.clock.advance(5)


def between(broker: leveret.Broker, source: str, destination: str, key: str) -> None:
    vhost = broker.node.broker.vhosts["/"]
    broker.call(lambda: vhost.bind(Binding(source, Destination("exchange", destination), key, {})))


def node(page: Page, name: str) -> Locator:
    return page.locator(".topology-picture .node").filter(has=page.locator(".name-text", has_text=name))


def keys_from(broker: leveret.Broker, exchange: str) -> set[tuple[str, str]]:
    bindings = broker.node.broker.vhosts["/"].bindings
    return broker.call(lambda: {(each.destination.name, each.key) for each in bindings.of_source(exchange)})


# ---- the list


@pytest.mark.feature("S4-78")
def test_exchanges_are_listed_and_one_is_added(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    furnish_shop(broker)
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    page = log_in(address="/#/exchanges")
    rows = page.locator(".rows tr")
    expect(rows.first).to_contain_text("(AMQP default)")
    expect(rows.filter(has_text="billing")).to_contain_text("headers")
    expect(rows.filter(has_text="billing")).to_contain_text("durable")
    picture("exchanges")
    page.get_by_label("Virtual host").select_option("/")
    page.get_by_label("Filter exchanges by name").fill("shop")
    expect(rows).to_have_count(1)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("billing")
    page.get_by_role("option", name="billing").click()
    expect(page.get_by_role("heading", name="billing")).to_be_visible()
    page.goto("/#/exchanges")

    page.get_by_role("button", name="Add exchange").click()
    page.get_by_label("Name", exact=True).fill("brand new/ü")
    page.get_by_label("Type").select_option("topic")
    page.get_by_label("Internal").check()
    page.get_by_label("Alternate exchange").fill("lost")
    page.get_by_role("textbox", name="Arguments").fill("[1]")
    page.get_by_role("dialog").get_by_role("button", name="Add exchange").click()
    expect(page.get_by_role("alert")).to_contain_text("must be a JSON object")
    page.get_by_role("textbox", name="Arguments").fill('{"x-colour": "red"}')
    page.get_by_role("dialog").get_by_role("button", name="Add exchange").click()
    expect(page.get_by_role("heading", name="brand new/ü")).to_be_visible()
    made = broker.node.broker.vhosts["/"].exchanges["brand new/ü"]
    assert (made.kind, made.durable, made.internal, made.auto_delete) == ("topic", True, True, False)
    assert made.arguments == {"x-colour": "red", "alternate-exchange": "lost"}
    page.goto("/#/exchanges")
    page.get_by_role("button", name="Add exchange").click()
    page.get_by_label("Name", exact=True).fill("web")
    page.get_by_label("Type").select_option("fanout")
    page.get_by_role("dialog").get_by_role("button", name="Add exchange").click()
    expect(page.get_by_role("alert")).to_contain_text("Exchange web already exists in virtual host /")


def test_the_topology_of_a_virtual_host_is_drawn_as_far_as_it_fits(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    furnish_shop(broker)
    page = log_in(address="/#/exchanges")
    page.get_by_role("button", name="Topology").click()
    expect(page.locator(".topology-picture .node")).to_have_count(10)
    expect(page.locator(".topology-picture .edge")).to_have_count(9)
    picture("topology")

    def bind_many() -> None:
        vhost = broker.node.broker.vhosts["/"]
        for number in range(100):
            vhost.declare_exchange(f"many{number:03}", "fanout")
            vhost.bind(Binding(f"many{number:03}", Destination("queue", "audit"), "", {}))

    broker.call(bind_many)
    page.reload()
    expect(page.get_by_text("Only 60 exchanges and queues are shown")).to_be_visible()
    expect(page.locator(".topology-picture .node")).to_have_count(60)
    page.get_by_label("Filter the topology").fill("many09")
    expect(page.locator(".topology-picture .node")).to_have_count(11)  # ten exchanges and their queue
    page.get_by_label("Filter the topology").fill("nothing like it")
    expect(page.get_by_text("No bindings match “nothing like it”.")).to_be_visible()
    expect(page.get_by_text("bindings were searched")).to_have_count(0)

    def bind_thousands() -> None:
        vhost = broker.node.broker.vhosts["/"]
        vhost.declare_exchange("zoo", "topic")
        for number in range(5_000):
            vhost.bind(Binding("zoo", Destination("queue", "audit"), f"key{number}", {}))

    broker.call(bind_thousands)
    page.get_by_label("Filter the topology").fill("many09")
    expect(page.get_by_text("Only the first 5,000 bindings were searched")).to_be_visible()


# ---- one exchange


@pytest.mark.feature("S4-78")
def test_the_picture_shows_where_an_exchange_leads(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    furnish_shop(broker)
    page = log_in(address="/#/exchanges/%2F/shop")
    for name in ("web", "orders", "audit", "billing", "invoices", "lost", "unrouted", "dead", "graveyard"):
        expect(node(page, name)).to_have_count(1)
    expect(page.locator(".topology-picture .edge.alternate")).to_have_count(1)
    expect(page.locator(".topology-picture .edge.dead-letter")).to_have_count(1)
    expect(page.locator(".keys-text", has_text="x-match=all")).to_have_count(1)
    expect(page.locator("svg.chart path.line")).to_have_count(2)
    expect(page.locator(".tile").filter(has_text="Published").locator("b")).to_have_text("180")
    assert not does_not_fit(page)

    page.get_by_label("Routing key").fill("order.paid")
    page.get_by_role("textbox", name="Headers").fill('{"country": "be"}')
    page.get_by_role("button", name="Test routing key").click()
    answer = page.locator(".route-answer")
    expect(answer).to_contain_text("Routed to 3 queues: ")
    expect(answer.locator("li", has_text="shop → orders")).to_contain_text("by binding order.*")
    expect(page.locator(".node.taken")).to_have_count(5)
    expect(node(page, "invoices")).to_have_class("node queue taken")
    expect(page.locator("g.taken .edge")).to_have_count(4)
    picture("exchange")
    page.get_by_label("Routing key").fill("nothing")
    page.get_by_role("button", name="Test routing key").click()
    expect(answer).to_contain_text("alternate exchange: no binding matches")
    expect(node(page, "unrouted")).to_have_class("node queue taken")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".node.taken")).to_have_count(0)

    node(page, "billing").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="billing")).to_be_visible()
    page.get_by_role("textbox", name="Headers").fill('{"country": "fr"}')
    page.get_by_role("button", name="Test routing key").click()
    expect(page.locator(".route-answer")).to_contain_text("Not routed to any queue")


def test_a_large_fan_out_is_grouped_but_the_way_of_a_message_is_drawn(broker: leveret.Broker, log_in: LogIn) -> None:
    vhost = broker.node.broker.vhosts["/"]

    def declare_many() -> None:
        vhost.declare_exchange("all", "topic")
        for number in range(300):
            vhost.declare_queue(f"q{number:03}")
            vhost.bind(Binding("all", Destination("queue", f"q{number:03}"), f"k{number:03}", {}))

    broker.call(declare_many)
    page = log_in(address="/#/exchanges/%2F/all")
    expect(page.locator(".node.more")).to_contain_text("and 288 more")
    expect(page.locator(".node.queue")).to_have_count(12)
    page.get_by_label("Routing key").fill("k250")
    page.get_by_role("button", name="Test routing key").click()
    expect(node(page, "q250")).to_have_class("node queue taken")
    expect(page.locator(".node.queue")).to_have_count(12)
    expect(page.locator(".node.more")).to_contain_text("and 288 more")
    page.goto("/#/exchanges/%2F/amq.default")
    expect(page.get_by_role("heading", name="(AMQP default)")).to_be_visible()
    expect(page.locator(".node.more")).to_contain_text("and 288 more")
    expect(page.get_by_role("button", name="Delete exchange")).to_be_hidden()
    expect(page.get_by_role("button", name="Unbind")).to_have_count(0)


def test_a_circle_ends_and_an_exchange_that_is_missing_is_told(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    vhost = broker.vhost()
    vhost.declare_exchange("work", "direct")
    vhost.declare_exchange("again", "direct")
    vhost.declare_queue("jobs", arguments={"x-dead-letter-exchange": "again", "x-dead-letter-routing-key": "later"})
    vhost.declare_queue("wait", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "jobs"})
    vhost.declare_queue("lossy", arguments={"x-dead-letter-exchange": "gone"})
    vhost.bind("jobs", "work", "job")
    vhost.bind("lossy", "work", "job")
    vhost.bind("wait", "again", "later")
    between(broker, "again", "work", "job")
    page = log_in(address="/#/exchanges/%2F/work")
    expect(page.locator(".topology-picture .node")).to_have_count(6)
    expect(page.locator(".topology-picture .edge.dead-letter")).to_have_count(3)
    expect(page.locator(".topology-picture .edge")).to_have_count(7)
    expect(page.locator(".node.missing")).to_contain_text("gone")
    expect(page.locator(".node.missing")).to_contain_text("no such exchange")
    picture("exchange-circle")


def test_bindings_are_added_and_taken_away(
    broker: leveret.Broker, page: Page, log_in: LogIn, complaints: Complaints
) -> None:
    complaints.expect("404")  # binding a queue that does not exist
    vhost = broker.vhost()
    vhost.declare_exchange("shop", "topic")
    vhost.declare_exchange("web", "topic")
    vhost.declare_queue("a/b ü")
    stand_still(page)
    log_in(address="/#/exchanges/%2F/shop")
    expect(page.get_by_text("No outgoing bindings")).to_be_visible()
    expect(page.get_by_text("No bindings yet")).to_be_visible()
    page.get_by_role("button", name="Add outgoing binding").click()
    page.get_by_label("Destination", exact=True).fill("missing")
    page.get_by_role("dialog").get_by_label("Routing key").fill("x/%y.*")
    page.get_by_role("dialog").get_by_role("button", name="Add binding").click()
    expect(page.get_by_role("alert")).to_contain_text("missing")
    page.get_by_label("Destination", exact=True).fill("a/b ü")
    page.get_by_role("textbox", name="Arguments").fill('{"x-colour": "red"}')
    page.get_by_role("dialog").get_by_role("button", name="Add binding").click()
    expect(page.get_by_role("button", name="Unbind a/b ü")).to_be_visible()
    expect(node(page, "a/b ü")).to_be_visible()
    assert keys_from(broker, "shop") == {("a/b ü", "x/%y.*")}

    page.get_by_role("button", name="Add incoming binding").click()
    page.get_by_label("Source exchange").fill("web")
    page.get_by_role("dialog").get_by_role("button", name="Add binding").click()
    expect(page.get_by_role("button", name="Unbind shop from web")).to_be_visible()
    assert keys_from(broker, "web") == {("shop", "")}

    page.get_by_role("button", name="Unbind a/b ü").click()
    page.clock.run_for(4_000)
    assert keys_from(broker, "shop") == {("a/b ü", "x/%y.*")}  # there is time to undo
    page.clock.run_for(UNDO)
    expect(page.get_by_text("to a/b ü deleted")).to_be_visible()
    assert keys_from(broker, "shop") == set()
    expect(node(page, "a/b ü")).to_be_hidden()


def test_a_message_is_published_and_the_exchange_deleted(broker: leveret.Broker, page: Page, log_in: LogIn) -> None:
    vhost = broker.vhost()
    vhost.declare_exchange("shop", "topic")
    vhost.declare_queue("orders")
    vhost.bind("orders", "shop", "order.*")
    stand_still(page)
    log_in(address="/#/exchanges/%2F/shop")
    page.get_by_role("button", name="Publish message …").click()
    dialogue = page.get_by_role("dialog")
    dialogue.get_by_label("Routing key").fill("order.new")
    dialogue.get_by_label("Body", exact=True).fill("hello")
    dialogue.get_by_role("button", name="Publish message", exact=True).click()
    expect(page.get_by_text("Message published.", exact=True)).to_be_visible()
    got = vhost.get("orders", auto_ack=True)
    assert got is not None
    assert (got.body, got.routing_key) == (b"hello", "order.new")
    dialogue.get_by_label("Routing key").fill("unheard of")
    dialogue.get_by_role("button", name="Publish message", exact=True).click()
    expect(page.get_by_text("not routed to any queue")).to_be_visible()
    dialogue.get_by_role("button", name="Close").click()

    page.get_by_role("button", name="Delete exchange").click()
    page.get_by_role("button", name="Undo").click()
    page.clock.run_for(2 * UNDO)
    assert "shop" in broker.node.broker.vhosts["/"].exchanges
    page.get_by_role("button", name="Delete exchange").click()
    page.clock.run_for(UNDO)
    expect(page.get_by_role("heading", name="Exchanges", exact=True)).to_be_visible()
    assert "shop" not in broker.node.broker.vhosts["/"].exchanges


def test_a_canary_in_every_field_shows_as_text(broker: leveret.Broker, log_in: LogIn, complaints: Complaints) -> None:
    broker.call(lambda: broker.node.broker.add_vhost(CANARY))
    broker.call(lambda: broker.node.broker.permissions.set("guest", CANARY, ".*", ".*", ".*"))
    vhost = broker.vhost(CANARY)
    vhost.declare_exchange(CANARY, "topic", arguments={"alternate-exchange": f"{CANARY}2", CANARY: CANARY})
    vhost.declare_exchange(f"{CANARY}2", "headers")
    vhost.declare_queue(CANARY, arguments={"x-dead-letter-exchange": f"{CANARY}2", "x-dead-letter-routing-key": CANARY})
    vhost.bind(CANARY, CANARY, CANARY, {CANARY: CANARY})
    vhost.set_policy(CANARY, ".*", {"max-length": 1000})
    vhost.set_policy(f"{CANARY}-e", ".*", {"alternate-exchange": CANARY}, apply_to="exchanges", priority=5)
    page = log_in(address="/#/exchanges")
    page.get_by_label("Filter exchanges by name").fill("<img")
    expect(page.locator(".rows tr")).to_have_count(2)
    expect(page.locator(".rows tr").first).to_contain_text(f"{CANARY}-e")
    page.get_by_role("link", name=CANARY, exact=True).click()
    expect(page.locator(".topology-picture .node", has_text=CANARY).first).to_be_visible()  # long names are cut
    expect(page.locator(".badges")).to_contain_text(CANARY)
    expect(page.locator(".topology-picture .keys-text title").first).to_contain_text(CANARY)
    page.get_by_label("Routing key").fill(CANARY)
    page.get_by_role("textbox", name="Headers").fill('{"<img src=x>": "<img src=x>"}')
    page.get_by_role("button", name="Test routing key").click()
    expect(page.locator(".route-answer li")).to_contain_text(CANARY)
    page.get_by_text("Arguments and policy").click()
    expect(page.locator(".facts")).to_contain_text(CANARY)
    page.get_by_role("button", name="Unbind").click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    page.get_by_role("button", name="Undo").click()
    assert page.evaluate(INJECTED) == 0
    assert complaints == []


def test_an_exchange_that_is_gone_is_told(log_in: LogIn, complaints: Complaints) -> None:
    complaints.expect("404")
    page = log_in(address="/#/exchanges/%2F/nowhere")
    expect(page.get_by_role("alert").first).to_contain_text("nowhere")
    page.goto("/#/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

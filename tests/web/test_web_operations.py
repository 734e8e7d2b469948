"""What operators look at every day: alarms, history of the node, log, HTTP API, search with actions, shortcuts."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

import leveret
from leveret.api.recent_log import RecentLog
from leveret.logs import get_log
from tests.support.management_api import as_guest
from tests.support.running_clients import client
from tests.support.web_page import Complaints, Picture, does_not_fit

pytestmark = pytest.mark.broker()
ODD = " odd "
OF_QUEUE = (
    *("Publish", "Deliver (manual ack)", "Deliver (auto ack)", "Ack", "Redelivered"),
    *("Get (manual ack)", "Get (auto ack)", "Get (empty)"),
)
RATES = (*OF_QUEUE, "Confirm", "Unroutable (returned)", "Unroutable (dropped)")
NODE_CHARTS = (
    "Memory",
    "Free disk space",
    "CPU",
    "Event loop lag",
    "Disk operations per second",
    "Mean time of a journal sync",
    "Mean time of a journal write or disk read",
    "Journal writes and disk reads",
    "File",
)


@pytest.fixture(scope="module")
def module_complaints() -> Complaints:
    return Complaints()


@pytest.fixture(scope="module")
def module_page(chromium: Browser, module_broker: leveret.Broker, module_complaints: Complaints) -> Iterator[Page]:
    """One page for the module, logged in as guest."""
    shop = module_broker.vhost()
    for name in ("shop.orders", "mails"):
        shop.declare_queue(name, durable=True)
    for _ in range(12):
        shop.publish("", "shop.orders", b"x")
        module_broker.clock.advance(5)
    context = chromium.new_context(base_url=module_broker.http_url, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    module_complaints.watch(page)
    log_in(page, "guest", "guest")
    yield page
    context.close()


@pytest.fixture
def page(module_page: Page, module_complaints: Complaints) -> Iterator[Page]:
    module_page.goto("/#/")
    yield module_page
    assert module_complaints == []


def log_in(page: Page, name: str, password: str) -> None:
    page.goto("/")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Pages").wait_for()


def chart(page: Page, title: str) -> str:
    """The paths of a chart."""
    drawn = page.locator("figure").filter(has=page.get_by_role("heading", name=title)).first
    expect(drawn.locator("path.line").first).to_be_attached()
    return str(drawn.locator("path.line").first.get_attribute("d"))


def test_alarms_are_on_every_page(broker: leveret.Broker, page: Page, picture: Picture) -> None:
    core = broker.node.broker
    for name, reason in (("disk", "free disk space below limit"), ("store", "store read-only: input/output error")):
        broker.call(lambda name=name, reason=reason: core.set_alarm(name, reason))
    alarms = page.locator(".alarms").get_by_role("alert")
    page.reload()  # rather than wait for the next poll
    for address in ("/#/queues", "/#/admin/users", "/#/nodes"):
        page.goto(address)
        expect(alarms).to_have_count(2)
        expect(alarms.nth(0)).to_contain_text("Free disk space")
        expect(alarms.nth(0)).to_contain_text("is below the limit of")
        expect(alarms.nth(1)).to_contain_text("Store read-only: input/output error: publishers are blocked")
    picture("alarms")
    for name in ("disk", "store"):
        broker.call(lambda name=name: core.set_alarm(name, None))
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(alarms).to_have_count(0)


def test_the_overview_has_all_rates_and_a_gap_before_the_start(page: Page, picture: Picture) -> None:
    for name in (
        *RATES,
        "Connections opened",
        "Channels closed",
        "Created",
        "Deleted",
        "From clients",
        "To clients",
        "Written",
        "Read",
    ):
        expect(page.locator(".key", has_text=name).first).to_be_visible()
    start = float(chart(page, "Queued messages").removeprefix("M").partition(" ")[0])
    width = page.locator("figure svg").first.evaluate("drawing => drawing.clientWidth")
    assert start > width / 2  # one minute of ten
    picture("overview-rates")


def test_every_object_has_charts_of_ten_minutes_and_an_hour(
    broker: leveret.Broker, page: Page, picture: Picture
) -> None:
    """A range that is chosen on one page is that of the next one, or the longest one that it has."""

    def ranges() -> dict[str, str | None]:
        buttons = page.get_by_role("group", name="Time range").get_by_role("button")
        expect(buttons.first).to_be_visible()
        return {button.inner_text(): button.get_attribute("aria-pressed") for button in buttons.all()}

    page.get_by_role("button", name="24 h").click()
    with client(broker, "worker") as channel:
        channel.basic_get("mails")
        channel.basic_get("shop.orders")
        broker.clock.advance(5)
        (connection,) = [row["name"] for row in as_guest(broker).get("connections")[1]]
        for address in (
            *("queues/%2F/shop.orders", "exchanges/%2F/amq.default", f"connections/{quote(connection)}"),
            f"channels/{quote(f'{connection} (1)')}",
        ):
            with page.expect_response(re.compile("msg_rates_age=3600&msg_rates_incr=60")):
                page.goto(f"/#/{address}")
            assert ranges() == {"10 min": "false", "1 h": "true"}, address
        page.goto("/#/queues/%2F/shop.orders")
        expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")
        with page.expect_response(re.compile("lengths_age=600&lengths_incr=5&msg_rates_age=600&msg_rates_incr=5")):
            page.get_by_role("button", name="10 min").click()
        for name in OF_QUEUE:
            expect(page.locator(".key", has_text=name).first).to_be_visible()
        assert chart(page, "Message rates")
        picture("queue-history")
        page.goto("/#/admin/vhosts")
        for title in ("From clients", "To clients"):
            expect(page.get_by_role("columnheader", name=title)).to_be_visible()
        expect(page.locator(".rows tr").first).to_contain_text("B/s")
        page.get_by_role("link", name="/", exact=True).click()
        for name in ("Queued messages", "Message rates", "Data rates"):
            assert chart(page, name), name
        picture("vhost-history")
    page.goto("/#/")
    assert ranges() == {"10 min": "true", "1 h": "false", "8 h": "false", "24 h": "false"}


def test_the_node_has_a_history_in_the_same_time_ranges(page: Page, picture: Picture) -> None:
    page.get_by_role("button", name="1 h").click()
    page.get_by_role("link", name="Nodes", exact=True).click()
    expect(page.get_by_role("button", name="1 h")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="10 min").click()
    for name in NODE_CHARTS:
        expect(page.get_by_role("heading", name=name).first).to_be_visible()
    for name in ("Memory", "Free disk space", "File"):
        assert chart(page, name)
    for kind in ("Messages", "Definitions", "Connections", "In transit", "Other"):
        expect(page.locator(".memory-kinds .gauge").filter(has_text=kind)).to_contain_text("%")
    picture("node-history")
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert not does_not_fit(page)


def test_the_chosen_node_stays_chosen_when_another_one_comes(page: Page) -> None:
    chosen = page.evaluate("""async () => {
        const { HistorySection } = await import("/web/pages/nodes.js");
        const history = new HistorySection(AbortSignal.abort(), document.createElement("div"));
        history.offer(["a", "b"]);
        const select = () => history.element.querySelector("select");
        select().value = "b";
        select().dispatchEvent(new Event("change"));
        history.offer(["a", "b", "c"]);
        return [select().value, select().options.length];
    }""")
    assert chosen == ["b", 3]


def test_the_log_is_followed_and_filtered(page: Page, picture: Picture) -> None:
    log = get_log("probe")
    log.warning("disk is slow", password="hunter2")
    page.get_by_role("link", name="Nodes", exact=True).click()
    page.get_by_role("link", name="Log", exact=True).click()
    lines = page.get_by_role("list", name="Log lines").get_by_role("listitem")
    expect(lines.filter(has_text="disk is slow")).to_contain_text("password=***")
    log.error("disk is gone")
    expect(lines.first).to_contain_text("disk is gone")  # newest first, without a reload
    picture("log")
    page.get_by_label("Lowest level").select_option("error")
    expect(lines.filter(has_text="disk is slow")).to_have_count(0)
    page.get_by_label("Filter lines").fill("no such line")
    expect(lines).to_have_text(["No lines match."])


def test_the_log_of_a_new_run_is_shown_from_its_first_line(
    broker: leveret.Broker, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.goto("/#/log")
    lines = page.get_by_role("list", name="Log lines").get_by_role("listitem")
    get_log("probe").warning("before the restart")
    expect(lines.first).to_contain_text("before the restart")
    earlier, fresh = broker.node._recent_log, RecentLog()
    for number in range(earlier.last + 5):  # the new run has passed the last number of the old one
        line = {"name": "leveret.probe", "msg": f"line {number} after the restart", "levelno": logging.ERROR}
        fresh.emit(logging.makeLogRecord(line))
    assert broker.node._api is not None
    monkeypatch.setattr(broker.node._api, "recent_log", fresh)
    expect(lines).to_have_count(fresh.last)
    expect(lines.last).to_contain_text("line 0 after the restart")


def test_the_http_api_is_described_with_examples(page: Page, picture: Picture) -> None:
    page.get_by_role("link", name="API", exact=True).click()
    page.get_by_label("Filter", exact=True).fill("delete /api/queues")
    expect(page.locator("details")).not_to_have_count(0)
    page.locator("details", has_text="/api/queues/{vhost}/{name}").first.locator("summary").click()
    shown = page.locator(".operation pre").first
    expect(shown).to_contain_text("curl -g -u guest -X DELETE")  # -g: {name} is not a pattern
    expect(page.locator(".parameters").first).to_contain_text("vhost")
    picture("api")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("shp.ord", "shop.orders"),
        ("policy", "Add policy"),
        ("exprt", "Export definitions"),
        ("nods", "Nodes"),
        ("traces", "Traces"),
    ],
)
def test_the_search_is_fuzzy(page: Page, typed: str, found: str) -> None:
    page.keyboard.press("Control+k")
    with page.expect_response("**/api/traces"):
        page.get_by_role("combobox", name="Search").fill(typed)
    expect(page.get_by_role("option").first).to_contain_text(found)
    expect(page.get_by_role("option").filter(has=page.get_by_text(found, exact=True))).to_have_count(1)
    page.keyboard.press("Escape")


def test_the_search_does_things(page: Page) -> None:
    def does(text: str) -> None:
        page.keyboard.press("Control+k")
        page.keyboard.type(text)
        page.keyboard.press("Enter")

    does("dark theme")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    does("theme of the system")
    expect(page.locator("html")).to_have_attribute("data-theme", "auto")
    for noun in ("queue", "exchange", "stream", "user", "virtual host"):
        does(f"add {noun}")
        expect(page.get_by_role("dialog", name=f"Add {noun}")).to_be_visible()
        page.keyboard.press("Escape")


def test_slash_and_question_mark(page: Page, picture: Picture) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_contain_text("Keyboard shortcuts")
    picture("help")
    page.keyboard.press("Escape")
    page.keyboard.press("/")  # the overview has no filter
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    page.keyboard.press("Escape")
    page.goto("/#/log")
    expect(page.get_by_label("Filter lines")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter lines")).to_be_focused()
    page.keyboard.type("?/")  # typed, not taken
    expect(page.get_by_label("Filter lines")).to_have_value("?/")


def test_users_see_what_they_may(broker: leveret.Broker, chromium: Browser, module_complaints: Complaints) -> None:
    """First steps with the user's own virtual host, no log, alarms without numbers."""
    core = broker.node.broker

    def prepare() -> None:
        core.users.add("ann", password="secret", tags=("management",))
        core.add_vhost("shop")
        core.permissions.set("ann", "shop", ".*", ".*", ".*")
        core.set_alarm("memory", "memory high watermark exceeded")

    broker.call(prepare)
    with chromium.new_context(base_url=broker.http_url) as context:
        page = context.new_page()
        module_complaints.watch(page)
        log_in(page, "ann", "secret")
        expect(page.locator(".first pre")).to_contain_text("/shop")
        expect(page.get_by_role("alert")).to_contain_text("Memory high watermark exceeded: publishers are blocked.")
        page.goto("/#/log")
        expect(page.get_by_text("available to administrators only")).to_be_visible()
    broker.call(lambda: core.set_alarm("memory", None))
    assert module_complaints == []


@contextmanager
def odd_objects(broker: leveret.Broker) -> Iterator[None]:
    """Objects of every kind whose name has a space at an end."""
    core, vhost = broker.node.broker, broker.vhost()
    broker.call(lambda: core.users.add(ODD, tags=("management",)))
    broker.call(lambda: core.add_vhost(ODD))
    broker.call(lambda: core.permissions.set(ODD, ODD, ".*", ".*", ".*"))
    vhost.declare_exchange(ODD, "topic")
    vhost.declare_queue(ODD, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mails"})
    vhost.bind(ODD, ODD, ODD)
    vhost.set_policy(ODD, "^no such", {"max-length": 1})
    vhost.publish("", ODD, b"x")
    taken = vhost.get(ODD)
    assert taken is not None
    vhost.nack(taken.delivery_tag, requeue=False)
    with client(broker, ODD) as channel:
        channel.basic_consume(ODD, lambda *_: None, consumer_tag=ODD)
        yield
    broker.call(lambda: core.users.delete(ODD))
    broker.call(lambda: core.delete_vhost(ODD))
    vhost.delete_queue(ODD)
    vhost.delete_exchange(ODD)


def test_spaces_at_the_ends_of_names_are_marked(broker: leveret.Broker, page: Page) -> None:
    """Two spaces for each name: also of the virtual host of seven exchanges, of routing keys, and of consumers."""
    odd = quote(ODD)
    marked = page.locator(".rows .edge-space")
    with odd_objects(broker):
        for address, name, spaces in (
            ("queues", "Name", 2),
            ("exchanges", "Name", 16),
            ("connections", "Client", 2),
            ("channels", "Connection", 2),
            ("consumers", "Consumer tag", 6),
            ("dead-letters", "Cause", 3),
            ("admin/users", "Name", 4),
            ("admin/vhosts", "Name", 2),
            ("admin/policies", "Name", 2),
            (f"admin/users/{odd}", "Virtual host", 2),
            (f"admin/vhosts/{odd}", "User", 2),
            (f"exchanges/%2F/{odd}", "Destination", 4),
            (f"queues/%2F/{odd}", "Source", 10),
        ):
            page.goto(f"/#/{address}")
            expect(page.locator("th").filter(has_text=name).first).to_be_attached()
            expect(marked, address).to_have_count(spaces)
        page.goto(f"/#/exchanges/%2F/{odd}")
        expect(page.locator(".name-text", has_text="␣odd␣")).to_have_count(2)


def test_charts_have_gaps_where_there_are_no_samples(page: Page) -> None:
    """Times of 0 to 10 s, a gap, 60 to 75 s; the counter begins again at 70 s."""
    told = page.evaluate("""async () => {
        const { pointsOf } = await import("/web/chart.js");
        const counts = [[75, 4], [70, 2], [65, 40], [60, 30], [10, 20], [5, 10], [0, 0]];
        const details = { samples: counts.map(([time, sample]) => ({ timestamp: time * 1000, sample })) };
        return [pointsOf(details), pointsOf(details, true)].map((points) => points.map(([, value]) => value));
    }""")
    assert told == [[0, 10, 20, None, 30, 40, 2, 4], [2, None, 2, None, 0.4]]
    lines = page.evaluate("""async () => {
        const { lineChart } = await import("/web/chart.js");
        const chart = lineChart("a");
        chart.draw([{ label: "a", points: [[0, 1], [1, null], [2, 3], [3, 3], [4, null], [5, 2]] }]);
        return chart.element.querySelector("path.line").getAttribute("d").replace(/[\\d. -]+/g, "");
    }""")
    assert lines == "MmhMLMmh"  # values between two gaps are dots


def test_fuzzy_matches_are_ranked(page: Page) -> None:
    told = page.evaluate("""async () => {
        const { distance, fuzzyPattern } = await import("/web/fuzzy.js");
        const names = ["shop.orders", "shp.orders", "my.shp.ord", "SHP.ORD", "s" + "-".repeat(50) + "hp.ord", "mails"];
        return [names.map((name) => distance(name, "shp.ord")), fuzzyPattern("a.]B")];
    }""")
    assert told == [[4, 1, 2, 0, None, None], "[aA][^.]*[.][^\\]]*[\\]][^bB]*[bB]"]

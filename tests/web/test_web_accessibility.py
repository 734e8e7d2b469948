"""axe-core on every page of the management UI, light and dark: one broker with content, one browser context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

import leveret
from leveret.logs import get_log
from leveret.wire.fields import Table
from leveret.wire.properties import Properties
from tests.support.management_api import as_guest
from tests.support.programs import missing
from tests.support.running_clients import client
from tests.support.still_cell import StillCell
from tests.support.web_forms import fill, operator_policy, press
from tests.support.web_page import Complaints, furnish

pytestmark = pytest.mark.broker(storage="disk")
ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "tests" / "compat" / "node" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ROOT / "src" / "leveret" / "webui" / "pages"
# In the open dialog, if there is one: the page behind it has a view of its own.
FOUND = """async (rules) => {
    const options = { resultTypes: ["violations"], ...(rules && { runOnly: { type: "rule", values: rules } }) };
    const place = document.querySelector("dialog[open]") ?? document;
    const { violations } = await axe.run(place, options);
    return violations
        .filter((one) => one.impact !== "minor")
        .flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html} (${node.failureSummary})`));
}"""
COLOURS = ["color-contrast", "link-in-text-block"]  # all that differs in the dark


class View(NamedTuple):
    """A page and a text that it shows once it has loaded. ``prepare`` opens what is checked on it, or another page, and
    ``leads_to`` is the path of that page."""

    address: str
    text: str
    prepare: Callable[[Page], object] = lambda page: None
    leads_to: str = ""


def click(name: str) -> Callable[[Page], object]:
    return lambda page: page.get_by_role("button", name=name, exact=True).first.click()


def select_queues(page: Page) -> None:
    page.get_by_label("Select all matching rows").check()
    expect(page.locator(".selection-bar")).to_contain_text("selected")


def delete_selected(page: Page) -> None:
    select_queues(page)
    click("Delete …")(page)
    expect(page.get_by_role("dialog")).to_be_visible()


def open_message(page: Page) -> None:
    page.locator("details.message summary").first.click()
    page.get_by_text("Arguments, policy and counters").click()
    expect(page.locator("details.message pre").first).to_be_visible()


def follow(link: str, text: str) -> Callable[[Page], object]:
    """To the page of an object whose name is chosen by the broker."""

    def click_it(page: Page) -> None:
        page.locator("main .rows").get_by_role("link", name=re.compile(link)).first.click()
        expect(page.locator("main")).to_contain_text(text)

    return click_it


def preview_import(page: Page) -> None:
    fill(page, Or_paste_JSON='{"queues": [{"name": "new", "vhost": "/"}, {"name": "lost", "vhost": "nowhere"}]}')
    press(page, "Preview import")
    expect(page.locator(".report .problem")).to_be_visible()


def show_effective_policy(page: Page) -> None:
    effective = page.locator(".effective-policy")
    fill(effective, Name="orders")
    press(effective, "Show effective policy")
    expect(effective.locator(".holds").first).to_be_visible()


def search(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("orders")
    expect(page.get_by_role("option").first).to_contain_text("orders")


def open_operation(page: Page) -> None:
    page.get_by_label("Filter", exact=True).fill("delete /api/queues")
    page.locator("details summary").first.click()


def retry_first(page: Page) -> None:
    page.get_by_role("button", name="Retry rejected in failing").click()
    expect(page.get_by_role("dialog")).to_be_visible()


VIEWS = [
    View("/", "Longest queues", click("1 h")),
    View("/", "Overview", lambda page: page.keyboard.press("?")),
    View("/", "Overview", search),
    View("/queues", "orders", select_queues),
    View("/queues", "orders", delete_selected),
    View("/queues", "orders", click("Columns …")),
    View("/queues", "orders", click("Add queue")),
    View("/queues/%2F/orders", "till-tag", open_message),
    View("/queues/%2F/orders", "till-tag", click("Publish message …")),
    View("/queues/%2F/orders", "till-tag", click("Move …")),
    View("/queues/%2F/orders", "till-tag", click("Add binding …")),
    View("/queues/%2F/orders", "till-tag", click("Delete queue …")),
    View("/queues/%2F/jobs", "billing"),  # unacked messages
    View("/exchanges", "amq.topic"),
    View("/exchanges/%2F/shop", "order.paid"),
    View("/topology/%2F", "shop"),
    View("/connections", "till 1"),
    View("/connections", "till 1", follow("till 1", "Negotiated parameters"), "/connections/:name"),
    View("/channels", "till 1"),
    View("/channels", "till 1", follow("^1$", "till-tag"), "/channels/:name"),
    View("/consumers", "till-tag"),
    View("/dead-letters", "no stock"),
    View("/dead-letters", "no stock", retry_first),
    View("/dead-letters", "no stock", follow("rejected", '{"order": 0}'), "/dead-letters/:group"),
    View("/traces", "traced-1", lambda page: None, "/traces/:vhost"),
    View("/traces/%2F", "traced-1", follow("traced-1", "routed"), "/traces/:vhost/:id"),
    View("/schedules", "order.late"),
    View("/streams", "clicks"),
    View("/streams/%2F/clicks", "nightly"),
    View("/pipelines", "clicks to lake"),
    View("/pipelines/%2F/q-1", "exchange deduped"),
    View("/log", "disk is slow"),
    View("/api", "/api/queues", open_operation),
    View("/docs", "Backup"),
    View("/docs/queues", "x-max-length"),
    View("/nodes", "This broker is a single node"),
    View("/admin", "guest"),
    View("/admin/users", "anna"),
    View("/admin/users", "anna", click("Add user")),
    View("/admin/users/anna", "^mine"),
    View("/admin/vhosts", "shop"),
    View("/admin/vhosts/shop", "anna"),
    View("/admin/access", "Dry run"),
    View("/admin/policies", "short", show_effective_policy),
    View("/admin/policies/policy/%2F/short", "short"),
    View("/admin/policy", "queues"),
    View("/admin/operator-policy", "queues"),
    View("/admin/limits", "shop"),
    View("/admin/definitions", "Import", preview_import),
]


# ---- content


def add_messages(broker: leveret.Broker) -> None:
    """Queues with five minutes of traffic, dead letters, a traced and a scheduled message, a stream with a reader."""
    furnish(broker)
    vhost, api = broker.vhost(), as_guest(broker)
    vhost.declare_queue("jobs", durable=True)
    vhost.declare_queue("dead", durable=True)
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-length": 100}
    vhost.declare_queue("failing", durable=True, arguments=to_dead)
    for number in range(2):
        headers: Table = {"x-exception-message": "no stock"}
        vhost.publish("", "failing", b'{"order": %d}' % number, Properties(headers=headers))
        got = vhost.get("failing")
        assert got is not None
        vhost.nack(got.delivery_tag, requeue=False)
    due = round((broker.clock.core.wall() + 650) * 1000)
    vhost.publish("shop", "order.late", b"x", Properties(headers={"x-deliver-at": due}))
    vhost.declare_queue("clicks", durable=True, arguments={"x-queue-type": "stream", "x-max-age": "7D"})
    for number in range(3):
        vhost.publish("", "clicks", b'{"page": %d}' % number)
    broker.call(lambda: broker.node.broker.vhosts["/"].stream_offsets.put("clicks", "nightly", 1, False))
    assert api.put("vhosts/%2F", {"tracing": True})[0] == 204
    vhost.publish("shop", "order.paid", b"{}", Properties(message_id="traced-1"))


def add_administration(broker: leveret.Broker) -> None:
    api = as_guest(broker)
    for address, value in (
        ("vhosts/shop", {}),
        ("users/anna", {"password": "secret", "tags": "management"}),
        ("permissions/shop/anna", {"configure": "^mine", "write": ".*", "read": ".*"}),
        ("policies/%2F/short", {"pattern": "^orders", "definition": {"max-length": 1000}, "apply-to": "queues"}),
        ("vhost-limits/shop/max-connections", {"value": 5}),
    ):
        assert api.put(address, value)[0] in (201, 204), address
    operator_policy(broker, "cap", {"max-length": 500})
    get_log("probe").warning("disk is slow")


def add_pipeline(broker: leveret.Broker) -> None:
    api = as_guest(broker)
    broker.vhost().declare_queue("leased", durable=True)
    broker.vhost().publish("", "leased", b"x", Properties(delivery_mode=2))
    assert api.post("pipeline/%2F/leases", {"queue": "leased", "consumer": "lake", "max_messages": 1})[0] == 200
    for step in range(3):
        report = {"id": "q-1", "run_id": "r", "vhost": "/", "state": "running", "batch": step, "rows": 500, "lag": 40}
        report |= {"batch_ms": 90, "name": "clicks to lake", "sources": [{"offset": {"clicks": step}, "lag": 40}]}
        report |= {"steps": ["dedup: by message-id"], "sink": "exchange deduped", "duration_ms": {"addBatch": 80}}
        assert api.post("pipeline/queries", report)[0] == 200
        broker.clock.advance(5)


@contextmanager
def consumers(broker: leveret.Broker) -> Iterator[None]:
    """Two connections: one reads everything and holds it, the other holds one message."""
    with ExitStack() as clients:
        for name, queue, tag in (("till 1", "orders", "till-tag"), ("billing", "jobs", "billing-tag")):
            channel = clients.enter_context(client(broker, name))
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(queue, lambda *_: None, consumer_tag=tag)
            channel.basic_publish("", queue, b"{}")
        yield


# ---- the tests


@pytest.fixture(scope="module")
def module_complaints() -> Complaints:
    return Complaints()


@pytest.fixture(scope="module")
def module_page(chromium: Browser, module_broker: leveret.Broker, module_complaints: Complaints) -> Iterator[Page]:
    """One page for the module, before the login, with axe-core."""
    if not AXE.is_file():
        missing("axe-core is not installed (`make foreign` installs it)")
    add_messages(module_broker)
    add_administration(module_broker)
    add_pipeline(module_broker)
    context = chromium.new_context(base_url=module_broker.http_url, viewport={"width": 1600, "height": 900})
    page = context.new_page()
    module_complaints.watch(page)
    page.add_init_script(path=AXE)
    with consumers(module_broker):
        yield page
    context.close()


@pytest.fixture
def page(module_page: Page, module_complaints: Complaints, log_in_once: None) -> Iterator[Page]:
    yield module_page
    assert module_complaints == []


@pytest.fixture(scope="module")
def log_in_once(module_page: Page) -> None:
    module_page.goto("/")
    press_log_in(module_page)


def press_log_in(page: Page) -> None:
    fill(page, User_name="guest", Password="guest")
    press(page, "Log in")
    page.get_by_role("navigation", name="Pages").wait_for()


def faults_of(page: Page) -> list[str]:
    """Everything in the light, and what depends on colours in the dark."""
    faults: list[str] = page.evaluate(FOUND, None)
    page.emulate_media(color_scheme="dark")
    faults += [f"dark: {fault}" for fault in page.evaluate(FOUND, COLOURS)]
    page.emulate_media(color_scheme="light")
    return faults


def show(page: Page, view: View) -> None:
    page.keyboard.press("Escape")  # closes the dialog of the view before
    page.goto("/#/no-such-page")
    page.goto(f"/#{view.address}")
    expect(page.locator("main")).to_contain_text(view.text)
    view.prepare(page)


def pattern_of(path: str) -> re.Pattern[str]:
    return re.compile("#" + re.sub(":[a-z]+", "[^/?]+", path) + "$")


@pytest.mark.feature("S4-78")
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.leads_to or view.address)
def test_axe_finds_nothing_above_minor(page: Page, view: View) -> None:
    show(page, view)
    if view.leads_to:
        expect(page).to_have_url(pattern_of(view.leads_to))
    assert faults_of(page) == []


def test_axe_finds_nothing_in_a_cell_with_an_alarm(broker: leveret.Broker, page: Page) -> None:
    StillCell(broker)
    broker.call(lambda: broker.node.broker.set_alarm("store", "store read-only"))
    page.reload()
    show(page, View("/nodes", "leader's process ended"))
    expect(page.locator(".alarms").get_by_role("alert")).to_be_visible()
    assert faults_of(page) == []
    broker.call(lambda: broker.node.broker.set_alarm("store", None))


def test_axe_finds_nothing_in_the_login(page: Page) -> None:
    press(page, "Log out")
    expect(page.get_by_label("User name")).to_be_visible()
    assert faults_of(page) == []
    press_log_in(page)


def test_every_page_is_checked() -> None:
    text = "\n".join(file.read_text() for file in PAGES.glob("*.js"))
    paths = re.findall(r'^(?:export const path =|  path:) "(/.*)"', text, re.MULTILINE)
    assert len(paths) > 30
    shown = [f"#{address}" for view in VIEWS for address in (view.address, view.leads_to)]
    assert [path for path in paths if not any(pattern_of(path).match(address) for address in shown)] == []

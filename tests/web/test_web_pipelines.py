"""The page of Spark queries and leases."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.management_api import as_guest
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, settle, stand_still

PYTHON = "PythonMicroBatchStream"
CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
ERROR = "no answer from http://127.0.0.1:9 for 60 seconds: set endpoint or retrySeconds"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, #notices img, dialog img').length"


pytestmark = pytest.mark.broker(storage="disk", fresh=True)


def tell(broker: leveret.Broker, id_: str, **more: object) -> None:
    report = {"id": id_, "run_id": "r-1", "vhost": "/", "state": "running", "batch": 7, "rows": 500, "batch_ms": 1200}
    assert as_guest(broker).post("pipeline/queries", report | more)[0] == 200


def lease(broker: leveret.Broker, queue: str, consumer: str) -> None:
    vhost = broker.vhost()
    vhost.declare_queue(queue, durable=True)
    for _ in range(5):
        vhost.publish("", queue, b"x", Properties(delivery_mode=2))
    taking = {"queue": queue, "consumer": consumer, "max_messages": 3}
    assert as_guest(broker).post("pipeline/%2F/leases", taking)[1]["messages"] == 3


def furnish(broker: leveret.Broker) -> None:
    lease(broker, "returns", "returns-to-lake")
    broker.clock.advance(7_000)
    lease(broker, "invoices", "invoices-to-lake")
    returns = {"consumer": "returns-to-lake", "lease": 1, "queue": "returns", "vhost": "/"}
    tell(broker, "q-4", name="returns to lake", lag=2, sources=[{"offset": returns, "lag": 2}], sink="DeltaSink")
    broker.clock.advance(300)
    for step in range(30):
        clicks = [{"description": PYTHON, "offset": {"clicks": 960 + step}, "lag": 4000 - step * 100}]
        tell(broker, "q-1", name="clicks to lake", lag=4000 - step * 100, rows_per_second=200.5 + step % 7 * 20,
             input_rows_per_second=120.0, sources=clicks, sink="DeltaSink", at="2031-05-01T12:00:00.000Z")  # fmt: skip
        broker.clock.advance(2)
    tell(broker, "q-2", name="fraud", lag=35, rows_per_second=12.0, state="idle", sink="LeveretSink")
    tell(broker, "q-3", name=None, lag=None, state="failed", error=ERROR)


@pytest.mark.feature("S4-78")
def test_queries_and_leases_are_shown(broker: leveret.Broker, log_in: LogIn, picture: Picture, page: Page) -> None:
    furnish(broker)
    stand_still(page)
    log_in(address="/#/pipelines")
    queries = page.get_by_role("region", name="queries").locator(".rows tr")
    expect(queries).to_have_count(4)
    expect(queries.first).to_contain_text("clicks to lake")
    expect(queries.first).to_contain_text("1,100")
    expect(queries.first.locator("svg.spark path")).to_be_visible()
    assert [row.locator(".badge").inner_text() for row in queries.all()] == ["running", "idle", "silent", "failed"]
    expect(page.locator(".tile").filter(has_text="Leased messages")).to_contain_text("6")
    picture("pipelines")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)
    page.set_viewport_size({"width": 1600, "height": 900})

    expect(queries.last).to_contain_text(ERROR)
    leases = page.get_by_role("region", name="leases").locator(".rows tr")
    expect(leases.first).to_contain_text("returns-to-lake")  # the oldest
    leases.first.get_by_role("button", name="Release").click()
    expect(page.locator(".notice")).to_contain_text(
        "3 messages leased by returns-to-lake will be returned to queue returns"
    )
    assert broker.vhost().message_count("returns") == 2
    page.clock.run_for(5_500)
    expect(page.get_by_text("3 messages returned to queue returns.")).to_be_visible()
    expect(leases).to_have_count(1)
    assert broker.vhost().message_count("returns") == 5


def work(broker: leveret.Broker, step: int, **more: object) -> None:
    """One batch of a query that drops duplicates."""
    lag, rows = 9_000 - step * 150, 400 + step % 9 * 30
    reads = [{"description": PYTHON, "offset": {"orders-0": 960 + step, "orders-1": 900 + step}, "lag": lag}]
    durations = {"triggerExecution": 1_200, "addBatch": 900, "queryPlanning": 120, "walCommit": 80, "commitOffsets": 60}
    operators = [{"name": "dedupe", "rows": 1_000 + step * 40, "memory_bytes": 5_000_000, "late_rows": 3}]
    whole: dict[str, object] = {
        "batch": step,
        "rows": rows,
        "batch_ms": 1_000 + step % 5 * 90,
        "lag": lag,
        "rows_per_second": rows / 1.2,
        "input_rows_per_second": 320.0 + step % 4 * 15,
        "sources": reads,
        "steps": ["dedup: by message-id, within 10 minutes"],
        "sink": "exchange deduped",
        "duration_ms": durations,
        "state_operators": operators,
        "counts": {"read": rows * (step + 1), "out": rows * step, "duplicates": rows - 3, "late": 3},
        "spark_ui": "http://driver.example:4040",
        "at": "2031-05-01T12:00:00.000Z",
    }
    tell(broker, "q-1", **{"name": "dedup", **whole, **more})


@pytest.mark.feature("S4-78")
def test_a_query_has_a_page_with_its_graph_charts_and_error(
    broker: leveret.Broker, log_in: LogIn, picture: Picture, page: Page, complaints: Complaints
) -> None:
    for step in range(40):
        work(broker, step)
        broker.clock.advance(2)
    stand_still(page)
    log_in(address="/#/pipelines")
    page.get_by_role("link", name="dedup", exact=True).click()
    flow = page.get_by_role("list", name="Graph of the query")
    expect(flow.locator("li")).to_have_text(
        [
            "orders-0stream, next offset 999orders-1stream, next offset 939",
            "dedupby message-id, within 10 minutes",
            "exchange dedupedsink",
        ]
    )
    expect(flow.get_by_role("link", name="orders-1")).to_have_attribute("href", "#/streams/%2F/orders-1")
    spark = page.get_by_role("link", name="Open Spark UI")
    expect(spark).to_have_attribute("href", "http://driver.example:4040/")
    expect(spark).to_have_attribute("rel", "noopener noreferrer")
    for chart, lines in (("Rows per second", 2), ("Lag", 1), ("Batch time", 1), ("State", 1)):
        expect(page.get_by_role("img", name=chart, exact=True).locator("path.line")).to_have_count(lines)
    expect(page.locator(".card", has_text="Last batch").locator("dd").first).to_have_text("1.2 s")
    expect(page.locator(".card", has_text="Rows since the start")).to_contain_text("late3")
    expect(page.get_by_text("3 late rows dropped")).to_be_visible()
    picture("pipeline")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)
    page.set_viewport_size({"width": 1600, "height": 900})

    work(broker, 40, state="failed", error=ERROR, lag=7)
    settle(page)
    page.clock.run_for(5_000)
    expect(page.get_by_role("alert")).to_have_text(f"Query failed{ERROR}")
    expect(page.locator(".tile").filter(has_text="Lag")).to_have_text("Lag7")
    picture("pipeline-failed")
    complaints.expect("404")
    page.goto("/#/pipelines/%2F/none")
    expect(page.get_by_role("alert")).to_contain_text("no Spark query 'none' in virtual host '/'")
    expect(page.get_by_role("link", name="All pipelines")).to_be_visible()


def test_the_first_query_is_shown_how_to_begin(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    page = log_in(address="/#/pipelines")
    expect(page.get_by_role("heading", name="No Spark queries yet")).to_be_visible()
    expect(page.locator("pre")).to_contain_text(f'"endpoint": "{broker.http_url}"')
    expect(page.locator("pre")).to_contain_text('spark.readStream.format("leveret")')
    picture("pipelines-empty")


def test_a_canary_in_every_field_of_pipelines_shows_as_text(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints
) -> None:
    lease(broker, CANARY, CANARY)
    offset = {"consumer": CANARY, "lease": 1, "queue": CANARY, "vhost": CANARY}
    sources = [{"description": CANARY, "offset": offset}, {"description": CANARY, "offset": {CANARY: 1}}]
    texts = dict.fromkeys(("name", "run_id", "sink", "state", "at", "error"), CANARY)
    numbers = {CANARY: 1}
    lists = {"steps": [CANARY], "duration_ms": numbers, "counts": numbers, "state_operators": [{"name": CANARY}]}
    tell(broker, CANARY, sources=[*sources, {"description": CANARY}], **texts, **lists)
    tell(broker, "homeless", name="homeless", vhost=CANARY)
    page = log_in(address="/#/pipelines")
    page.get_by_role("button", name="Release").click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("<img")
    expect(page.get_by_role("option", name=f"{CANARY} Spark query, {CANARY}")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="homeless")).to_have_attribute("href", "#/pipelines")
    page.get_by_role("link", name=CANARY, exact=True).first.click()
    expect(page.get_by_role("list", name="Graph of the query")).to_contain_text(CANARY)
    expect(page.get_by_role("alert")).to_contain_text(CANARY)
    page.get_by_text("Offsets, leases and IDs").click()
    expect(page.locator("details")).to_contain_text(f"lease 1 of {CANARY}")
    assert page.evaluate(FOUND) == 0
    assert complaints == []


@pytest.mark.parametrize("address", ["javascript:alert('canary')", "JAVASCRIPT:alert(1)", "data:text/html,x", "//x", 7])
def test_an_address_that_is_no_web_address_does_not_become_a_link(page: Page, log_in: LogIn, address: object) -> None:
    """The broker refuses such an address; the page does not rely on it."""
    log_in()
    link = "import('/web/external_link.js').then((module) => module.externalLink(address, 'x'))"
    assert page.evaluate(f"(address) => {link}", address) is None
    assert page.evaluate(f"(address) => {link}.then((link) => link.href)", "https://x/y") == "https://x/y"

"""The page of Spark queries and leases."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.management_api import as_guest
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

PYTHON = "PythonMicroBatchStream"
CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
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
    tell(broker, "q-3", name=None, lag=None, state="failed")


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

    page.get_by_role("button", name="clicks to lake").click()
    dialogue = page.get_by_role("dialog", name="clicks to lake")
    expect(dialogue).to_contain_text("next offset 989")
    page.keyboard.press("Escape")

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


def test_details_are_of_the_latest_report(broker: leveret.Broker, log_in: LogIn, page: Page) -> None:
    tell(broker, "q-1", name="clicks to lake", lag=4000)
    stand_still(page)
    log_in(address="/#/pipelines")
    row = page.locator(".rows tr").first
    expect(row).to_contain_text("4,000")
    tell(broker, "q-1", name="clicks to lake", lag=7, state="idle")
    page.clock.run_for(5_000)
    expect(row).to_contain_text("idle")
    page.get_by_role("button", name="clicks to lake").click()
    expect(page.get_by_role("dialog")).to_contain_text(re.compile("idle.*Lag7Last", re.DOTALL))


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
    texts = dict.fromkeys(("name", "run_id", "vhost", "sink", "state", "at"), CANARY)
    tell(broker, CANARY, sources=sources, **texts)
    page = log_in(address="/#/pipelines")
    page.get_by_role("button", name=CANARY).click()
    expect(page.get_by_role("dialog", name=CANARY)).to_contain_text(f"lease 1 of {CANARY}")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Release").click()
    expect(page.locator(".notice")).to_contain_text(CANARY)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("<img")
    expect(page.get_by_role("option", name=f"{CANARY} Spark query, {CANARY}")).to_be_visible()
    assert page.evaluate(FOUND) == 0
    assert complaints == []

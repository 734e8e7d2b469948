"""The management UI of several cells: the node of each object, all nodes, and a node that does not respond."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.test_cells import cell_processes
from tests.support.broker_process import BrokerProcess
from tests.support.cell_clients import clients_by_cell
from tests.support.web_page import Complaints, does_not_fit
from tests.web.conftest import PATIENCE

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, "--cells", "2", "--http-port", "0", "--node-name", "shop@a") as process:
        yield process


@pytest.fixture
def page(chromium: Browser, cells: BrokerProcess, complaints: Complaints) -> Iterator[Page]:
    context = chromium.new_context(base_url=cells.url("http"), viewport={"width": 1600, "height": 900}, locale="en-US")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints.watch(page)
    page.goto("/")
    page.get_by_label("User name").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Pages").wait_for()
    yield page
    context.close()
    assert complaints == []


def take(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def log_of_the_chosen_node(page: Page) -> None:
    page.goto("/#/log")
    lines = page.get_by_role("list", name="Log lines").get_by_role("listitem")
    expect(lines.first).to_be_visible()
    node = page.get_by_label("Node", exact=True)
    expect(node).to_have_value("shop@a")
    with page.expect_response("**/api/nodes/shop%40a-c2/log*") as answer:
        node.select_option("shop@a-c2")
    assert answer.value.json()["lines"]
    expect(node).to_have_value("shop@a-c2")
    expect(lines.first).to_be_visible()


def test_lists_show_the_node_of_each_object_and_a_node_that_does_not_respond(
    cells: BrokerProcess, page: Page, complaints: Complaints
) -> None:
    with clients_by_cell(cells.url(), "c1", "c2") as clients:
        for cell, client in clients.items():
            client.channel.queue_declare(f"in {cell}", durable=True)
        clients["c1"].channel.basic_publish("", "in c2", b"x")
        clients["c1"].channel.basic_consume("in c2", lambda *_: None)
        for address in ("/#/queues", "/#/connections"):
            page.goto(address)
            rows = page.locator(".rows tr")
            expect(rows.filter(has_text="shop@a-c2").first).to_be_visible()
            expect(page.get_by_role("columnheader", name="Node")).to_be_visible()
            take(page, f"cells-{address[3:]}")
        page.goto("/#/queues/%2F/in%20c2")
        expect(page.get_by_text("on shop@a-c2")).to_be_visible()
        expect(page.get_by_text("1 further message is held through other cells.")).to_be_visible()
        page.goto("/#/connections")
        page.locator(".rows tr").filter(has_text="shop@a-c2").first.get_by_role("link").click()
        expect(page.locator("dl")).to_contain_text(["shop@a-c2"])
        page.get_by_role("region", name="channels").get_by_role("link").first.click()
        expect(page.get_by_text("on shop@a-c2")).to_be_visible()
        log_of_the_chosen_node(page)
        page.goto("/#/nodes")
        expect(page.get_by_role("region", name="shop@a-c2")).to_contain_text("File descriptors")
        expect(page.locator(".card.node")).to_have_count(2)
        take(page, "cells-nodes")
        (stopped,) = cell_processes(cells)
        os.kill(stopped, signal.SIGSTOP)
        try:
            notice = page.get_by_role("alert").filter(has_text="Node not responding: shop@a-c2")
            expect(notice).to_be_visible()
            expect(page.get_by_role("region", name="shop@a-c2")).to_contain_text("not responding")
            page.goto("/#/queues")
            expect(page.locator(".rows tr").filter(has_text="in c2")).to_contain_text("down")
            expect(notice).to_be_visible()
            take(page, "cells-missing")
            page.set_viewport_size({"width": 360, "height": 740})
            assert not does_not_fit(page)
        finally:
            os.kill(stopped, signal.SIGCONT)
        expect(notice).to_be_hidden()


def test_a_single_broker_shows_no_nodes_in_lists(tmp_path: Path, chromium: Browser) -> None:
    with BrokerProcess(tmp_path, "--http-port", "0") as process:
        context = chromium.new_context(base_url=process.url("http"), viewport={"width": 1600, "height": 900})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto("/#/connections")
        page.get_by_label("User name").fill("guest")
        page.get_by_label("Password").fill("guest")
        page.get_by_role("button", name="Log in").click()
        with closing(pika.BlockingConnection(pika.URLParameters(process.url()))):
            expect(page.locator(".rows tr")).to_have_count(1)
            expect(page.locator("th.w-node")).to_be_hidden()
        context.close()

"""Moving a queue to another cell."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import leveret
from tests.support.fake_cells import FakeCells
from tests.support.web_page import LogIn


@pytest.fixture
def cells(broker: leveret.Broker) -> FakeCells:
    fake, broker_cells = FakeCells(), broker.node.broker.cells
    broker_cells.queue_moves = broker_cells.removals = fake  # type: ignore[assignment]
    broker.vhost().declare_queue("orders", durable=True)
    return fake


def test_a_queue_is_moved_to_a_cell(broker: leveret.Broker, cells: FakeCells, log_in: LogIn) -> None:
    page = log_in(address="/#/queues/%2F/orders")
    expect(page.locator(".badges")).to_contain_text("cell c1")
    page.get_by_role("button", name="Move queue …").click()
    box = page.get_by_role("dialog", name="Move queue orders")
    box.get_by_label("Cell").select_option("c3")
    box.get_by_role("button", name="Move queue").click()
    expect(page.locator("#notices")).to_contain_text("Queue orders is being moved to cell c3.")
    broker.call(cells.finish)
    expect(page.locator("#notices")).to_contain_text("Queue orders moved to cell c3 with 0 messages.")
    expect(page.locator(".badges")).to_contain_text("cell c3")


def test_a_failure_is_shown_with_its_reason(broker: leveret.Broker, cells: FakeCells, log_in: LogIn) -> None:
    page = log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Move queue …").click()
    page.get_by_role("dialog").get_by_role("button", name="Move queue").click()
    expect(page.locator("#notices")).to_contain_text("is being moved to cell")  # the request has arrived
    broker.call(lambda: cells.finish("cell c2 is away"))
    expect(page.locator("#notices")).to_contain_text("Queue orders stays in cell c1: cell c2 is away")


def test_a_broker_with_one_cell_has_no_button(broker: leveret.Broker, log_in: LogIn) -> None:
    broker.vhost().declare_queue("orders", durable=True)
    page = log_in(address="/#/queues/%2F/orders")
    expect(page.get_by_role("button", name="Pause queue")).to_be_enabled()
    expect(page.get_by_role("button", name="Move queue …")).to_be_hidden()

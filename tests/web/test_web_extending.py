"""The page of docs/internals/extending.md, in the management UI of a broker that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.broker_process import BrokerProcess
from tests.support.extended_source import extended_source
from tests.support.management_api import ManagementApi
from tests.support.web_page import Complaints, LogIn


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[BrokerProcess]:
    environ = {"PYTHONPATH": str(extended_source(tmp_path))}
    with BrokerProcess(tmp_path, "--http-port", "0", environ=environ) as serving:
        yield serving


@pytest.fixture
def page(chromium: Browser, serving: BrokerProcess, complaints: Complaints) -> Iterator[Page]:
    context = chromium.new_context(base_url=serving.url("http"), locale="en-US")
    page = context.new_page()
    complaints.watch(page)
    yield page
    context.close()
    assert complaints == []


def test_the_page_of_the_example_is_in_the_menu_and_shows_its_rows(serving: BrokerProcess, log_in: LogIn) -> None:
    ManagementApi(serving.url("http")).put("queues/%2F/abandoned", {"durable": True})
    page = log_in()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Idle queues").click()
    expect(page.get_by_role("heading", name="Idle queues")).to_be_visible()
    expect(page.get_by_role("cell", name="abandoned")).to_be_visible()
    expect(page.get_by_text("1 idle queue")).to_be_visible()

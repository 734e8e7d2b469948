"""A broker and its management UI in Chromium. Messages in the console of the browser fail the test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import leveret
from tests.support.application import broker, module_broker, pytest_generate_tests
from tests.support.programs import require_program
from tests.support.web_page import SCREENSHOTS, Complaints, LogIn, Picture

__all__ = ["broker", "module_broker", "pytest_generate_tests"]
HERE = Path(__file__).parent
PATIENCE = 60_000.0  # milliseconds that something may take to show


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test has a broker of its own, unless its module chooses another one."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("broker") is None:
            item.add_marker(pytest.mark.broker(fresh=True))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Of a module, not of the session: while it runs, no other code in this thread can run an event loop."""
    program = require_program("chromium")
    expect.set_options(timeout=PATIENCE)
    root = os.name == "posix" and os.geteuid() == 0  # Chromium has no sandbox for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def page(chromium: Browser, broker: leveret.Broker, complaints: Complaints) -> Iterator[Page]:
    """The management UI before the login."""
    context = chromium.new_context(base_url=broker.http_url, viewport={"width": 1600, "height": 900}, locale="en-US")
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints.watch(page)
    yield page
    context.close()
    assert complaints == []


@pytest.fixture
def log_in(page: Page) -> LogIn:
    def log_in(name: str = "guest", password: str = "guest", address: str = "/") -> Page:
        page.goto(address)
        page.get_by_label("User name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("navigation", name="Pages").wait_for()
        return page

    return log_in


@pytest.fixture
def picture(page: Page) -> Picture:
    """Saves screenshots at 360 and 1600 pixels, light and dark."""

    def take(name: str) -> Path:
        page.evaluate("scrollTo(0, 0)")  # the menu is where it is at first
        for width, height in ((360, 740), (1600, 900)):
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{scheme}.png", full_page=True)
        page.set_viewport_size({"width": 1600, "height": 900})
        page.emulate_media(color_scheme="light")
        return SCREENSHOTS

    return take

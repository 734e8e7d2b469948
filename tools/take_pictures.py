"""Take the screenshots of the guide (docs/pictures) from a running broker, with Chromium.

python -m tools.take_pictures            all of them
python -m tools.take_pictures NAME ...   these

The traffic comes from picture_shop.py. Light theme, 1280 pixels wide; each picture is cropped to its content.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tools.picture_shop import Shop, dead_letter_an_order, report_a_query, running_shop

TARGET = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH = 1280
PATIENCE = 15_000.0  # milliseconds that something may take to show

RABBITMQ_EXPORT = {
    "rabbitmq_version": "3.12.1",
    "vhosts": [{"name": "/"}, {"name": "warehouse"}],
    "users": [{
        "name": "till", "tags": ["management"], "hashing_algorithm": "rabbit_password_hashing_sha256",
        "password_hash": "JRQvF1VT3C4hgJPZfR/3smiIeUwAHgRLDPFt4BbA6FGyMUyi",
    }],
    "permissions": [{"user": "till", "vhost": "warehouse", "configure": "", "write": ".*", "read": ".*"}],
    "policies": [{
        "vhost": "warehouse", "name": "mirrored", "pattern": "^stock", "apply-to": "queues", "priority": 0,
        "definition": {"ha-mode": "all", "max-length": 100000},
    }],
    "exchanges": [{
        "name": "stock", "vhost": "warehouse", "type": "topic", "durable": True, "auto_delete": False,
        "internal": False, "arguments": {},
    }],
    "queues": [
        {"name": name, "vhost": "warehouse", "durable": True, "auto_delete": False, "arguments": {"x-queue-type": kind}}
        for name, kind in (("stock.in", "quorum"), ("stock.out", "classic"))
    ],
    "bindings": [{
        "source": "stock", "vhost": "warehouse", "destination": "stock.in", "destination_type": "queue",
        "routing_key": "in.#", "arguments": {},
    }],
    "parameters": [{
        "component": "shovel", "name": "to-the-old-site", "vhost": "warehouse",
        "value": {"src-uri": "amqp://", "src-queue": "stock.out", "dest-uri": "amqp://old", "dest-queue": "stock"},
    }],
}  # fmt: skip


def overview(page: Page, shop: Shop) -> None:
    page.goto("/#/")
    page.locator(".chart path.line").first.wait_for()


def queues(page: Page, shop: Shop) -> None:
    page.goto("/#/queues")
    page.locator(".rows tr svg").first.wait_for()


def message(page: Page, shop: Shop) -> None:
    page.goto("/#/queues/%2F/invoices")
    page.locator(".message summary").first.click()
    page.locator(".payload").first.wait_for()
    page.locator("section", has=page.locator(".browser")).evaluate("section => section.scrollIntoView()")


def dead_letters(page: Page, shop: Shop) -> None:
    page.goto("/#/dead-letters")
    page.get_by_role("button", name="Retry rejected in orders").wait_for()


def exchange(page: Page, shop: Shop) -> None:
    page.goto("/#/exchanges/%2F/shop")
    page.get_by_label("Routing key").fill("order.paid")
    page.get_by_role("button", name="Test routing key").click()
    page.locator("svg.topology-picture.routed").wait_for()


def definitions(page: Page, shop: Shop) -> None:
    page.goto("/#/admin/definitions")
    page.get_by_label("Or paste JSON").fill(json.dumps(RABBITMQ_EXPORT, indent=1))
    page.get_by_role("button", name="Preview import").click()
    page.get_by_role("heading", name="Preview", exact=True).wait_for()
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")


def message_trace(page: Page, shop: Shop) -> None:
    page.goto("/#/traces/%2F")
    page.get_by_role("button", name="Enable tracing").click()
    page.get_by_text("Tracing is enabled:").wait_for()
    page.goto(f"/#/traces/%2F/{dead_letter_an_order(shop.broker)}")
    page.reload()  # without the notice
    page.locator(".timeline > li").first.wait_for()


def pipeline(page: Page, shop: Shop) -> None:
    report_a_query(shop.broker)
    page.goto("/#/pipelines")
    page.get_by_role("link", name="dedup", exact=True).click()
    page.locator(".chart path.line").first.wait_for()


PICTURES: dict[str, tuple[Callable[[Page, Shop], None], int]] = {
    "overview": (overview, 672),
    "queues": (queues, 440),
    "message": (message, 620),
    "dead-letters": (dead_letters, 430),
    "exchange": (exchange, 820),
    "import": (definitions, 760),
    "message-trace": (message_trace, 760),
    "pipeline": (pipeline, 960),
}


def log_in(page: Page) -> None:
    page.goto("/")
    page.get_by_label("User name").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Pages").wait_for()


def take(names: list[str]) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no Chromium on the path: install it (`make foreign` does so on Debian)")
    root = os.name == "posix" and os.geteuid() == 0  # Chromium has no sandbox for root
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running_shop(Path(folder) / "data") as shop, sync_playwright() as p:
        browser = p.chromium.launch(executable_path=program, args=["--no-sandbox"] if root else [])
        context = browser.new_context(base_url=shop.broker.http_url, color_scheme="light", locale="en-GB")
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        log_in(page)
        for name in names:
            prepare, height = PICTURES[name]
            page.set_viewport_size({"width": WIDTH, "height": height})
            page.mouse.move(0, 0)
            shop.step()  # so that the rates are those of work
            prepare(page, shop)
            target = TARGET / f"{name}.png"
            page.screenshot(path=target)
            print(f"{target.relative_to(Path.cwd())}  {target.stat().st_size // 1000} kB")
        browser.close()


def main() -> None:
    names = sys.argv[1:] or list(PICTURES)
    unknown = [name for name in names if name not in PICTURES]
    if unknown:
        sys.exit(f"no picture is called {', '.join(unknown)}: there are {', '.join(PICTURES)}")
    take(names)


if __name__ == "__main__":
    main()

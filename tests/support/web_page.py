"""What the tests of the page share: what a browser complained about, and a broker with something to look at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import Page

import leveret
from leveret.wire.properties import Properties

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
MAIN = "document.querySelector('script[src$=\"/main.js\"]').src"
SETTLED = f"async () => (await import(new URL('poll.js', {MAIN}))).withoutPolling(() => {{}})"
LogIn = Callable[..., Page]
Picture = Callable[[str], Path]


class Complaints(list[str]):
    """The errors that the browser reported, except for those that a test expects."""

    def __init__(self) -> None:
        super().__init__()
        self._wanted: list[str] = []

    def expect(self, text: str) -> None:
        """Lines with this text are what the test is about, however many come and whenever."""
        self._wanted.append(text)

    def watch(self, page: Page) -> None:
        page.on("console", lambda line: self._hear(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("dialog", lambda dialog: (self.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def _hear(self, text: str) -> None:
        if not any(wanted in text for wanted in self._wanted):
            self.append(text)


def furnish(broker: leveret.Broker) -> None:
    """Queues of a shop that fill and empty for five minutes of the broker's time."""
    shop = broker.vhost()
    shop.declare_exchange("shop", "topic", durable=True)
    for name in ("orders", "invoices", "mails", "audit.log", "returns"):
        shop.declare_queue(name, durable=True)
    shop.bind("orders", "shop", "order.*")
    shop.bind("invoices", "shop", "order.paid")
    for step in range(60):
        for number in range(3 + step % 7):
            body = b'{"order": %d, "customer": {"name": "Ann", "city": "Ghent"}, "paid": true}' % (step * 10 + number)
            shop.publish("shop", "order.paid", body, Properties(content_type="application/json"))
            shop.publish("", "mails", b"Dear Ann, thank you.")
        for _ in range(2 + step % 9):
            shop.get("orders", auto_ack=True)
            shop.get("mails", auto_ack=True)
        broker.clock.advance(5)
    shop.publish("", "returns", bytes(range(64)))


def stand_still(page: Page) -> None:
    """From now on the page's own timers go by ``page.clock.run_for`` only, however slow the machine is."""
    page.clock.install(time=datetime(2026, 1, 1, tzinfo=UTC))
    page.clock.pause_at(datetime(2026, 1, 2, tzinfo=UTC))


def settle(page: Page) -> None:
    """Wait until no poll is under way. The page sets its timer when an answer arrives: a clock that is moved before has
    no effect."""
    page.evaluate(SETTLED)


def does_not_fit(page: Page) -> bool:
    """Whether the page is wider than its window."""
    wide: bool = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    return wide

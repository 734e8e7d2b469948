"""Filling in forms of the management UI, and the objects that these tests declare before."""

from __future__ import annotations

import re
from collections.abc import Mapping

from playwright.sync_api import Locator, Page

import leveret


def fill(place: Page | Locator, **texts: str) -> None:
    """By the beginning of the label, which a hint may follow."""
    for label, text in texts.items():
        place.get_by_label(re.compile(f"^{label.replace('_', ' ')}")).fill(text)


def press(place: Page | Locator, name: str) -> None:
    place.get_by_role("button", name=name, exact=True).click()


def without_notices(page: Page) -> None:
    """For a picture that shows what stays."""
    page.locator("#notices").evaluate("notices => notices.replaceChildren()")


def operator_policy(broker: leveret.Broker, name: str, definition: Mapping[str, object]) -> None:
    policies = broker.node.broker.policies
    broker.call(lambda: policies.set("/", name, ".*", definition, apply_to="queues", priority=0, operator=True))

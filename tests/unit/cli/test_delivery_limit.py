"""The delivery limit that a command warns of, by the row of a queue."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.cli.delivery_limit import delivery_limit


@pytest.mark.parametrize(
    ("queue", "limit"),
    [
        ({"type": "classic"}, None),
        ({"type": "quorum"}, 20),
        ({"type": "quorum", "arguments": {"x-delivery-limit": -1}}, None),
        ({"type": "classic", "arguments": {"x-delivery-limit": 3}}, 3),
        ({"type": "classic", "effective_policy_definition": {"delivery-limit": 4}}, 4),
        ({"type": "quorum", "arguments": {"x-delivery-limit": 5, "x-max-redeliveries": 2}}, 2),
        ({"type": "classic", "arguments": {"x-retry-delay-min": 10}}, 20),
        ({"type": "classic", "arguments": {}, "effective_policy_definition": None}, None),
    ],
)
def test_the_delivery_limit_of_a_queue(queue: dict[str, Any], limit: int | None) -> None:
    assert delivery_limit(queue) == limit

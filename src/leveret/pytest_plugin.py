"""Pytest fixtures that give your tests a broker: ``def test_it(leveret_broker): ...``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leveret.embedded import Broker


@pytest.fixture
def leveret_broker() -> Iterator[Broker]:
    """A running broker on a free port, stopped when the test ends."""
    from leveret.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def leveret_broker_session() -> Iterator[Broker]:
    """The same, one for all tests. Queues and messages stay until the last test has ended."""
    from leveret.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def leveret_http() -> Iterator[Broker]:
    """A running broker with the HTTP API too: see its ``http_url``, ``username`` and ``password``."""
    from leveret.embedded import Broker

    with Broker(http_port=0) as broker:
        yield broker

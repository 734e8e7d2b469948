"""A pytest fixture that gives your tests a broker of their own: ``def test_it(leveret_broker): ...``."""

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

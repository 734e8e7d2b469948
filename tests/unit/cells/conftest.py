"""Two cells: clients of the first use a queue that lives in the second."""

from __future__ import annotations

import pytest

from tests.support.cell_pair import CellPair
from tests.support.peer_pair import Client


@pytest.fixture
def pair() -> CellPair:
    pair = CellPair()
    pair.declare("q")
    return pair


@pytest.fixture
def client(pair: CellPair) -> Client:
    return pair.here.client()

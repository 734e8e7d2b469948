"""Attacks against a running broker, on sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.network import Network


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()

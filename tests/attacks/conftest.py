"""Attacks against a running broker, on sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.application import broker, module_broker, pytest_generate_tests
from tests.support.network import Network

__all__ = ["broker", "module_broker", "pytest_generate_tests"]


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()

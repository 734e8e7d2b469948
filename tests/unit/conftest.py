"""A broker without sockets and threads, joined in memory with its clients."""

from __future__ import annotations

import pytest

from leveret.broker.vhost import Vhost
from tests.support.peer_pair import Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
def vhost(harness: Harness) -> Vhost:
    return harness.vhost

"""A clock that stands still, and sessions of the management UI on it. Test files define ``users``."""

from __future__ import annotations

import pytest

from leveret.auth.users import Users
from leveret.clock import FrozenClock
from leveret.http.sessions import Sessions


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def sessions(clock: FrozenClock, users: Users) -> Sessions:
    return Sessions(clock, users)

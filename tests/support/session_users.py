"""Helpers of the tests of sessions of the management UI."""

from __future__ import annotations

from leveret.auth.users import User, Users
from leveret.clock import FrozenClock


def known(users: Users, name: str) -> User:
    user = users.get(name)
    assert user is not None
    return user


def pass_by(clock: FrozenClock, seconds: float) -> None:
    clock.move_to(clock.now() + seconds)

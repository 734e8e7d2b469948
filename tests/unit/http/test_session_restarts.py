"""Sessions of the management UI over a restart, on a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.auth.passwords import hash_password
from leveret.auth.users import Users
from leveret.clock import FrozenClock
from leveret.http.sessions import IDLE, Sessions
from tests.support.session_users import known, pass_by

HASHES = {name: hash_password(name) for name in ("ann", "other")}


@pytest.fixture
def users() -> Users:
    users = Users()
    users.add("bob", password="secret", tags=("administrator",))
    users.add("app", password="secret")
    return users


class Saver:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.saves: list[int] = []

    def save_soon(self) -> None:
        self.saves.append(len(self._sessions))


@pytest.mark.parametrize(
    ("change", "survives"),
    [
        (lambda clock, users: None, True),
        (lambda clock, users: users.delete("bob"), True),
        (lambda clock, users: users.delete("ann"), False),
        (lambda clock, users: users.set_password("ann", password_hash=HASHES["other"]), False),
        (lambda clock, users: pass_by(clock, IDLE - 1), True),
        (lambda clock, users: pass_by(clock, IDLE), False),
    ],
)
def test_a_session_survives_a_restart_unless_its_user_changed_or_it_has_expired(
    clock: FrozenClock, change: Callable[[FrozenClock, Users], None], survives: bool
) -> None:
    users = Users()
    users.add("ann", password_hash=HASHES["ann"], tags=("management",))
    users.add("bob", password_hash=HASHES["ann"], tags=("management",))
    before = Sessions(clock, users)
    before.saver = saver = Saver(before)
    token, ended = before.open(known(users, "ann")), before.open(known(users, "bob"))
    before.close(ended)
    assert saver.saves == [1, 2, 1]
    encode = before.snapshot()
    assert encode is not None
    assert before.snapshot() is None  # unchanged
    data = encode()
    assert token.encode() not in data
    assert HASHES["ann"].encode() not in data
    change(clock, users)
    after = Sessions(clock, users)
    after.restore(data)
    assert (after.user_of(token) is not None) == survives
    assert after.user_of(ended) is None


def recreate(users: Users, name: str) -> None:
    users.delete(name)
    users.add(name, tags=("management",))


@pytest.mark.parametrize(
    ("before_snapshot", "before_restore", "survives"),
    [
        (lambda users: None, lambda users: None, True),
        (lambda users: None, lambda users: users.set_tags("sso", []), True),
        (lambda users: None, lambda users: users.set_password("sso", password="secret"), False),
        (lambda users: None, lambda users: users.set_password("sso", password_hash=HASHES["ann"]), False),
        (lambda users: users.set_password("sso"), lambda users: None, False),
        (lambda users: recreate(users, "sso"), lambda users: None, False),
        (lambda users: users.set_password("sso", password="x"), lambda users: users.set_password("sso"), False),
    ],
)
def test_a_session_of_a_user_without_a_password_survives_a_restart(
    clock: FrozenClock,
    before_snapshot: Callable[[Users], None],
    before_restore: Callable[[Users], None],
    survives: bool,
) -> None:
    """A change of the user ends it, also if the user has no password again."""
    users = Users()
    users.add("sso", tags=("management",))
    before = Sessions(clock, users)
    token = before.open(known(users, "sso"))
    first = before.snapshot()
    assert first is not None
    before_snapshot(users)
    data = (before.snapshot() or first)()
    before_restore(users)
    after = Sessions(clock, users)
    after.restore(data)
    assert (after.user_of(token) is not None) == survives


@pytest.mark.parametrize(
    "change",
    [lambda users: users.delete("sso"), lambda users: users.set_password("sso"), lambda users: users.add("sso")],
)
def test_sessions_are_saved_soon_after_their_user_was_deleted_or_its_password_changed(
    sessions: Sessions, users: Users, change: Callable[[Users], None]
) -> None:
    users.add("sso", tags=("management",))
    sessions.open(known(users, "sso"))
    sessions.open(known(users, "bob"))
    sessions.saver = saver = Saver(sessions)
    users.delete("app")  # has no sessions
    users.set_tags("sso", ["administrator"])
    assert saver.saves == []
    change(users)
    assert saver.saves == [1]


def test_a_session_whose_user_is_missing_at_a_restart_does_not_come_back_with_it(
    clock: FrozenClock, users: Users
) -> None:
    users.add("sso", tags=("management",))
    before = Sessions(clock, users)
    token = before.open(known(users, "sso"))
    encode = before.snapshot()
    assert encode is not None
    users.delete("sso")
    between = Sessions(clock, users)
    between.saver = saver = Saver(between)
    between.restore(encode())
    assert saver.saves == [0]
    encode = between.snapshot()
    assert encode is not None
    users.add("sso", tags=("management",))
    after = Sessions(clock, users)
    after.restore(encode())
    assert after.user_of(token) is None


def test_a_password_that_is_not_hashed_yet_is_not_taken_for_none(clock: FrozenClock) -> None:
    users = Users()
    users.add("sso", password="secret", tags=("management",))
    before = Sessions(clock, users)
    token = before.open(known(users, "sso"))
    encode = before.snapshot()
    assert encode is not None
    users.set_password("sso")
    after = Sessions(clock, users)
    after.restore(encode())
    assert after.user_of(token) is None


def test_saved_sessions_of_another_version_or_damaged_ones_are_refused(sessions: Sessions, users: Users) -> None:
    sessions.open(known(users, "bob"))
    encode = sessions.snapshot()
    assert encode is not None
    good = encode()
    newer = good.replace(b"version\x01", b"version\x02")
    for bad in (b"", b"text", good[:-1], newer):
        with pytest.raises(ValueError, match=r"."):
            Sessions(FrozenClock(), users).restore(bad)

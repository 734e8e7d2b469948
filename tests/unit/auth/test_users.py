from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from leveret.auth import users as users_module
from leveret.auth.passwords import hash_password
from leveret.auth.users import Secret, User, Users
from leveret.errors import ConfigError, NotFound, PreconditionFailed

KNOWN = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$terces"


class Work:
    """Counts the costly calls, and stands in for argon2 so that these tests are quick."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def hash(self, password: str) -> str:
        self.calls.append("hash")
        return f"$argon2id${len(self.calls)}${password[::-1]}"

    def verify(self, password_hash: str, password: str) -> bool:
        self.calls.append("verify")
        return password_hash.endswith("$" + password[::-1])

    def nobody(self, password: str) -> None:
        self.calls.append("verify")


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    work = Work()
    monkeypatch.setattr(users_module, "hash_password", work.hash)
    monkeypatch.setattr(users_module, "verify_password", work.verify)
    monkeypatch.setattr(users_module, "verify_unknown_user", work.nobody)
    return work


def test_adding_a_user_with_a_plain_password_hashes_nothing_until_the_first_login(work: Work) -> None:
    users = Users()
    users.add("guest", password="guest")
    assert work.calls == []
    user = users.authenticate("guest", "guest", now=0.0)
    assert work.calls == ["hash"]
    assert user is not None
    assert user.password_hash is not None
    assert user.pending_password is None
    assert users.get("guest") is user


def test_a_second_login_is_verified_against_the_hash(work: Work) -> None:
    users = Users()
    users.add("guest", password="guest")
    users.authenticate("guest", "guest", now=0.0)
    assert users.authenticate("guest", "guest", now=0.0) is not None
    assert users.authenticate("guest", "Guest", now=0.0) is None
    assert work.calls == ["hash", "verify", "verify"]


@pytest.mark.parametrize(
    ("name", "password"), [("nobody", "x"), ("ann", "x"), ("ann", ""), ("cert", "x"), ("new", "x")]
)
def test_every_refusal_costs_one_verify(work: Work, name: str, password: str) -> None:
    users = Users()
    users.add("ann", password_hash=KNOWN)
    users.add("cert")
    users.add("new", password="other")
    assert users.authenticate(name, password, now=0.0) is None
    assert work.calls == ["verify"]


def test_an_empty_password_never_logs_in_even_when_it_is_the_right_one(work: Work) -> None:
    users = Users()
    users.add("ann", password="")
    assert users.authenticate("ann", "", now=0.0) is None


def test_a_verified_login_needs_no_second_verify_for_a_minute(work: Work) -> None:
    users = Users()
    users.add("ann", password="secret")
    assert users.cached("ann", "secret", now=0.0) is None
    users.authenticate("ann", "secret", now=0.0)
    assert users.cached("ann", "secret", now=30.0) is users.get("ann")
    assert users.cached("ann", "wrong", now=30.0) is None
    assert users.cached("ann", "secret", now=61.0) is None
    assert users.cached("nobody", "secret", now=30.0) is None


def test_a_changed_password_ends_remembered_logins_at_once(work: Work) -> None:
    users = Users()
    users.add("ann", password="secret")
    users.authenticate("ann", "secret", now=0.0)
    users.set_password("ann", password="other")
    assert users.cached("ann", "secret", now=1.0) is None
    assert users.authenticate("ann", "secret", now=1.0) is None
    assert users.authenticate("ann", "other", now=1.0) is not None


def test_a_deleted_and_recreated_user_does_not_inherit_logins(work: Work) -> None:
    users = Users()
    users.add("ann", password="secret")
    users.authenticate("ann", "secret", now=0.0)
    users.delete("ann")
    assert users.cached("ann", "secret", now=1.0) is None
    users.add("ann", password="other")
    assert users.cached("ann", "secret", now=1.0) is None


def test_a_password_changed_while_it_is_verified_refuses_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users()
    users.add("ann", password_hash=KNOWN)

    def slow_verify(password_hash: str, password: str) -> bool:
        users.set_password("ann", password="new")
        return True

    monkeypatch.setattr(users_module, "verify_password", slow_verify)
    assert users.authenticate("ann", "old", now=0.0) is None
    user = users.get("ann")
    assert user is not None
    assert user.pending_password == "new"


def test_a_user_deleted_while_being_verified_does_not_get_in(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Users()
    users.add("ann", password_hash=KNOWN)

    def slow_verify(password_hash: str, password: str) -> bool:
        users.delete("ann")
        return True

    monkeypatch.setattr(users_module, "verify_password", slow_verify)
    assert users.authenticate("ann", "old", now=0.0) is None


def test_tags_and_limits_change_without_touching_the_password(work: Work) -> None:
    users = Users()
    users.add("ann", password="secret", tags=["monitoring"])
    users.authenticate("ann", "secret", now=0.0)
    users.set_tags("ann", ["administrator"])
    users.set_limits("ann", max_connections=2, max_channels=None)
    user = users.cached("ann", "secret", now=1.0)
    assert user == User("ann", ("administrator",), max_connections=2)


def test_users_are_listed_by_name() -> None:
    users = Users()
    for name in ("bob", "ann"):
        users.add(name)
    assert [user.name for user in users.list()] == ["ann", "bob"]
    assert len(users) == 2
    assert "ann" in users
    assert "eve" not in users


def test_what_is_not_there_cannot_be_changed() -> None:
    users = Users()
    for attempt in (users.delete, users.set_password, lambda name: users.set_tags(name, [])):
        with pytest.raises(NotFound, match="'ann'"):
            attempt("ann")


def test_a_nameless_user_and_unusable_secrets_are_refused() -> None:
    users = Users()
    with pytest.raises(PreconditionFailed):
        users.add("")
    with pytest.raises(ConfigError):
        users.add("ann", password_hash="plain")
    with pytest.raises(PreconditionFailed):
        users.add("ann", password="\udcff")
    assert len(users) == 0


def test_no_password_or_hash_shows_in_any_repr() -> None:
    user = User("ann", secret=Secret("$argon2id$hash", "plain"))
    for shown in (repr(user), str(user), repr(user.secret), f"{user.secret}"):
        assert "plain" not in shown
        assert "hash" not in shown


def test_many_first_logins_at_once_in_worker_threads_all_succeed() -> None:
    """The real argon2: the one slow test of this file."""
    users = Users()
    users.add("guest", password="guest")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda password: users.authenticate("guest", password, 0.0), ["guest", "x"] * 4))
    assert [user is not None for user in found] == [True, False] * 4
    assert users.cached("guest", "guest", now=1.0) is not None


def test_a_stored_hash_logs_in() -> None:
    users = Users()
    users.add("ann", password_hash=hash_password("secret"))
    assert users.authenticate("ann", "secret", now=0.0) is not None


@pytest.mark.parametrize(("later", "is_accepted"), [("secret", True), ("other", False)])
def test_a_secret_that_is_replaced_during_a_login_is_verified_again(work: Work, later: str, is_accepted: bool) -> None:
    """As when another cell has hashed the same password."""
    users = Users()

    class Replaced(Secret):
        def verify(self, password: str) -> str | None:
            users.restore(User("anna", secret=Secret(f"$argon2id$1${later[::-1]}")))
            return super().verify(password)

    users.restore(User("anna", secret=Replaced(KNOWN)))
    assert (users.authenticate("anna", "secret", 0) is not None) == is_accepted

"""Logins on their way to the identity provider, on a clock that stands still."""

from __future__ import annotations

import pytest

from leveret.clock import FrozenClock
from leveret.http import pending_logins as module
from leveret.http.pending_logins import SECONDS, PendingLogins, challenge_of

URI = "https://broker.example/"


@pytest.fixture
def pending(clock: FrozenClock) -> PendingLogins:
    return PendingLogins(clock)


def test_a_login_is_taken_once_with_its_own_values(pending: PendingLogins) -> None:
    begun = pending.begin(URI)
    login = pending.take(begun.state, begun.cookie)
    assert login is not None
    assert (login.nonce, login.redirect_uri) == (begun.nonce, URI)
    assert challenge_of(login.verifier) == begun.challenge
    assert pending.take(begun.state, begun.cookie) is None


def test_all_values_are_random_and_long(pending: PendingLogins) -> None:
    begun = [pending.begin(URI) for _ in range(5)]
    values = [value for each in begun for value in (each.state, each.nonce, each.challenge)]
    values += [each.cookie.partition(":")[0] for each in begun]
    assert len(set(values)) == 20
    assert {len(value) for value in values} == {43}


def test_the_challenge_is_that_of_rfc_7636() -> None:
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.parametrize("cookie", ["", "other", "\udcff", "a:1.0:b"])
def test_another_browser_cannot_complete_a_login_and_does_not_end_it(pending: PendingLogins, cookie: str) -> None:
    begun = pending.begin(URI)
    assert pending.take(begun.state, cookie) is None
    assert pending.take(begun.state, pending.begin(URI).cookie) is None
    assert pending.take(begun.state, begun.cookie) is not None


@pytest.mark.parametrize("state", ["", "other", "\udcff"])
def test_a_cookie_is_of_use_with_its_own_state_only(pending: PendingLogins, state: str) -> None:
    assert pending.take(state, pending.begin(URI).cookie) is None


def test_a_changed_cookie_is_refused(pending: PendingLogins, clock: FrozenClock) -> None:
    begun = pending.begin(URI)
    random, _, uri = begun.cookie.split(":")
    clock.move_to(clock.now() + 1)
    assert pending.take(begun.state, f"{random}:{clock.now()!r}:{uri}") is None
    assert pending.take(begun.state, begun.cookie.replace("broker", "evil")) is None


def test_another_broker_refuses_a_login(pending: PendingLogins, clock: FrozenClock) -> None:
    begun = pending.begin(URI)
    assert PendingLogins(clock).take(begun.state, begun.cookie) is None


def test_a_login_expires(pending: PendingLogins, clock: FrozenClock) -> None:
    early, late = pending.begin(URI), pending.begin(URI)
    clock.move_to(clock.now() + SECONDS - 1)
    assert pending.take(early.state, early.cookie) is not None
    clock.move_to(clock.now() + 1)
    assert pending.take(late.state, late.cookie) is None


def test_logins_that_are_not_completed_take_no_memory(pending: PendingLogins) -> None:
    for _ in range(5):
        pending.begin(URI)
    assert len(pending) == 0


def test_the_memory_of_completed_logins_is_bounded(
    pending: PendingLogins, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_COMPLETED", 3)

    def complete() -> None:
        begun = pending.begin(URI)
        assert pending.take(begun.state, begun.cookie) is not None

    for _ in range(5):
        complete()
    assert len(pending) == 3
    clock.move_to(clock.now() + SECONDS)
    complete()
    assert len(pending) == 1

"""Logins on their way to the identity provider, on a clock that stands still."""

from __future__ import annotations

import pytest

from leveret.clock import FrozenClock
from leveret.http import pending_logins as module
from leveret.http.pending_logins import SECONDS, PendingLogins, challenge_of

URI = "https://broker.example/"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def pending(clock: FrozenClock) -> PendingLogins:
    return PendingLogins(clock)


def test_a_login_is_taken_once_with_its_own_values(pending: PendingLogins) -> None:
    begun = pending.begin(URI, "10.0.0.1")
    login = pending.take(begun.state, begun.browser)
    assert login is not None
    assert (login.nonce, login.redirect_uri) == (begun.nonce, URI)
    assert challenge_of(login.verifier) == begun.challenge
    assert pending.take(begun.state, begun.browser) is None
    assert len(pending) == 0


def test_all_values_are_random_and_long(pending: PendingLogins) -> None:
    values = [value for _ in range(5) for value in pending.begin(URI, "10.0.0.1")]
    assert len(set(values)) == 20
    assert {len(value) for value in values} == {43}


def test_the_challenge_is_that_of_rfc_7636() -> None:
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.parametrize("browser", ["", "other", "\udcff"])
def test_another_browser_ends_a_login(pending: PendingLogins, browser: str) -> None:
    begun = pending.begin(URI, "10.0.0.1")
    assert pending.take(begun.state, browser) is None
    assert pending.take(begun.state, begun.browser) is None


def test_a_login_expires(pending: PendingLogins, clock: FrozenClock) -> None:
    early, late = pending.begin(URI, "10.0.0.1"), pending.begin(URI, "10.0.0.1")
    clock.move_to(clock.now() + SECONDS - 1)
    assert pending.take(early.state, early.browser) is not None
    clock.move_to(clock.now() + 1)
    assert pending.take(late.state, late.browser) is None


def test_expired_logins_take_no_memory(pending: PendingLogins, clock: FrozenClock) -> None:
    for _ in range(5):
        pending.begin(URI, "10.0.0.1")
    clock.move_to(clock.now() + SECONDS)
    pending.begin(URI, "10.0.0.1")
    assert len(pending) == 1


def test_the_source_with_the_most_logins_loses_its_oldest(
    pending: PendingLogins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 5)
    one = pending.begin(URI, "10.0.0.1")
    many = [pending.begin(URI, "10.0.0.2") for _ in range(10)]
    assert len(pending) == 5
    assert pending.take(one.state, one.browser) is not None
    assert [each for each in many if pending.take(each.state, each.browser)] == many[-4:]

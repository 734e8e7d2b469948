from __future__ import annotations

import pytest

from leveret.auth import passwords
from leveret.auth.passwords import VerifiedLogins, hash_password, verify_password
from leveret.errors import ConfigError


def test_a_hashed_password_is_recognised_and_any_other_is_not() -> None:
    made = hash_password("correct horse")
    assert made.startswith("$argon2id$")
    assert "correct" not in made
    assert verify_password(made, "correct horse")
    assert not verify_password(made, "correct horsf")


def test_the_same_password_is_never_hashed_to_the_same_text() -> None:
    assert hash_password("a") != hash_password("a")


@pytest.mark.parametrize("broken", ["", "x", "$argon2id$", "$argon2id$v=19$m=1,t=1,p=1$AA$", "\0"])
def test_a_broken_hash_matches_nothing(broken: str) -> None:
    assert not verify_password(broken, "x")


def test_a_password_that_is_no_unicode_text_matches_nothing() -> None:
    assert not verify_password(passwords.UNKNOWN_USER, "\ud800")


def test_the_hash_of_nobody_costs_what_a_real_one_costs() -> None:
    """Same parameters as new hashes, hence the same work."""
    assert not passwords.hasher().check_needs_rehash(passwords.UNKNOWN_USER)


def test_a_hash_of_another_scheme_is_refused_when_given() -> None:
    with pytest.raises(ConfigError, match="'ann'"):
        passwords.refuse_unusable_hash("5f4dcc3b", "ann")


def test_a_verified_login_is_remembered_for_a_short_while_only() -> None:
    logins = VerifiedLogins(seconds=60)
    assert not logins.seen("ann", "h", "p", now=0.0)
    logins.remember("ann", "h", "p", now=0.0)
    assert logins.seen("ann", "h", "p", now=59.9)
    assert not logins.seen("ann", "h", "p", now=60.0)
    assert len(logins) == 0


@pytest.mark.parametrize("other", [("bob", "h", "p"), ("ann", "g", "p"), ("ann", "h", "q"), ("annh", "", "p")])
def test_a_verified_login_vouches_for_nothing_else(other: tuple[str, str, str]) -> None:
    logins = VerifiedLogins()
    logins.remember("ann", "h", "p", now=0.0)
    assert not logins.seen(*other, now=1.0)


def test_verified_logins_are_bounded_and_the_oldest_goes_first() -> None:
    logins = VerifiedLogins(capacity=3)
    for number in range(10):
        logins.remember("ann", "h", str(number), now=0.0)
    assert len(logins) == 3
    assert [number for number in range(10) if logins.seen("ann", "h", str(number), now=1.0)] == [7, 8, 9]


def test_logging_in_again_and_again_does_not_grow_the_memory() -> None:
    logins = VerifiedLogins(capacity=3)
    for _ in range(10):
        logins.remember("ann", "h", "p", now=0.0)
    assert len(logins) == 1
    assert len(logins._order) <= 3


def test_a_forgotten_user_must_be_verified_again_and_others_need_not() -> None:
    logins = VerifiedLogins()
    logins.remember("ann", "h", "p", now=0.0)
    logins.remember("bob", "h", "p", now=0.0)
    logins.forget_user("ann")
    assert not logins.seen("ann", "h", "p", now=1.0)
    assert logins.seen("bob", "h", "p", now=1.0)


def test_no_password_is_kept_in_the_memory_of_logins() -> None:
    logins = VerifiedLogins()
    logins.remember("ann", "hash-text", "pass-word", now=0.0)
    kept = repr([getattr(logins, name) for name in VerifiedLogins.__slots__])
    assert "pass-word" not in kept
    assert "hash-text" not in kept

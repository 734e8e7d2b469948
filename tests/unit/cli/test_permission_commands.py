"""S4-72: may this user do that? By the same rules as the broker's own."""

from __future__ import annotations

import pytest

from leveret.auth.permissions import Permissions
from leveret.cli.permission_commands import judged, judged_topic, matches

PATTERNS = ["", ".*", "^orders", "q{e}", "a{2}", r"\{x", "(a+)+$", r"^orders\.(eu|us)$", "[", "é"]
NAMES = ["", "orders", "orders.eu", "my orders", "q{e}", "qe", "aa", "{x", "a" * 40 + "b", "é"]


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if pattern != "["])
def test_s4_72_a_pattern_means_here_what_it_means_to_the_broker(pattern: str) -> None:
    permissions = Permissions()
    permissions.set("anna", "/", "", "", pattern)
    for name in NAMES:
        expected = permissions.check("anna", "/", "read", name)
        assert judged([{"read": pattern}], "read", name, "/").may is expected, name


def test_without_a_rule_nothing_may_be_done() -> None:
    assert judged([], "read", "q", "/") == (False, "it has no permissions there")


def test_a_topic_rule_is_for_keys_and_without_one_any_key_will_do() -> None:
    rules = [{"exchange": "x", "write": "^a", "read": ""}]
    assert judged_topic([], "write", "b") is None
    assert judged_topic(rules, "configure", "b") is None
    allowed, refused = judged_topic(rules, "write", "a.b"), judged_topic(rules, "write", "b")
    assert allowed is not None
    assert allowed.may
    assert refused == (False, "topic write '^a' does not match key 'b'")


def test_a_pattern_that_takes_too_long_matches_nothing() -> None:
    assert not matches("(a|aa|aaa)+$", "a" * 60 + "b")

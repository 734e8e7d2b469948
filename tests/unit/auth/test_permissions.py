from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.auth.permissions import CACHE_ENTRIES, Permission, Permissions, TopicPermission, compile_pattern
from leveret.errors import ConfigError


@pytest.fixture
def rules() -> Permissions:
    rules = Permissions()
    rules.set("ann", "/", configure="^ann-", write="out|amq\\.default", read="")
    return rules


def test_a_user_without_a_rule_may_not_enter_nor_do_anything(rules: Permissions) -> None:
    assert rules.permits_entry("ann", "/")
    assert not rules.permits_entry("ann", "other")
    assert not rules.permits_entry("bob", "/")
    assert not rules.permits("bob", "/", "read", "q")


def test_patterns_match_anywhere_unless_anchored(rules: Permissions) -> None:
    assert rules.permits("ann", "/", "configure", "ann-q")
    assert not rules.permits("ann", "/", "configure", "my-ann-q")
    assert rules.permits("ann", "/", "write", "my-outbox")


def test_a_user_is_unrestricted_only_with_open_patterns_and_no_topic_permissions() -> None:
    rules = Permissions()
    assert not rules.permits_everything("ann", "/")
    rules.set("ann", "/", ".*", ".*", ".*")
    assert rules.permits_everything("ann", "/")
    assert not rules.permits_everything("ann", "other")
    assert not rules.permits_everything("bob", "/")
    rules.set_topic("ann", "/", "amq.topic", ".*", ".*")
    assert not rules.permits_everything("ann", "/")
    rules.clear_topic("ann", "/")
    assert rules.permits_everything("ann", "/")
    for patterns in (("", ".*", ".*"), (".*", "^$", ".*"), (".*", ".*", ".*x")):
        rules.set("ann", "/", *patterns)
        assert not rules.permits_everything("ann", "/")
    rules.clear("ann", "/")
    assert not rules.permits_everything("ann", "/")


def test_an_empty_pattern_allows_nothing_at_all(rules: Permissions) -> None:
    assert not rules.permits("ann", "/", "read", "q")
    assert not rules.permits("ann", "/", "read", "")


def test_the_default_exchange_is_checked_by_its_long_name(rules: Permissions) -> None:
    assert rules.permits("ann", "/", "write", "")
    rules.set("ann", "/", "", "^$", ".*")
    assert not rules.permits("ann", "/", "write", "")
    assert rules.permits("ann", "/", "read", "")


def test_every_change_moves_the_epoch_and_forgets_answers(rules: Permissions) -> None:
    before = rules.epoch
    assert not rules.permits("ann", "/", "read", "q")
    rules.set("ann", "/", ".*", ".*", ".*")
    assert rules.epoch == before + 1
    assert rules.permits("ann", "/", "read", "q")
    rules.clear("ann", "/")
    assert rules.epoch == before + 2
    assert not rules.permits("ann", "/", "read", "q")
    rules.clear("ann", "/")
    assert rules.epoch == before + 2


def test_clearing_a_user_or_a_vhost_takes_all_its_rules_and_no_others() -> None:
    rules = Permissions()
    for user in ("ann", "bob"):
        for vhost in ("/", "v"):
            rules.set(user, vhost, "", "", "")
            rules.set_topic(user, vhost, "amq.topic", "x", "y")
    rules.clear_user("ann")
    rules.clear_vhost("v")
    assert rules.list() == (Permission("bob", "/", "", "", ""),)
    assert rules.list_topic() == (TopicPermission("bob", "/", "amq.topic", "x", "y"),)
    epoch = rules.epoch
    rules.clear_user("nobody")
    assert rules.epoch == epoch
    assert rules.get("bob", "/") == rules.list()[0]


@pytest.mark.parametrize("pattern", ["[", "(", "*", "a{2}{3}(", "\\L<x>", "x" * 5000])
def test_a_bad_pattern_is_refused_when_it_is_set_and_changes_nothing(rules: Permissions, pattern: str) -> None:
    before = rules.epoch, rules.list()
    with pytest.raises(ConfigError, match="pattern"):
        rules.set("ann", "/", "", pattern, "")
    with pytest.raises(ConfigError, match="pattern"):
        rules.set_topic("ann", "/", "amq.topic", "", pattern)
    assert (rules.epoch, rules.list()) == before
    assert rules.list_topic() == ()


def test_a_pattern_that_would_run_for_ages_refuses_within_its_time(rules: Permissions) -> None:
    rules.set("ann", "/", "", "", "(a|a)*$|(a*)*b")
    began = time.thread_time()
    assert not rules.permits("ann", "/", "read", "a" * 200 + "c")
    assert time.thread_time() - began < 2


@pytest.mark.parametrize("pattern", ["q{e}", "(?:foo){e<=3}", "(?:queue){i,d,s}", "x{s<=9:[a-z]}"])
def test_braces_that_repeat_nothing_are_plain_and_never_loosen_a_pattern(rules: Permissions, pattern: str) -> None:
    rules.set("ann", "/", "", "", pattern)
    assert not rules.permits("ann", "/", "read", "entirely-different")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("^a{2}$", "aa"),
        ("^a{1,}$", "aaa"),
        ("^a{1,2}$", "aa"),
        (r"^\p{L}+$", "né"),
        (r"^\{x\}$", "{x}"),
        ("^[{]$", "{"),
    ],
)
def test_braces_that_mean_something_keep_their_meaning(pattern: str, name: str) -> None:
    assert compile_pattern(pattern).search(name)


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}$",
        r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.){2,}[a-z]{2,63}$",
        "^(?:[0-9a-f]{2}:){5}[0-9a-f]{2}$",
        "^.{255}$",
        r"\(?R[)]",
        "(?x) a+ # comment",
        "(?-i:a){3}",
    ],
)
def test_usual_patterns_are_not_too_large(pattern: str) -> None:
    assert compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        ".{65535}" * 20,
        "(?:(?:a{100}){100}){100}",
        "((a{2,}){300}){300,}",
        "[" + "ab" * 1_000 + "]{100}",
        "(a){9}" * 600,
        "(?ix)(a) # comment\n{100000}",
        "(?P<a>x(?&a)?)",
        "a(?R)?b",
        "(a(?1)?b)",
        "(?+1)(a)",
        "(?P<q>a)(?P>q)",
    ],
)
def test_patterns_that_take_much_memory_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is not a regular expression: it "):
        compile_pattern(pattern)


def test_an_answer_is_the_same_when_it_is_asked_again(rules: Permissions) -> None:
    rules.set_topic("ann", "/", "amq.topic", write="^a", read="")
    for _ in range(2):
        assert rules.permits("ann", "/", "configure", "ann-q")
        assert not rules.permits("ann", "/", "configure", "q")
        assert rules.permits_topic("ann", "/", "amq.topic", "write", "a")
        assert not rules.permits_topic("ann", "/", "amq.topic", "write", "b")


def test_a_variable_that_makes_a_pattern_too_long_refuses(rules: Permissions) -> None:
    rules.set_topic("ann", "/", "amq.topic", write="{client_id}", read="")
    assert not rules.permits_topic("ann", "/", "amq.topic", "write", "x" * 5000, "x" * 5000)


def test_compiled_patterns_are_bounded(rules: Permissions) -> None:
    rules.set_topic("ann", "/", "amq.topic", write="^{client_id}$", read="")
    for number in range(CACHE_ENTRIES // 4 + 10):
        assert rules.permits_topic("ann", "/", "amq.topic", "write", str(number), str(number))
    assert len(rules._compiled) <= CACHE_ENTRIES // 4


def test_remembered_answers_are_bounded(rules: Permissions) -> None:
    for number in range(CACHE_ENTRIES + 10):
        rules.permits("ann", "/", "configure", f"ann-{number}")
    assert len(rules._answers) <= CACHE_ENTRIES


def test_names_unknown_to_the_rules_leave_nothing_behind(rules: Permissions) -> None:
    for number in range(100):
        rules.permits(f"user{number}", "/", "read", "q")
        rules.permits_topic(f"user{number}", "/", "amq.topic", "read", "k")
    assert len(rules._answers) == 0


def test_without_a_topic_rule_every_routing_key_is_allowed(rules: Permissions) -> None:
    assert rules.permits_topic("ann", "/", "amq.topic", "write", "any.key", None)


def test_a_topic_rule_narrows_its_exchange_and_no_other(rules: Permissions) -> None:
    rules.set_topic("ann", "/", "amq.topic", write="^orders\\.", read="")
    assert rules.permits_topic("ann", "/", "amq.topic", "write", "orders.new")
    assert not rules.permits_topic("ann", "/", "amq.topic", "write", "stock.new")
    assert not rules.permits_topic("ann", "/", "amq.topic", "read", "orders.new")
    assert rules.permits_topic("ann", "/", "amq.topic", "read", "")
    assert rules.permits_topic("ann", "/", "other", "write", "stock.new")
    rules.clear_topic("ann", "/", "amq.topic")
    assert rules.permits_topic("ann", "/", "amq.topic", "write", "stock.new")


def test_clearing_topic_rules_without_naming_an_exchange_clears_them_all(rules: Permissions) -> None:
    rules.set_topic("ann", "/", "a", "", "")
    rules.set_topic("ann", "/", "b", "", "")
    rules.set_topic("bob", "/", "a", "", "")
    rules.clear_topic("ann", "/")
    assert [rule.user for rule in rules.list_topic()] == ["bob"]


def test_variables_in_topic_patterns_stand_for_the_peer(rules: Permissions) -> None:
    rules.set_topic("ann", "/", "amq.topic", write="^{username}\\.{vhost}\\.{client_id}$", read="^{client_id}$")
    assert rules.permits_topic("ann", "/", "amq.topic", "write", "ann./.c1", "c1")
    assert not rules.permits_topic("ann", "/", "amq.topic", "write", "bob./.c1", "c1")
    assert not rules.permits_topic("ann", "/", "amq.topic", "write", "ann./.c2", "c1")
    assert not rules.permits_topic("ann", "/", "amq.topic", "read", "c1", None)
    assert rules.permits_topic("ann", "/", "amq.topic", "read", "{client_id}", None)


def test_a_client_that_names_itself_a_pattern_gains_nothing(rules: Permissions) -> None:
    rules.set_topic("ann", "/", "amq.topic", write="^{client_id}$", read="")
    assert not rules.permits_topic("ann", "/", "amq.topic", "write", "anything", ".*")
    assert rules.permits_topic("ann", "/", "amq.topic", "write", ".*", ".*")
    assert not rules.permits_topic("ann", "/", "amq.topic", "write", "ann", "{username}")


@given(name=st.text(max_size=20), key=st.text(max_size=20))
def test_any_client_name_matches_itself_only(name: str, key: str) -> None:
    rules = Permissions()
    rules.set_topic("ann", "/", "t", write="^{client_id}\\Z", read="")
    assert rules.permits_topic("ann", "/", "t", "write", key, name) == (key == name)


@given(pattern=st.text(alphabet="ab{}[]()*+?|^$\\.,0123e<=", max_size=12), text=st.text(alphabet="ab{}", max_size=6))
def test_any_pattern_is_either_refused_or_answers(pattern: str, text: str) -> None:
    rules = Permissions()
    try:
        rules.set("ann", "/", pattern, "", "")
    except ConfigError:
        return
    assert rules.permits("ann", "/", "configure", text) in (True, False)

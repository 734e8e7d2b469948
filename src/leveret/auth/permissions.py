"""Permissions of users in virtual hosts: regular expressions, as in RabbitMQ.

Rules:
- A pattern matches anywhere in the name (unanchored). The empty pattern means ``^$``: nothing. The default exchange
  has an empty name and is checked as ``amq.default``.
- A user without a rule for a virtual host has no access to it. A user without a topic rule for an exchange may use any
  routing key there; with a topic rule, the key must match.
- Patterns are checked when they are set. Matching has a time limit; a pattern that exceeds it does not match.
- A brace that is not a repetition is a plain character, as in PCRE: the ``regex`` module would read ``q{e}`` as "q with
  any number of errors", which matches everything.
- Every result is cached until a rule changes. ``epoch`` counts these changes and a listener is called for each change,
  for callers that also cache results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from leveret.auth.pattern_bounds import refuse_large
from leveret.errors import ConfigError

Kind = Literal["configure", "write", "read"]
TopicKind = Literal["write", "read"]

SECONDS_PER_MATCH = 0.05
CACHE_ENTRIES = 4096
LONGEST_PATTERN = 4096

EVERYTHING = ".*"

_BRACES = re.compile(r"(\\[pPxNgku]\{[^{}]*\}|\\.|\{\d+(?:,\d*)?\}|\{,\d+\})|\{", re.DOTALL)


@dataclass(slots=True, frozen=True)
class Permission:
    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(slots=True, frozen=True)
class TopicPermission:
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


def compile_pattern(text: str) -> Any:
    """The compiled pattern; ConfigError with the position if it is invalid."""
    import regex  # takes 50 ms; most nodes have only the pattern EVERYTHING, which does not need it

    if len(text) > LONGEST_PATTERN:
        raise ConfigError(f"pattern {text[:40]!r}... is too long: at most {LONGEST_PATTERN} characters are accepted")
    literal_braces = _BRACES.sub(lambda found: found[1] or r"\{", text or "^$")
    try:
        refuse_large(literal_braces)
        return regex.compile(literal_braces, cache_pattern=False)
    except (regex.error, ValueError, RecursionError, OverflowError) as problem:
        raise ConfigError(f"pattern {text!r} is not a regular expression: {problem}") from None


AnyPermission = Permission | TopicPermission


class PermissionListener(Protocol):
    def rule_saved(self, rule: AnyPermission) -> None:
        """Called before the rule is saved."""

    def rule_dropped(self, rule: AnyPermission) -> None:
        """Called before the rule is removed."""

    def rules_changed(self) -> None:
        """Called after the change was made."""


class Permissions:
    """The rules of all users and virtual hosts, and the cached results. Used on the loop only."""

    __slots__ = ("_answers", "_compiled", "_listener", "_rules", "_topic_rules", "epoch")

    def __init__(self, listener: PermissionListener | None = None) -> None:
        self.epoch = 0
        self._listener = listener
        self._rules: dict[tuple[str, str], Permission] = {}
        self._topic_rules: dict[tuple[str, str, str], TopicPermission] = {}
        self._answers: dict[tuple[str | None, ...], bool] = {}
        self._compiled: dict[str, Any] = {}

    def set(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        for pattern in {configure, write, read} - {EVERYTHING}:
            compile_pattern(pattern)
        rule = Permission(user, vhost, configure, write, read)
        self._save(rule)
        self._rules[user, vhost] = rule
        self._changed()

    def clear(self, user: str, vhost: str) -> None:
        if (user, vhost) in self._rules:
            self._drop([(user, vhost)], [])

    def set_topic(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        for pattern in (write, read):
            compile_pattern(pattern)
        rule = TopicPermission(user, vhost, exchange, write, read)
        self._save(rule)
        self._topic_rules[user, vhost, exchange] = rule
        self._changed()

    def clear_topic(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Remove a topic rule; without an exchange, all topic rules of the user in the virtual host."""
        gone = [key for key in self._topic_rules if key[:2] == (user, vhost) and exchange in (None, key[2])]
        self._drop([], gone)

    def clear_user(self, user: str) -> None:
        self._drop([key for key in self._rules if key[0] == user], [key for key in self._topic_rules if key[0] == user])

    def clear_vhost(self, vhost: str) -> None:
        self._drop(
            [key for key in self._rules if key[1] == vhost], [key for key in self._topic_rules if key[1] == vhost]
        )

    def get(self, user: str, vhost: str) -> Permission | None:
        return self._rules.get((user, vhost))

    def get_topic(self, user: str, vhost: str, exchange: str) -> TopicPermission | None:
        return self._topic_rules.get((user, vhost, exchange))

    def list(self) -> tuple[Permission, ...]:
        return tuple(self._rules[key] for key in sorted(self._rules))

    def list_topic(self) -> tuple[TopicPermission, ...]:
        return tuple(self._topic_rules[key] for key in sorted(self._topic_rules))

    def permits_entry(self, user: str, vhost: str) -> bool:
        return (user, vhost) in self._rules

    def permits(self, user: str, vhost: str, kind: Kind, resource: str) -> bool:
        """May ``user`` configure, write or read this exchange or queue? Without a rule or in case of a timeout: no."""
        key = (user, vhost, kind, resource)
        answer = self._answers.get(key)
        if answer is not None:
            return answer
        rule = self._rules.get((user, vhost))
        if rule is None:
            return False
        pattern: str = getattr(rule, kind)
        return self._answer(key, pattern, resource or "amq.default")

    def permits_topic(
        self, user: str, vhost: str, exchange: str, kind: TopicKind, routing_key: str, client_id: str | None = None
    ) -> bool:
        """May ``user`` publish (write) or bind (read) with this key? For topic exchanges only, besides ``permits``.

        ``{username}``, ``{vhost}`` and, where the protocol has one, ``{client_id}`` in the pattern are replaced by the
        values of the client. Unlike in RabbitMQ they match literally: a client ID of ``.*`` matches nothing else.
        """
        rule = self._topic_rules.get((user, vhost, exchange))
        if rule is None:
            return True
        key = (user, vhost, exchange, kind, routing_key, client_id)
        answer = self._answers.get(key)
        if answer is not None:
            return answer
        return self._answer(key, _expanded(getattr(rule, kind), user, vhost, client_id), routing_key)

    def permits_every_topic(self, user: str, vhost: str, exchange: str, kind: TopicKind) -> bool:
        """May ``user`` use every routing key at this exchange?"""
        rule = self._topic_rules.get((user, vhost, exchange))
        return rule is None or getattr(rule, kind) == EVERYTHING

    def permits_everything(self, user: str, vhost: str) -> bool:
        """Whether all other checks of this user in this virtual host succeed."""
        key = (user, vhost)
        answer = self._answers.get(key)
        if answer is None:
            rule = self._rules.get(key)
            is_open = rule is not None and {rule.configure, rule.write, rule.read} == {EVERYTHING}
            answer = self._remember(key, is_open and not any(each[:2] == key for each in self._topic_rules))
        return answer

    def _answer(self, key: tuple[str | None, ...], pattern: str, text: str) -> bool:
        try:
            found = pattern == EVERYTHING or self._pattern(pattern).search(text, timeout=SECONDS_PER_MATCH)
            answer = bool(found)
        except TimeoutError:
            return False  # not cached: the machine may have been busy
        except ConfigError:
            answer = False  # valid when it was set, but too long with the value of a variable
        return self._remember(key, answer)

    def _remember(self, key: tuple[str | None, ...], answer: bool) -> bool:
        if len(self._answers) >= CACHE_ENTRIES:
            self._answers.clear()  # rare, and cheaper than keeping the order of use on every hit
        self._answers[key] = answer
        return answer

    def _pattern(self, text: str) -> Any:
        compiled = self._compiled.get(text)
        if compiled is None:
            if len(self._compiled) >= CACHE_ENTRIES // 4:
                self._compiled.clear()
            compiled = self._compiled[text] = compile_pattern(text)
        return compiled

    def _drop(self, rules: Sequence[tuple[str, str]], topic_rules: Sequence[tuple[str, str, str]]) -> None:
        for pair in rules:
            self._record_drop(self._rules[pair])
            del self._rules[pair]
        for triple in topic_rules:
            self._record_drop(self._topic_rules[triple])
            del self._topic_rules[triple]
        if rules or topic_rules:
            self._changed()

    def _changed(self) -> None:
        self.epoch += 1
        self._answers.clear()
        self._compiled.clear()
        if self._listener is not None:
            self._listener.rules_changed()

    def _save(self, rule: AnyPermission) -> None:
        if self._listener is not None:
            self._listener.rule_saved(rule)

    def _record_drop(self, rule: AnyPermission) -> None:
        if self._listener is not None:
            self._listener.rule_dropped(rule)


def _expanded(pattern: str, user: str, vhost: str, client_id: str | None) -> str:
    """Expanded in one pass, so that a user name such as ``{vhost}`` is not expanded again."""
    values = {"{username}": user, "{vhost}": vhost, "{client_id}": client_id}

    def value(found: re.Match[str]) -> str:
        known = values[found[0]]
        return found[0] if known is None else re.escape(known)

    return re.sub(r"\{(?:username|vhost|client_id)\}", value, pattern)

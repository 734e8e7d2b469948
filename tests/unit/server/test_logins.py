"""Logins wait in a line per source, and the lines are served in turn."""

from __future__ import annotations

from leveret.auth.mechanisms import Credentials
from leveret.server.logins import FAILING, FAILURES, MOST_FAILING, Attempt, FailedSources, LoginQueue

NOW = 1_000.0


def attempt(source: str, number: int = 0) -> Attempt:
    return Attempt(Credentials(f"{source}{number}", "x"), None, source, lambda user: None)  # type: ignore[arg-type]


def served(line: LoginQueue[Attempt]) -> str:
    """The sources in the order in which they are served."""
    found = []
    while (each := line.next(NOW)) is not None:
        found.append(each.source)
    assert len(line) == 0
    return "".join(found)


def line_of(sources: str, failed: FailedSources | None = None) -> LoginQueue[Attempt]:
    line: LoginQueue[Attempt] = LoginQueue(failed or FailedSources())
    for number, source in enumerate(sources):
        assert line.join(attempt(source, number), most=100) is None
    return line


def failing(source: str) -> FailedSources:
    failed = FailedSources()
    for _ in range(FAILURES):
        failed.note(source, NOW)
    return failed


def test_sources_take_turns() -> None:
    assert served(line_of("aaaaabbc")) == "abcabaaa"


def test_a_source_with_failed_logins_gets_every_fourth_turn_while_others_wait() -> None:
    assert served(line_of("aaaabbbbbbb", failing("a"))) == "bbbabbbabaa"


def test_failures_count_for_a_minute_and_a_few_do_not_count() -> None:
    failed = failing("a")
    assert failed.is_failing("a", NOW + FAILING)
    assert not failed.is_failing("a", NOW + FAILING + 1)
    assert not failed.is_failing("b", NOW)
    failed.note("a", NOW + FAILING + 1)
    assert not failed.is_failing("a", NOW + FAILING + 1)


def test_the_memory_of_failures_is_bounded() -> None:
    failed = FailedSources()
    for number in range(MOST_FAILING + 10):
        failed.note(str(number), NOW)
    assert len(failed._failures) == MOST_FAILING


def test_when_the_line_is_too_long_the_last_of_the_longest_line_is_refused() -> None:
    line = line_of("aaab")
    refused = line.join(attempt("c"), most=4)
    assert refused is not None
    assert (refused.source, refused.credentials.name) == ("a", "a2")
    assert line.join(own := attempt("a"), most=4) is own
    assert served(line) == "abca"


def test_when_all_lines_are_alike_the_new_one_is_refused() -> None:
    line = line_of("ab")
    assert line.join(new := attempt("c"), most=2) is new
    assert served(line) == "ab"

"""The words of the project: those of RabbitMQ and AMQP, and no dialect.

Names in code quote: a field of the API or of a file keeps its name, so Markdown code and attributes of JavaScript are
left out. `tests/unit/test_webui_language.py` checks further phrases of the management UI.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from leveret.stats.metric_help import HELP

REPOSITORY = Path(__file__).resolve().parent.parent
SRC = REPOSITORY / "src"
ROOT_TEXTS = [REPOSITORY / f"{name}.md" for name in ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
FOLDERS = ("docs", "examples", "tools", "benchmarks", "packaging")
SUFFIXES = {".md", ".py", ".js", ".css", ".html", ".sh", ".c", ".h", ".toml", ".service", ".conf", ".cfg"}


def files_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        is_text = path.suffix in SUFFIXES or path.name == "Containerfile"
        if is_text and "node_modules" not in path.parts:
            yield path


PYTHON = sorted(SRC.rglob("*.py"))
TEXTS = [*ROOT_TEXTS, *(path for name in FOLDERS for path in files_in(REPOSITORY / name))]
WEBUI = list(files_in(SRC / "leveret" / "webui"))

# Programs are not people; words that had a meaning here only.
DIALECT = re.compile(
    r"\b(nobody|somebody|whoever|everybody|doorman|hearers?|exhum(?:e[ds]?|ing)|bury|buried|buries|choosy|carefree"
    r"|errands?|biograph\w*|witness(?:es)?|trace points?|verdicts?|surroundings|earlier li(?:fe|ves)|lapsed?|desks?"
    r"|offices?|retire[ds]?|equip(?:s|ped)?|mend(?:s|ed)?|riddles?|deaf|guarded|got by hand)\b",
    re.IGNORECASE,
)
# The same for texts only: in the source, some of these words are names.
DIALECT_IN_TEXTS = re.compile(
    rf"{DIALECT.pattern}|\b(rooms|houses?|walls|dies|died|dying|faces?|starved|story|stories|anybody|last word"
    r"|funerals?|given again|memory mark|write high mark|disk mark)\b",
    re.IGNORECASE,
)
PERSONIFIED = re.compile(
    r"\b(?:brokers?|servers?|clients?|queues?|exchanges?|channels?|connections?|consumers?|publishers?|messages?|nodes?"
    r"|readers?|programs?|Leveret|RabbitMQ|Spark|cells?|shards?|streams?|hosts?|leaders?|standbys?|commands?|logs?|lines?"
    r"|texts?|rows?|columns?|tables?|files?|options?|headers?|schemas?)"
    r" (?:then |that )?(?:knows?|wants?|hears?|says?|tells?|thinks?|believes?|forgets?|dies?|lives?|lived)\b"
    r"|\bsays? (?:so|otherwise|which|why|where|how|when)\b|\bfound dead\b"
)
BARE_SUBJECT = re.compile(r"(?:^|[.:;] |[-*|] |\*\*)(?:Who|Whom|Whose) [a-z]")

# Phrases that users met in the management UI, the command line, metrics and guides, and could not understand.
RIDDLES = re.compile(
    r"\b(keeps nothing in it|takes from it|until a consumer comes|rests in|wanting it back|than it was good for"
    r"|came back too often|sends? its dead|what was agreed|most channels|waits to be sent|shared prefetch|empty in \d"
    r"|what became of it so far|bindings (?:to|from) here|exchange leads here|may enter|asks itself|does a value hold"
    r"|is not traced any more|was just started knows|log says more|it wants|publishers wait|the clipboard to itself"
    r"|is there as asked|those (?:that )?there are|who asks|it says so|sort by something else|one screen, and go"
    r"|of their own for queues|half below|99 % below|say what a user|do nothing any more|in the hands of"
    r"|connections that came|(?:those|ones) who want|its page is at|marks? at which|that waits for it"
    r"|to browse is to look|so away with|without anything said|the line so far|alarms stand|publishes to nobody"
    r"|strangers to|other bargain|nobody's business|(?:is|are) said by|(?:after|within) so many"
    r"|in place of what was said|is there twice|until so many|no problem to it|nothing was taken from"
    r"|than the schema says"
    r"|what is not there|it does not ask the running|logged from level|counts as gone|everything[a-z ]* is there)\b",
    re.IGNORECASE,
)

THINGS = {"accounting", "sharding", "tracing", "consumer_ring", "blocking"}  # names of things that end in -ing


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text without what quotes: code in Markdown, attributes and keys in JavaScript."""
    is_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if path.suffix == ".md" and line.lstrip().startswith("```"):
            is_code = not is_code
        elif path.suffix == ".md":
            yield number, "" if is_code else re.sub(r"`[^`]*`", "", line)
        elif path.suffix == ".js":
            yield number, re.sub(r"\.\w+|\{[^{}]*\}", "", line)
        else:
            yield number, line


def found(pattern: re.Pattern[str], paths: Iterable[Path]) -> list[str]:
    return [
        f"{path.relative_to(REPOSITORY)}:{number}: {match.group()}"
        for path in paths
        for number, line in prose(path)
        if (match := pattern.search(line))
    ]


def test_the_source_uses_no_dialect() -> None:
    assert found(DIALECT, PYTHON) == []


def test_no_text_that_users_could_not_understand_came_back() -> None:
    assert found(RIDDLES, [*TEXTS, *WEBUI, *PYTHON]) == []


@pytest.mark.parametrize("pattern", [DIALECT_IN_TEXTS, PERSONIFIED, BARE_SUBJECT], ids=["words", "people", "subjects"])
def test_texts_use_no_dialect(pattern: re.Pattern[str]) -> None:
    assert found(pattern, [*TEXTS, *WEBUI]) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (DIALECT, "Nobody consumes."),
        (DIALECT, "an errand"),
        (DIALECT, "in an earlier life"),
        (DIALECT_IN_TEXTS, "the room of the house died"),
        (DIALECT_IN_TEXTS, "a verdict"),
        (PERSONIFIED, "The broker knows what the client wants."),
        (PERSONIFIED, "RabbitMQ believes a header"),
        (PERSONIFIED, "Each queue lives in one cell."),
        (PERSONIFIED, "and the log then says how to set it"),
        (PERSONIFIED, "unless the headers say otherwise"),
        (PERSONIFIED, "is not examined, and `doctor` says so"),
        (BARE_SUBJECT, "Who needs longer asks for it."),
        (BARE_SUBJECT, "- **Who sees what** is decided by tags."),
        (RIDDLES, "vhost 'shop' is there as asked"),
        (RIDDLES, "latency, 99 % below"),
        (RIDDLES, "the field id is there twice"),
        (RIDDLES, "After the restart, everything that was confirmed is there."),
        (RIDDLES, "who may enter it is said by leveret permissions set"),
    ],
)
def test_the_checks_see(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_only_code_quotes(tmp_path: Path) -> None:
    for name, text in (("a.md", "`stories` and\n```\nstory\n```\na story\n"), ("a.js", "row.stories; // a story\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        seen = [line for _, line in prose(tmp_path / name) if DIALECT_IN_TEXTS.search(line)]
        assert len(seen) == 1, name
        assert seen[0].endswith("a story")


# ---- names of modules


def activities(modules: Iterable[str]) -> list[str]:
    return [name for name in modules if name.endswith("ing") and name not in THINGS]


def test_modules_are_named_by_nouns() -> None:
    modules = [path.stem for path in (*PYTHON, *WEBUI)]
    assert activities(modules) == []
    assert set(modules) >= THINGS, "a name in THINGS is not in use any more"


def test_a_module_that_is_named_by_an_activity_is_found() -> None:
    assert activities(["arriving", "sharding", "lane"]) == ["arriving"]


# ---- help texts of metrics


def complaints(name: str, text: str) -> list[str]:
    """What is wrong with a help text."""
    units = [unit for unit in ("bytes", "seconds") if unit in name.split("_")]
    checks = {
        "begins with a capital letter or a number": text[:1].isupper() or text[:1].isdigit(),
        "has no full stop at its end": not text.endswith("."),
        "does not repeat that a counter is a total": not text.startswith("Total number of"),
        "names its unit": all(unit in text.lower() for unit in units),
        "uses no dialect": not DIALECT_IN_TEXTS.search(text),
    }
    return [f"{name}: {check}" for check, is_kept in checks.items() if not is_kept]


def test_help_texts_of_metrics_describe_the_value_with_its_unit() -> None:
    assert [complaint for name, text in HELP.items() for complaint in complaints(name, text)] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("queue_messages", "messages in a queue"),
        ("queue_messages", "Messages in a queue."),
        ("acked_total", "Total number of messages acknowledged"),
        ("queue_messages_bytes", "Size of messages"),
        ("queue_messages_unacked", "Messages whose verdict is missing"),
    ],
)
def test_a_bad_help_text_is_found(name: str, text: str) -> None:
    assert complaints(name, text)

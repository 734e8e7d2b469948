"""docs/guide/migrate.md names commands, settings and HTTP requests of Leveret: they exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from leveret.api.openapi.document import DESCRIBED
from leveret.cli.lazy_commands import LazyCommand
from leveret.cli.main import app
from leveret.config import BY_NAME

PAGE = (Path(__file__).parent.parent / "docs" / "guide" / "migrate.md").read_text(encoding="utf-8")


def counterparts(text: str) -> list[str]:
    """The code in the right column of all tables."""
    rows = [line.strip("|").partition(" | ")[2] for line in text.splitlines() if line.startswith("| ")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row)]


# ---- commands


def wrong_command(line: str) -> str | None:
    """The first word that is no command or option, if there is one."""
    command: Any = get_command(app)
    for word in line.split()[1:]:
        if isinstance(command, LazyCommand):
            command = command.load()
        if word.startswith("-"):
            flags = {"--help", *(flag for parameter in command.params for flag in parameter.opts)}
            if word not in flags:
                return word
        elif getattr(command, "commands", None) is not None:
            if word not in command.commands:
                return word
            command = command.commands[word]
    return None


COMMANDS = [code for code in counterparts(PAGE) if code.startswith("leveret ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_exists(line: str) -> None:
    assert wrong_command(line) is None


def test_a_wrong_command_is_found() -> None:
    assert len(COMMANDS) > 50
    assert wrong_command("leveret queues lst") == "lst"
    assert wrong_command("leveret queues list --sorted") == "--sorted"
    assert wrong_command("leveret queues list --sort name") is None


# ---- settings


def settings_in(section: str) -> Iterator[str]:
    for code in counterparts(PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]):
        if found := re.fullmatch(r"([a-z_]+)(?: = .+)?", code):
            yield found[1]


OTHERS = {"max_queues", "max_connections", "login", "passcode"}  # of [[bootstrap.vhosts]]; headers of STOMP
SETTINGS = sorted({*settings_in("rabbitmq.conf")} - OTHERS)
VALUES = sorted({code for code in counterparts(PAGE) if re.fullmatch(r"[a-z_]+ = .+", code)})


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_exists(name: str) -> None:
    assert name in BY_NAME


def is_accepted(line: str) -> bool:
    ((name, value),) = tomllib.loads(line).items()
    try:
        BY_NAME[name].kind.parse(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("line", VALUES)
def test_a_value_is_accepted(line: str) -> None:
    assert is_accepted(line)


def test_a_wrong_value_is_found() -> None:
    assert len(SETTINGS) > 20
    assert len(VALUES) > 5
    assert not is_accepted('memory_high_watermark = "much"')


# ---- HTTP requests


def requests_in(text: str) -> Iterator[str]:
    """Such as "GET /api/nodes/{name}"; without a method it is GET."""
    for code in counterparts(text):
        if found := re.fullmatch(r"(?:([A-Z]+) )?(/api/\S+)", code):
            yield f"{found[1] or 'GET'} {found[2]}"


def is_answered(request: str) -> bool:
    """Whether the API has it. A segment with a parameter fits any other, and `...` any rest."""
    begin, *rest = request.split("...")
    wanted = begin.rstrip("/").split("/")
    for known in DESCRIBED:
        there = known.split("/")
        fits = len(there) > len(wanted) if rest else len(there) == len(wanted)
        if fits and all(a == b or "{" in a + b for a, b in zip(there, wanted, strict=False)):
            return True
    return False


REQUESTS = sorted(set(requests_in(PAGE)))


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_is_answered(request_: str) -> None:
    assert is_answered(request_)


def test_a_wrong_request_is_found() -> None:
    assert len(REQUESTS) > 20
    assert is_answered("GET /api/nodes/{name}/memory")
    assert not is_answered("GET /api/nodes/{name}/memories")
    assert not is_answered("DELETE /api/overview")
    assert not is_answered("PUT /api/vhost-limit/...")

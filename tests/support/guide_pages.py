"""The code blocks of the pages below docs/, and the commands of ``leveret`` in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from typer import Exit
from typer.main import get_command

from leveret.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
PAGES = {path.stem: path for path in sorted(GUIDE.glob("*.md"))}
SHELLS = ("console", "sh")


class Block(NamedTuple):
    language: str
    text: str


def blocks(path: Path, *languages: str) -> list[Block]:
    """In the order of the page; those in lists are indented."""
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [
        Block(language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, text in found
        if not languages or language in languages
    ]


def command_lines(path: Path) -> Iterator[str]:
    """What a reader types, with continued lines joined. In a console, it stands behind a prompt."""
    for language, text in blocks(path, *SHELLS):
        lines = iter(text.replace("\\\n", " ").splitlines())
        for line in lines:
            if language == "console" and line.startswith(("$ ", "# ")):
                yield _whole(line[2:], lines)
            elif language == "sh" and line and not line.startswith("#"):
                yield _whole(line, lines)


def typed(console: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console, each with the lines that are shown below it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        yield line, shown


def _whole(line: str, more: Iterator[str]) -> str:
    """With the lines up to the closing quotation mark."""
    while True:
        try:
            shlex.split(line, comments=True)
        except ValueError:
            line += "\n" + next(more)
        else:
            return line


def leveret_commands(line: str) -> Iterator[list[str]]:
    """The arguments of each ``leveret`` in a line of the shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word and set(word) <= set("();<>|&"):
            if words and Path(words[0]).name == "leveret":
                yield words[1:]
            words = []
        else:
            words.append(word)


def problem_of(arguments: list[str]) -> str | None:
    """Why ``leveret`` would not understand them: no such command, no such option, a wrong number of arguments."""
    command: Any = get_command(app)
    context, rest = None, arguments
    try:
        while True:
            context = command.make_context("leveret", list(rest), parent=context)
            rest = [*_command_words(context), *context.args]
            if not hasattr(command, "resolve_command") or not rest:
                return None
            _, command, rest = command.resolve_command(context, rest)
    except Exit:  # --help, --version
        return None
    except Exception as problem:
        if not hasattr(problem, "format_message"):  # typer may have click's errors, or its own
            raise
        return str(problem.format_message())


def _command_words(context: Any) -> list[str]:
    """Where a group keeps the name of the command; versions of click differ."""
    found: list[str] = context._protected_args if hasattr(context, "_protected_args") else context.protected_args
    return found

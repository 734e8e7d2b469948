"""Shell completion of names, fetched from the broker selected by the options typed so far, within one second.

Completion never prompts for a password and reports no errors: on any problem there are no suggestions. Shells evaluate
suggestions, and other users choose the names: only names without shell metacharacters are suggested.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer

from leveret.cli.api_client import Api, CommandProblem
from leveret.cli.contexts import contexts_path, load_contexts, login_of

SECONDS = 1.0
MOST = 100
HARMLESS = re.compile(r"[A-Za-z0-9_.@/+-]+")
BY_VHOST = ("queues", "exchanges", "policies", "schemas", "streams")
WHERE = ("url", "username", "context", "password_file", "ca_file")

Completed = Callable[[typer.Context, str], list[str]]


def names_of(kind: str) -> Completed:
    """Names of the objects that the API lists under ``kind``."""

    def completed(ctx: typer.Context, incomplete: str) -> list[str]:
        return _offered(lambda: _names(ctx.params, kind, incomplete), incomplete)

    return completed


def choices(*names: str) -> Completed:
    """Fixed values."""
    return lambda ctx, incomplete: [name for name in names if name.startswith(incomplete)]


def context_names(ctx: typer.Context, incomplete: str) -> list[str]:
    return _offered(lambda: iter(load_contexts(contexts_path(os.environ)).named), incomplete)


def _offered(names: Callable[[], Iterator[str]], incomplete: str) -> list[str]:
    try:
        return sorted({name for name in names() if name.startswith(incomplete) and HARMLESS.fullmatch(name)})
    except CommandProblem:
        return []


def _names(given: dict[str, Any], kind: str, incomplete: str) -> Iterator[str]:
    with open(os.devnull) as empty:
        sys.stdin = empty  # not a terminal, so that no password prompt appears while the user types
        api = Api(login_of(os.environ, **{name: given.get(name) for name in WHERE}))
        query = {"columns": "name"}
        path = (kind, given.get("vhost") or api.vhost or "/") if kind in BY_VHOST else (kind,)
        if kind in ("queues", "exchanges"):  # there may be thousands
            query |= {"name": incomplete, "page": "1", "page_size": str(MOST)}
        found = api.send("GET", path, query, seconds=SECONDS).value
    yield from (str(row["name"]) for row in (found["items"] if isinstance(found, dict) else found))

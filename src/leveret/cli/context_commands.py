"""``leveret context``: named brokers."""

from __future__ import annotations

import os
from dataclasses import asdict

import typer

from leveret.cli.api_client import Misuse, address_of
from leveret.cli.broker_options import group, reported
from leveret.cli.contexts import URL, USERNAME, Context, Contexts, contexts_path, load_contexts
from leveret.cli.name_completion import context_names
from leveret.cli.output import print_line
from leveret.cli.tables import columns, print_table

app = group("Manage named brokers. They are stored in your configuration directory, without passwords.")

NAME = typer.Argument(metavar="NAME", help="Context name.", autocompletion=context_names)
COLUMNS = columns("current", "name", "url", "username", "vhost", "password_file", "ca_file")


def _full(path: str | None) -> str | None:
    """An absolute path, valid from any working directory."""
    return None if path is None else os.path.abspath(os.path.expanduser(path))


def _known() -> Contexts:
    return load_contexts(contexts_path(os.environ))


@app.command("list")
@reported
def list_contexts(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List contexts."""
    known = _known()
    rows = [{"name": name, "current": name == known.current, **asdict(one)} for name, one in known.named.items()]
    if as_json:
        import json

        print_line(json.dumps(rows))
    else:
        print_table(COLUMNS, rows, "No contexts. To add one: leveret context add NAME --url URL --username NAME")


@app.command("add")
@reported
def add_context(
    name: str = NAME,
    url: str = typer.Option(URL, "--url", metavar="URL", help="HTTP address of the broker."),
    username: str = typer.Option(USERNAME, "--username", metavar="NAME", help="User name."),
    vhost: str | None = typer.Option(None, "--vhost", metavar="NAME", help="Default virtual host."),
    password_file: str | None = typer.Option(
        None, "--password-file", metavar="FILE", help="File with the password, mode 600."
    ),
    ca_file: str | None = typer.Option(
        None, "--ca-file", metavar="FILE", help="CA certificate (PEM) to verify the broker, for https."
    ),
) -> None:
    """Add or replace a context; the first one added becomes the current context."""
    address_of(url, "--url")
    if not name:
        raise Misuse("the context name is empty: leveret context add NAME")
    known = _known()
    known.named[name] = Context(url, username, vhost, _full(password_file), _full(ca_file))
    known.current = known.current or name
    known.save()
    print_line(f"context '{name}' saved: {username} at {url}")
    if known.current == name:
        print_line("it is the current context")
    else:
        print_line(f"to make it the current context: leveret context use {name}")


@app.command("use")
@reported
def use_context(name: str = NAME) -> None:
    """Make a context the current one, used by commands without --context or --url."""
    known = _known()
    chosen = known.find(name)
    known.current = name
    known.save()
    print_line(f"current context is now '{name}': {chosen.username} at {chosen.url}")


@app.command("remove")
@reported
def remove_context(name: str = NAME) -> None:
    """Remove a context."""
    known = _known()
    known.find(name)
    del known.named[name]
    if known.current == name:
        known.current = None
    known.save()
    print_line(f"context '{name}' removed")

"""``leveret context``: names for brokers."""

from __future__ import annotations

import os
from dataclasses import asdict

import typer

from leveret.cli.api_client import Misuse, address_of
from leveret.cli.broker_options import group, told
from leveret.cli.completing import contexts_known
from leveret.cli.contexts import URL, USERNAME, Context, Contexts, contexts_path, load_contexts
from leveret.cli.printing import say
from leveret.cli.tables import Column, draw

app = group("Named brokers, kept in your configuration directory; passwords are not.")

NAME = typer.Argument(metavar="NAME", autocompletion=contexts_known)
COLUMNS = (
    Column("current", "current"),
    Column("name", "name"),
    Column("url", "url"),
    Column("username", "username"),
    Column("vhost", "vhost"),
    Column("password file", "password_file"),
    Column("ca file", "ca_file"),
)


def _full(path: str | None) -> str | None:
    """From wherever the next command is given."""
    return None if path is None else os.path.abspath(os.path.expanduser(path))


def _known() -> Contexts:
    return load_contexts(contexts_path(os.environ))


@app.command("list")
def list_contexts(as_json: bool = typer.Option(False, "--json", help="as JSON")) -> None:
    """List the brokers that have names."""

    def run() -> None:
        known = _known()
        rows = [{"name": name, "current": name == known.current, **asdict(one)} for name, one in known.named.items()]
        if as_json:
            import json

            say(json.dumps(rows))
        else:
            draw(COLUMNS, rows, "No broker has a name: leveret context add NAME --url URL --username NAME")

    told(run)


@app.command("add")
def add_context(
    name: str = NAME,
    url: str = typer.Option(URL, "--url", metavar="URL", help="its HTTP port"),
    username: str = typer.Option(USERNAME, "--username", metavar="NAME"),
    vhost: str | None = typer.Option(None, "--vhost", metavar="NAME", help="used where none is named"),
    password_file: str | None = typer.Option(None, "--password-file", metavar="FILE", help="a file with mode 600"),
    ca_file: str | None = typer.Option(
        None, "--ca-file", metavar="FILE", help="the authority that signed the broker's certificate, for https"
    ),
) -> None:
    """Give a broker a name, or change what is kept under it; the first is used from then on."""

    def run() -> None:
        address_of(url, "--url")
        if not name:
            raise Misuse("a context needs a name: leveret context add NAME")
        known = _known()
        known.named[name] = Context(url, username, vhost, _full(password_file), _full(ca_file))
        known.current = known.current or name
        known.save()
        say(f"context '{name}' is {username} at {url}")
        if known.current == name:
            say("it is the one that is used where none is named")
        else:
            say(f"leveret context use {name} makes it the one that is used")

    told(run)


@app.command("use")
def use_context(name: str = NAME) -> None:
    """Use this broker where none is named."""

    def run() -> None:
        known = _known()
        chosen = known.named_as(name)
        known.current = name
        known.save()
        say(f"commands now go to {chosen.username} at {chosen.url}")

    told(run)


@app.command("remove")
def remove_context(name: str = NAME) -> None:
    """Forget a name."""

    def run() -> None:
        known = _known()
        known.named_as(name)
        del known.named[name]
        if known.current == name:
            known.current = None
        known.save()
        say(f"context '{name}' removed")

    told(run)

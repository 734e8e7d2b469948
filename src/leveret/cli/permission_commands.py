"""``leveret permissions``: who may do what, and why."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import typer

from leveret.cli.api_client import Api, Misuse, Refusal, Row
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.completing import names_of
from leveret.cli.printing import print_json, say
from leveret.cli.tables import Column, draw

app = group("Permissions: regular expressions over the names of queues and exchanges.")

KINDS = ("configure", "write", "read")
USER = typer.Argument(metavar="USER", autocompletion=names_of("users"))
EXCHANGE = typer.Argument(metavar="EXCHANGE", help="a topic exchange")
PATTERN = "the names it may {}; none if not given"
ALL = "--configure '.*' --write '.*' --read '.*'"
COLUMNS = (
    Column("user", "user"),
    Column("vhost", "vhost"),
    Column("configure", "configure"),
    Column("write", "write"),
    Column("read", "read"),
)
TOPICS = (Column("user", "user"), Column("vhost", "vhost"), Column("exchange", "exchange"), *COLUMNS[3:])


class Given(NamedTuple):
    """To whom, where, and what both kinds of permissions have."""

    user: str = USER
    write: str | None = typer.Option(None, "--write", metavar="REGEX", help=PATTERN.format("publish to"))
    read: str | None = typer.Option(None, "--read", metavar="REGEX", help=PATTERN.format("consume from"))
    vhost: str | None = VHOST

    def put(self, api: Api, kind: str, key: str, value: str, what: str) -> None:
        place, write, read = vhost_in(api, self.vhost), self.write or "", self.read or ""
        api.put(kind, place, self.user, value={key: value, "write": write, "read": read})
        say(f"user '{self.user}' {what} in vhost '{place}': write '{write}', read '{read}'")


@app.command("list")
@at_broker
def list_permissions(
    api: Api,
    vhost: str | None = ANY_VHOST,
    user: str | None = typer.Option(None, "--user", metavar="NAME", help="of this user only"),
    topic: bool = typer.Option(False, "--topic", help="those for routing keys of topic exchanges"),
    as_json: bool = AS_JSON,
) -> None:
    """List permissions."""
    kind = "topic-permissions" if topic else "permissions"
    path: tuple[str, ...] = (kind,)
    if user is not None:
        path = ("users", user, kind)
    elif vhost is not None:
        path = ("vhosts", vhost, kind)
    answer = api.get(*path)
    if as_json:
        print_json(answer)
        return
    rows = [row for row in answer.rows if vhost in (None, row["vhost"])]
    draw(TOPICS if topic else COLUMNS, rows, f"There are no such permissions: leveret permissions set USER {ALL}")


@app.command("set")
@at_broker
def set_permissions(
    api: Api,
    given: Given,
    configure: str | None = typer.Option(
        None, "--configure", metavar="REGEX", help=PATTERN.format("declare and delete")
    ),
) -> None:
    """Say what a user may do in a virtual host, in place of what was said before."""
    if (configure, given.write, given.read) == (None, None, None):
        raise Misuse(f"say what user '{given.user}' may do: {ALL}, or less; leveret permissions clear takes all away")
    given.put(api, "permissions", "configure", configure or "", f"may configure '{configure or ''}'")


@app.command("clear")
@at_broker
def clear_permissions(api: Api, user: str = USER, vhost: str | None = VHOST) -> None:
    """Let a user do nothing in a virtual host any more."""
    place = vhost_in(api, vhost)
    api.delete("permissions", place, user)
    say(f"user '{user}' has no permissions in vhost '{place}'")


@app.command("set-topic")
@at_broker
def set_topic(api: Api, given: Given, exchange: str = EXCHANGE) -> None:
    """Say which routing keys a user may publish and bind with at a topic exchange."""
    given.put(api, "topic-permissions", "exchange", exchange, f"at exchange '{exchange}'")


@app.command("clear-topic")
@at_broker
def clear_topic(api: Api, user: str = USER, vhost: str | None = VHOST) -> None:
    """Let a user use any routing key again."""
    place = vhost_in(api, vhost)
    api.delete("topic-permissions", place, user)
    say(f"user '{user}' may use any routing key in vhost '{place}'")


@app.command("may")
@at_broker
def may(
    api: Api,
    user: str = USER,
    kind: str = typer.Argument(metavar="KIND", help="configure, write or read"),
    name: str = typer.Argument(metavar="NAME", help="a queue or an exchange"),
    routing_key: str | None = typer.Option(None, "--routing-key", metavar="KEY", help="at a topic exchange"),
    vhost: str | None = VHOST,
) -> None:
    """Say whether a user may do that, and by which rule; exit code 0 for yes, 1 for no."""
    if kind not in KINDS:
        raise Misuse(f"{kind!r} is no kind of permission: {', '.join(KINDS)}")
    place = vhost_in(api, vhost)
    question = {"user": user, "vhost": place, "action": kind, "name": name}
    if routing_key is not None:
        question["routing_key"] = routing_key
    verdict: Row = api.get("permission-check", query=question).value
    why = verdict["decided_by"]["text"]
    if not verdict["allowed"]:
        shown = f"leveret permissions list --user {shlex.quote(user)}"
        raise Refusal(f"no, user '{user}' may not {kind} '{name}' in vhost '{place}': {why}; {shown} shows its rules")
    say(f"yes: {why}")

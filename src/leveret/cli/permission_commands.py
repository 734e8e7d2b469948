"""``leveret permissions``."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import typer

from leveret.cli.api_client import Api, Misuse, Refusal, Row
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.name_completion import choices, names_of
from leveret.cli.output import print_json, print_line
from leveret.cli.tables import columns, print_table

app = group("List, set, clear and test permissions: regular expressions for names of queues and exchanges.")

KINDS = ("configure", "write", "read")
USER = typer.Argument(metavar="USER", help="User name.", autocompletion=names_of("users"))
EXCHANGE = typer.Argument(metavar="EXCHANGE", help="Topic exchange.")
PATTERN = "Names the user may {}; none if omitted."
ALL = "--configure '.*' --write '.*' --read '.*'"
COLUMNS = columns("user", "vhost", "configure", "write", "read")
TOPICS = columns("user", "vhost", "exchange", "write", "read")


class Given(NamedTuple):
    """The options that permissions and topic permissions have in common."""

    user: str = USER
    write: str | None = typer.Option(None, "--write", metavar="REGEX", help=PATTERN.format("publish to"))
    read: str | None = typer.Option(None, "--read", metavar="REGEX", help=PATTERN.format("consume from"))
    vhost: str | None = VHOST

    def put(self, api: Api, kind: str, key: str, value: str, what: str) -> None:
        place, write, read = vhost_in(api, self.vhost), self.write or "", self.read or ""
        api.put(kind, place, self.user, value={key: value, "write": write, "read": read})
        print_line(
            f"{what} of user '{self.user}' in vhost '{place}' set: {key} '{value}', write '{write}', read '{read}'"
        )


@app.command("list")
@at_broker
def list_permissions(
    api: Api,
    vhost: str | None = ANY_VHOST,
    user: str | None = typer.Option(None, "--user", metavar="NAME", help="Only permissions of this user."),
    topic: bool = typer.Option(False, "--topic", help="Topic permissions."),
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
    print_table(TOPICS if topic else COLUMNS, rows, f"No permissions. To set them: leveret permissions set USER {ALL}")


@app.command("set")
@at_broker
def set_permissions(
    api: Api,
    given: Given,
    configure: str | None = typer.Option(
        None, "--configure", metavar="REGEX", help=PATTERN.format("declare and delete")
    ),
) -> None:
    """Set the permissions of a user in a virtual host (replaces existing ones)."""
    if (configure, given.write, given.read) == (None, None, None):
        raise Misuse(f"no permissions given for user '{given.user}': use {ALL}, or run 'leveret permissions clear'")
    given.put(api, "permissions", "configure", configure or "", "permissions")


@app.command("clear")
@at_broker
def clear_permissions(api: Api, user: str = USER, vhost: str | None = VHOST) -> None:
    """Clear the permissions of a user in a virtual host."""
    place = vhost_in(api, vhost)
    api.delete("permissions", place, user)
    print_line(f"permissions of user '{user}' in vhost '{place}' cleared")


@app.command("set-topic")
@at_broker
def set_topic(api: Api, given: Given, exchange: str = EXCHANGE) -> None:
    """Set the topic permissions of a user: routing keys to publish and bind with at a topic exchange."""
    given.put(api, "topic-permissions", "exchange", exchange, "topic permissions")


@app.command("clear-topic")
@at_broker
def clear_topic(api: Api, user: str = USER, vhost: str | None = VHOST) -> None:
    """Clear the topic permissions of a user: any routing key is allowed."""
    place = vhost_in(api, vhost)
    api.delete("topic-permissions", place, user)
    print_line(f"topic permissions of user '{user}' in vhost '{place}' cleared")


@app.command("may")
@at_broker
def may(
    api: Api,
    user: str = USER,
    kind: str = typer.Argument(metavar="KIND", help="configure, write or read.", autocompletion=choices(*KINDS)),
    name: str = typer.Argument(metavar="NAME", help="Queue or exchange."),
    routing_key: str | None = typer.Option(
        None, "--routing-key", metavar="KEY", help="Routing key at a topic exchange."
    ),
    vhost: str | None = VHOST,
) -> None:
    """Test whether a user has a permission, and show the rule that decides; exit code 0 for yes, 1 for no."""
    if kind not in KINDS:
        raise Misuse(f"unknown kind of permission {kind!r}: choose one of {', '.join(KINDS)}")
    place = vhost_in(api, vhost)
    question = {"user": user, "vhost": place, "action": kind, "name": name}
    if routing_key is not None:
        question["routing_key"] = routing_key
    result: Row = api.get("permission-check", query=question).value
    why = result["decided_by"]["text"]
    if not result["allowed"]:
        command = f"leveret permissions list --user {shlex.quote(user)}"
        raise Refusal(f"no: user '{user}' may not {kind} '{name}' in vhost '{place}': {why}; see '{command}'")
    print_line(f"yes: {why}")

"""``leveret permissions``: who may do what, and why."""

from __future__ import annotations

import re
from typing import NamedTuple

import typer

from leveret.cli.api_client import Api, Misuse, Refusal, Row
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.printing import print_json, say
from leveret.cli.tables import Column, draw

app = group("Permissions: regular expressions over the names of queues and exchanges.")

KINDS = ("configure", "write", "read")
SECONDS = 0.05  # for a pattern, as the broker has it
USER = typer.Argument(metavar="USER")
EXCHANGE = typer.Argument(metavar="EXCHANGE", help="a topic exchange")
PATTERN = "the names it may {}; nothing if not given"
WRITE = typer.Option("", "--write", metavar="REGEX", help=PATTERN.format("publish to"))
READ = typer.Option("", "--read", metavar="REGEX", help=PATTERN.format("consume from"))
COLUMNS = (
    Column("user", "user"),
    Column("vhost", "vhost"),
    Column("configure", "configure"),
    Column("write", "write"),
    Column("read", "read"),
)
TOPICS = (Column("user", "user"), Column("vhost", "vhost"), Column("exchange", "exchange"), *COLUMNS[3:])
# A brace that is no repetition is a plain character, as the broker reads patterns.
BRACES = re.compile(r"(\\[pPxNgku]\{[^{}]*\}|\\.|\{\d+(?:,\d*)?\}|\{,\d+\})|\{", re.DOTALL)


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
    draw(TOPICS if topic else COLUMNS, rows, "There are no such permissions: leveret permissions set USER")


@app.command("set")
@at_broker
def set_permissions(
    api: Api,
    user: str = USER,
    configure: str = typer.Option("", "--configure", metavar="REGEX", help=PATTERN.format("declare and delete")),
    write: str = WRITE,
    read: str = READ,
    vhost: str | None = VHOST,
) -> None:
    """Say what a user may do in a virtual host, in place of what was said before."""
    place = vhost_in(api, vhost)
    api.put("permissions", place, user, value={"configure": configure, "write": write, "read": read})
    say(f"user '{user}' in vhost '{place}': configure '{configure}', write '{write}', read '{read}'")


@app.command("clear")
@at_broker
def clear_permissions(api: Api, user: str = USER, vhost: str | None = VHOST) -> None:
    """Let a user do nothing in a virtual host any more."""
    place = vhost_in(api, vhost)
    api.delete("permissions", place, user)
    say(f"user '{user}' has no permissions in vhost '{place}'")


@app.command("set-topic")
@at_broker
def set_topic(
    api: Api,
    user: str = USER,
    exchange: str = EXCHANGE,
    write: str = WRITE,
    read: str = READ,
    vhost: str | None = VHOST,
) -> None:
    """Say which routing keys a user may publish and bind with at a topic exchange."""
    place = vhost_in(api, vhost)
    api.put("topic-permissions", place, user, value={"exchange": exchange, "write": write, "read": read})
    say(f"user '{user}' at exchange '{exchange}' in vhost '{place}': write '{write}', read '{read}'")


@app.command("clear-topic")
@at_broker
def clear_topic(api: Api, user: str = USER, vhost: str | None = VHOST) -> None:
    """Let a user use any routing key again."""
    place = vhost_in(api, vhost)
    api.delete("topic-permissions", place, user)
    say(f"user '{user}' may use any routing key in vhost '{place}'")


class Verdict(NamedTuple):
    """Whether it may, and which rule says so."""

    may: bool
    why: str


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
    rules = [row for row in api.get("users", user, "permissions").rows if row["vhost"] == place]
    topics = api.get("users", user, "topic-permissions").rows if routing_key is not None else []
    verdict = judged(rules, kind, name, place)
    if verdict.may and routing_key is not None:
        at_exchange = [row for row in topics if row["vhost"] == place and row["exchange"] == name]
        verdict = judged_topic(at_exchange, kind, routing_key) or verdict
    if not verdict.may:
        raise Refusal(
            f"no, user '{user}' may not {kind} '{name}' in vhost '{place}': {verdict.why}; leveret permissions set "
            f"{user} --vhost {place}"
        )
    say(f"yes: {verdict.why}")


def judged(rules: list[Row], kind: str, name: str, vhost: str) -> Verdict:
    if not rules:
        return Verdict(False, "it has no permissions there")
    pattern = rules[0][kind]
    if matches(pattern, name or "amq.default"):
        return Verdict(True, f"{kind} '{pattern}' in vhost '{vhost}'")
    return Verdict(False, f"{kind} '{pattern}' does not match")


def judged_topic(rules: list[Row], kind: str, key: str) -> Verdict | None:
    """None where no rule speaks of it: any key will do."""
    if not rules or kind == "configure":
        return None
    pattern = rules[0][kind]
    if matches(pattern, key):
        return Verdict(True, f"topic {kind} '{pattern}' at exchange '{rules[0]['exchange']}'")
    return Verdict(False, f"topic {kind} '{pattern}' does not match key '{key}'")


def matches(pattern: str, name: str) -> bool:
    """As the broker has it: anywhere in the name, and the empty pattern matches nothing but an empty name."""
    import regex

    literal_braces = BRACES.sub(lambda found: found[1] or r"\{", pattern or "^$")
    try:
        return regex.search(literal_braces, name, timeout=SECONDS) is not None
    except TimeoutError:
        return False

"""``leveret users``. Passwords come from the terminal or from standard input, never from the command line."""

from __future__ import annotations

import shlex
import sys

import typer

from leveret.cli.api_client import Api, Misuse, Row
from leveret.cli.broker_options import AS_JSON, at_broker, group
from leveret.cli.completing import names_of
from leveret.cli.printing import made, print_json, print_list, say
from leveret.cli.tables import Column, draw, facts

app = group("Users: who may log in, and as what.")

NAME = typer.Argument(metavar="NAME", help="the user", autocompletion=names_of("users"))
TAGS = typer.Option([], "--tag", metavar="TAG", help="administrator, monitoring, policymaker, management or your own")
COLUMNS = (Column("name", "name"), Column("tags", "tags"), Column("limits", "limits"))


@app.command("list")
@at_broker
def list_users(api: Api, as_json: bool = AS_JSON) -> None:
    """List users."""
    answer = api.get("users")
    print_list(answer, COLUMNS, "There are no users: leveret users create NAME", as_json)


@app.command("show")
@at_broker
def show_user(api: Api, name: str = NAME, as_json: bool = AS_JSON) -> None:
    """Show a user, and what it may do where."""
    from leveret.cli.permission_commands import ALL
    from leveret.cli.permission_commands import COLUMNS as PERMISSIONS

    answer = api.get("users", name)
    if as_json:
        print_json(answer)
        return
    facts(COLUMNS, answer.value)
    rows = api.get("users", name, "permissions").rows
    say("")
    draw(PERMISSIONS, rows, f"It may not do anything anywhere: leveret permissions set {shlex.quote(name)} {ALL}")


@app.command("create")
@at_broker
def create_user(api: Api, name: str = NAME, tag: list[str] = TAGS) -> None:
    """Create a user. The password is asked for, or is the first line of standard input."""
    from leveret.cli.permission_commands import ALL

    if api.exists("users", name):
        raise Misuse(f"user '{name}' exists: leveret users password {name}, or leveret users tags {name}")
    answer = api.put("users", name, value={"password": _new_password(name), "tags": tag})
    made(f"user '{name}'", answer)
    sys.stderr.write(f"It may not do anything yet: leveret permissions set {shlex.quote(name)} {ALL}\n")


@app.command("password")
@at_broker
def change_password(api: Api, name: str = NAME) -> None:
    """Give a user another password, from the terminal or standard input; its tags stay."""
    before: Row = api.get("users", name).value
    api.put("users", name, value={"password": _new_password(name), "tags": before["tags"]})
    say(f"user '{name}' has a new password")


@app.command("tags")
@at_broker
def change_tags(api: Api, name: str = NAME, tag: list[str] = TAGS) -> None:
    """Give a user these tags in place of those it has; its password stays."""
    before: Row = api.get("users", name).value
    kept = {key: before[key] for key in ("password_hash", "hashing_algorithm") if before["password_hash"]}
    api.put("users", name, value={**kept, "tags": tag})
    tags = f"the tag{'s' if len(tag) > 1 else ''} {', '.join(tag)}" if tag else "no tags"
    say(f"user '{name}' has {tags}")


@app.command("delete")
@at_broker
def delete_user(api: Api, name: str = NAME) -> None:
    """Delete a user with its permissions; its connections are closed."""
    api.delete("users", name)
    say(f"user '{name}' deleted")


def _new_password(name: str) -> str:
    if sys.stdin.isatty():
        password: str = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise Misuse(f"no password for user '{name}': write it into the first line of standard input")
    return password

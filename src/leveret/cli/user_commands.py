"""``leveret users``. Passwords are read from the terminal or standard input, never from the command line."""

from __future__ import annotations

import shlex
import sys

import typer

from leveret.cli.api_client import Api, Misuse, Row
from leveret.cli.broker_options import AS_JSON, at_broker, group
from leveret.cli.name_completion import choices, names_of
from leveret.cli.object_commands import list_command
from leveret.cli.output import print_created, print_json, print_line
from leveret.cli.tables import columns, print_facts, print_table

app = group("List, show, create and delete users; change passwords and tags.")

NAME = typer.Argument(metavar="NAME", help="User name.", autocompletion=names_of("users"))
TAGS = typer.Option(
    [],
    "--tag",
    metavar="TAG",
    help="administrator, monitoring, policymaker, management, impersonator or any other; repeatable.",
    autocompletion=choices("administrator", "monitoring", "policymaker", "management", "impersonator"),
)
NO_PASSWORD = typer.Option(
    False, "--no-password", help="Allow no logins with a password, only with single sign-on or a client certificate."
)
COLUMNS = columns("name", "tags", "limits")

list_command(
    app,
    "users",
    COLUMNS,
    help="List users.",
    empty="No users. To create one: leveret users create NAME",
    by_vhost=False,
)


@app.command("show")
@at_broker
def show_user(api: Api, name: str = NAME, as_json: bool = AS_JSON) -> None:
    """Show a user and its permissions."""
    from leveret.cli.permission_commands import ALL
    from leveret.cli.permission_commands import COLUMNS as PERMISSIONS

    answer = api.get("users", name)
    if as_json:
        print_json(answer)
        return
    print_facts(COLUMNS, answer.value)
    rows = api.get("users", name, "permissions").rows
    print_line("")
    print_table(PERMISSIONS, rows, f"No permissions. To set them: leveret permissions set {shlex.quote(name)} {ALL}")


@app.command("create")
@at_broker
def create_user(api: Api, name: str = NAME, tag: list[str] = TAGS, no_password: bool = NO_PASSWORD) -> None:
    """Create a user. The password is prompted for, or read from the first line of standard input."""
    from leveret.cli.permission_commands import ALL

    if api.exists("users", name):
        raise Misuse(
            f"user '{name}' already exists: to change it, run 'leveret users password' or 'leveret users tags'"
        )
    answer = api.put("users", name, value={**_new_password(name, no_password), "tags": tag})
    print_created(f"user '{name}'", answer)
    sys.stderr.write(f"It has no permissions yet. To set them: leveret permissions set {shlex.quote(name)} {ALL}\n")


@app.command("password")
@at_broker
def change_password(api: Api, name: str = NAME, no_password: bool = NO_PASSWORD) -> None:
    """Change the password of a user. It is prompted for, or read from the first line of standard input."""
    before: Row = api.get("users", name).value
    api.put("users", name, value={**_new_password(name, no_password), "tags": before["tags"]})
    print_line(f"password of user '{name}' {'removed' if no_password else 'changed'}")


@app.command("tags")
@at_broker
def change_tags(api: Api, name: str = NAME, tag: list[str] = TAGS) -> None:
    """Set the tags of a user (replaces existing ones)."""
    before: Row = api.get("users", name).value
    kept = {key: before[key] for key in ("password_hash", "hashing_algorithm") if before["password_hash"]}
    api.put("users", name, value={**kept, "tags": tag})
    print_line(f"tags of user '{name}' set: {', '.join(tag) or 'none'}")


@app.command("delete")
@at_broker
def delete_user(api: Api, name: str = NAME) -> None:
    """Delete a user and its permissions; its connections are closed."""
    api.delete("users", name)
    print_line(f"user '{name}' deleted")


def _new_password(name: str, no_password: bool) -> Row:
    """Fields of the user."""
    if no_password:
        return {"password_hash": ""}
    if sys.stdin.isatty():
        password: str = typer.prompt(f"New password for {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise Misuse(f"no password for user '{name}': write it to the first line of standard input")
    return {"password": password}

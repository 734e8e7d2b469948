"""``leveret schemas``."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import typer

from leveret.cli.api_client import Api, Misuse, Row
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, listed_at, vhost_in
from leveret.cli.name_completion import choices, names_of
from leveret.cli.output import print_json, print_line, print_list, print_object
from leveret.cli.tables import Column, columns, count

app = group("List, add, show, delete and check schemas of message bodies.")

NAME = typer.Argument(metavar="NAME", help="Schema name.", autocompletion=names_of("schemas"))
FILE = typer.Argument(metavar="FILE", help="Avro schema, descriptor set of protoc, or DDL; - for standard input.")
TYPE = typer.Option(
    "avro",
    "--type",
    metavar="TYPE",
    help="avro, protobuf, or json: fields as Spark DDL.",
    autocompletion=choices("avro", "protobuf", "json"),
)
MESSAGE = typer.Option(None, "--message", metavar="NAME", help="Full name of the Protobuf message.")
COMPATIBILITY = typer.Option(
    None,
    "--compatibility",
    metavar="MODE",
    help="backward, forward, full or none.  [default: that of the schema, or backward]",
    autocompletion=choices("backward", "forward", "full", "none"),
)
COLUMNS = (*columns("vhost", "name", "type", "compatibility"), Column("version", "version", count), *columns("id"))
VERSIONS = (Column("version", "version", count), *columns("id"))
ONE_VERSION = (*columns("vhost", "name"), Column("version", "version", count), *columns("id", "type", "message"))


@app.command("list")
@at_broker
def list_schemas(api: Api, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
    """List schemas with their latest versions."""
    answer = api.get(*listed_at(api, "schemas", vhost))
    print_list(answer, COLUMNS, "No schemas. To add one: leveret schemas add NAME FILE", as_json)


@app.command("add")
@at_broker
def add_schema(
    api: Api,
    name: str = NAME,
    file: str = FILE,
    type_: str = TYPE,
    message: str | None = MESSAGE,
    compatibility: str | None = COMPATIBILITY,
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Add a version of a schema; it must be compatible with the version before."""
    value = _value(file, type_, message, compatibility)
    answer = api.put("schemas", vhost_in(api, vhost), name, value=value)
    if as_json:
        print_json(answer)
        return
    state = "added" if answer.status == 201 else "already exists"
    print_line(f"version {answer.value['version']} of schema '{name}' {state}, ID {answer.value['id']}")


@app.command("show")
@at_broker
def show_schema(
    api: Api,
    name: str = NAME,
    version: str | None = typer.Argument(None, metavar="[VERSION]", help="Print this version; a number, or latest."),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Show the versions of a schema, or the text of one version."""
    path = ("schemas", vhost_in(api, vhost), name)
    if version is None:
        print_object(api.get(*path), COLUMNS, as_json, lambda row: [(VERSIONS, row["versions"])])
        return
    answer = api.get(*path, version)
    print_object(answer, ONE_VERSION, as_json)
    if not as_json:
        print_line("")
        print_line(str(answer.value["schema"]))


@app.command("delete")
@at_broker
def delete_schema(
    api: Api,
    name: str = NAME,
    version: str | None = typer.Argument(None, metavar="[VERSION]", help="Only this version; a number, or latest."),
    vhost: str | None = VHOST,
) -> None:
    """Delete a schema, or one version. Messages that refer to it cannot be decoded any more."""
    api.delete("schemas", vhost_in(api, vhost), name, *([] if version is None else [version]))
    print_line(f"schema '{name}' deleted" if version is None else f"version {version} of schema '{name}' deleted")


@app.command("check")
@at_broker
def check_schema(
    api: Api,
    name: str = NAME,
    file: str = FILE,
    type_: str = TYPE,
    message: str | None = MESSAGE,
    compatibility: str | None = COMPATIBILITY,
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Check whether a schema could be added; nothing is changed. Exit code 1: it is not compatible."""
    value = _value(file, type_, message, compatibility)
    answer = api.post("schemas", vhost_in(api, vhost), name, "check", value=value)
    if as_json:
        print_json(answer)
    elif answer.value["version"] is None:
        print_line(f"schema '{name}' would be new")
    else:
        mode, version = answer.value["compatibility"], answer.value["version"]
        state = "is" if answer.value["compatible"] else "is not"
        print_line(f"the schema {state} compatible with version {version} of '{name}' ({mode})")
        for problem in answer.value["problems"]:
            print_line(f"- {problem}")
    if not answer.value["compatible"]:
        raise typer.Exit(1)


def _value(file: str, type_: str, message: str | None, compatibility: str | None) -> Row:
    content = _content(file)
    try:
        text = base64.b64encode(content).decode() if type_ == "protobuf" else content.decode()
    except UnicodeDecodeError:
        raise Misuse(f"{file} is not UTF-8: for a descriptor set, pass --type protobuf") from None
    more = {"message": message, "compatibility": compatibility}
    return {"type": type_, "schema": text} | {key: value for key, value in more.items() if value is not None}


def _content(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as problem:
        raise Misuse(f"cannot read {file}: {problem.strerror}") from None

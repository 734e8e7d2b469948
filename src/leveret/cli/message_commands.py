"""``leveret publish``, ``get`` and ``browse``: single messages, for people who try and look.

A body that is no text travels as base64, and is written as the bytes it is with ``--raw``.
"""

from __future__ import annotations

import base64
import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from leveret.cli.api_client import Api, Misuse, Refusal, Row
from leveret.cli.broker_options import (
    AS_JSON,
    DEFAULT_EXCHANGE,
    VHOST,
    alone,
    at_broker,
    exchange_in,
    pairs,
    vhost_in,
)
from leveret.cli.completing import names_of
from leveret.cli.printing import print_json, say
from leveret.cli.tables import Column, count, draw, name, numbered

publish_app, get_app, browse_app = alone(), alone(), alone()

QUEUE = typer.Argument(metavar="QUEUE", autocompletion=names_of("queues"))
RAW = typer.Option(False, "--raw", help="only the bodies, byte for byte, each with an end of line")
TRANSIENT, PERSISTENT = 1, 2
COLUMNS = (
    Column("exchange", "exchange", name),
    Column("routing key", "routing_key"),
    Column("redelivered", "redelivered"),
    Column("bytes", "payload_bytes", count),
    Column("headers", "properties.headers"),
    Column("body", "payload"),
)
FILE = typer.Option(None, "--file", metavar="FILE", help="the body is in this file")
PROPERTY = typer.Option([], "--property", metavar="NAME=VALUE", help="such as priority=5")
WITH_HEADER = typer.Option([], "--header", metavar="NAME=VALUE", help="with this header")
HEADER = typer.Option([], "--header", metavar="NAME=VALUE", help="a header; the value is read as JSON or as text")


@publish_app.command()
@at_broker
def publish(
    api: Api,
    routing_key: str = typer.Argument(
        metavar="ROUTING_KEY", help="without --exchange: the name of the queue", autocompletion=names_of("queues")
    ),
    body: str | None = typer.Argument(None, metavar="[BODY]", help="without it and --file: standard input"),
    exchange: str = typer.Option(DEFAULT_EXCHANGE, "--exchange", metavar="NAME", autocompletion=names_of("exchanges")),
    file: Path | None = FILE,
    header: list[str] = HEADER,
    property_: list[str] = PROPERTY,
    transient: bool = typer.Option(False, "--transient", help="may be lost when the broker restarts"),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Publish one message; exit code 1 if no queue got it."""
    payload = _body(body, file)
    properties: Row = {"delivery_mode": TRANSIENT if transient else PERSISTENT, **pairs(property_, "--property")}
    if header:
        properties["headers"] = pairs(header, "--header")
    value: Row = {"routing_key": routing_key, "properties": properties, **_encoded(payload)}
    exchange = exchange_in(exchange)
    answer = api.post("exchanges", vhost_in(api, vhost), exchange, "publish", value=value)
    routed = answer.value["routed"]
    if as_json:
        print_json(answer)
    elif routed:
        say(f"published {numbered(len(payload), 'bytes')} to exchange '{name(exchange)}' with key '{routing_key}'")
    if not routed:
        raise Refusal(
            f"exchange '{name(exchange)}' has no queue for key '{routing_key}', the message is lost: "
            + shlex.join(["leveret", "exchanges", "route", exchange, routing_key])
        )


def _body(body: str | None, file: Path | None) -> bytes:
    if body is not None and file is not None:
        raise Misuse("the body is given twice, as an argument and by --file: leave one of them")
    if body is not None:
        return body.encode("utf-8", "surrogateescape")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as problem:
            raise Misuse(f"{file} cannot be read: {problem.strerror}") from None
    return sys.stdin.buffer.read()


def _encoded(payload: bytes) -> Row:
    try:
        return {"payload": payload.decode(), "payload_encoding": "string"}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}


@get_app.command()
@at_broker
def get(
    api: Api,
    queue: str = QUEUE,
    number: int = typer.Option(1, "--count", metavar="N", min=1, help="at most so many"),
    ack: bool = typer.Option(False, "--ack", help="they are gone afterwards"),
    reject: bool = typer.Option(False, "--reject", help="they are dead-lettered, or gone"),
    raw: bool = RAW,
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Take messages from the front of a queue; without --ack or --reject they go back, marked as redelivered."""
    if ack and reject:
        raise Misuse("--ack and --reject cannot both hold: leave one of them")
    mode = "ack_requeue_false" if ack else "reject_requeue_false" if reject else "ack_requeue_true"
    value = {"count": number, "ackmode": mode, "encoding": "auto"}
    answer = api.post("queues", vhost_in(api, vhost), queue, "get", value=value)
    if as_json:
        print_json(answer)
    elif raw:
        _write_bodies(answer.rows)
    else:
        draw(COLUMNS, answer.rows, f"Queue '{queue}' has no message that is ready.")


@browse_app.command()
@at_broker
def browse(
    api: Api,
    queue: str = QUEUE,
    limit: int = typer.Option(20, "--limit", metavar="N", min=1, max=1000, help="at most so many"),
    selector: str | None = typer.Option(
        None, "--selector", metavar="TEXT", help="such as: priority > 3 AND kind = 'a'"
    ),
    contains: str | None = typer.Option(None, "--contains", metavar="TEXT", help="whose bodies have this text"),
    where: str | None = typer.Option(None, "--where", metavar="PATH=VALUE", help="whose JSON has it, as order.id=7"),
    header: list[str] = WITH_HEADER,
    raw: bool = RAW,
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Look at messages without taking them; streams too."""
    pairs([*header, *([where] if where else [])], "--header or --where")
    query: Row = {"limit": limit, "selector": selector, "contains": contains, "json": where}
    query |= {f"headers.{key}": value for key, _, value in (item.partition("=") for item in header)}
    answer = api.get("queues", vhost_in(api, vhost), queue, "messages", query=query)
    if as_json:
        print_json(answer)
        return
    found = answer.value
    if raw:
        _write_bodies(found["messages"])
        return
    draw((Column("id", "id"), *COLUMNS), found["messages"], f"Queue '{queue}' has no such message.")
    if found.get("too_large"):
        sys.stderr.write(f"{numbered(found['too_large'], 'messages')} too large to search.\n")
    if not found.get("is_complete", True):
        seen = found["looked_at"]
        were = "was" if seen == 1 else "were"
        sys.stderr.write(f"{numbered(seen, 'messages')} {were} looked at, and there are more: see --limit.\n")


def _write_bodies(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        is_text = row["payload_encoding"] == "string"
        typer.echo(row["payload"].encode() if is_text else base64.b64decode(row["payload"]))

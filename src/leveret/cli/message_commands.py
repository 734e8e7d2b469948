"""``leveret publish``, ``get`` and ``browse``: single messages over HTTP.

A body that is not UTF-8 is transferred as base64; ``--raw`` writes its bytes.
"""

from __future__ import annotations

import base64
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from leveret.cli.api_client import Answer, Api, Misuse, NotSupported, Refusal, Row
from leveret.cli.broker_options import (
    AS_JSON,
    DEFAULT_EXCHANGE,
    ROUTING_KEY,
    VHOST,
    at_broker,
    did_you_mean,
    exchange_in,
    pairs,
    single_command,
    vhost_in,
)
from leveret.cli.name_completion import names_of
from leveret.cli.output import encoded_payload, print_json, print_line
from leveret.cli.tables import Column, columns, count, name, numbered, print_table

publish_app, get_app, browse_app = single_command(), single_command(), single_command()

QUEUE = typer.Argument(metavar="QUEUE", help="Queue name.", autocompletion=names_of("queues"))
RAW = typer.Option(False, "--raw", help="Print only the bodies, unchanged, each followed by a newline.")
TRANSIENT, PERSISTENT = 1, 2
COLUMNS = (
    Column("exchange", "exchange", name),
    *columns("routing_key", "redelivered"),
    Column("bytes", "payload_bytes", count),
    Column("headers", "properties.headers"),
    Column("body", "payload"),
)
FILE = typer.Option(None, "--file", metavar="FILE", help="Read the body from this file.")
PROPERTY = typer.Option(
    [], "--property", metavar="NAME=VALUE", help="Message property, such as priority=5; repeatable."
)
WITH_HEADER = typer.Option([], "--header", metavar="NAME=VALUE", help="Only messages with this header; repeatable.")
HEADER = typer.Option([], "--header", metavar="NAME=VALUE", help="Header; repeatable. The value is JSON or text.")


@publish_app.command()
@at_broker
def publish(
    api: Api,
    routing_key: str | None = typer.Argument(
        None, metavar="ROUTING_KEY", help="Without --exchange: the name of a queue.", autocompletion=names_of("queues")
    ),
    body: str | None = typer.Argument(None, metavar="[BODY]", help="Message body.  [default: standard input]"),
    exchange: str = typer.Option(
        DEFAULT_EXCHANGE, "--exchange", metavar="NAME", help="Exchange.", autocompletion=names_of("exchanges")
    ),
    key: str | None = ROUTING_KEY,
    file: Path | None = FILE,
    header: list[str] = HEADER,
    property_: list[str] = PROPERTY,
    transient: bool = typer.Option(False, "--transient", help="Transient message (delivery mode 1), lost on restart."),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Publish one message; the exit code is 1 if it is not routed to any queue."""
    routing_key, body = _key_and_body(routing_key, body, key)
    payload = _body(body, file)
    properties = _properties(property_, header, transient)
    value: Row = {"routing_key": routing_key, "properties": properties, **encoded_payload(payload)}
    exchange = exchange_in(exchange)
    answer = api.post("exchanges", vhost_in(api, vhost), exchange, "publish", value=value)
    routed = answer.value["routed"]
    if as_json:
        print_json(answer)
    elif routed:
        size = numbered(len(payload), "bytes")
        print_line(f"published {size} to exchange '{name(exchange)}' with key '{routing_key}'")
    if not routed:
        command = shlex.join(["leveret", "exchanges", "route", exchange, routing_key])
        raise Refusal(
            f"unroutable: exchange '{name(exchange)}' has no queue for key '{routing_key}', the message was dropped; "
            f"to see why: {command}"
        )


def _key_and_body(routing_key: str | None, body: str | None, key: str | None) -> tuple[str, str | None]:
    """With --routing-key, the first argument is the body."""
    if key is None and routing_key is None:
        raise Misuse("the routing key is missing: pass ROUTING_KEY, or --routing-key KEY")
    if key is None:
        return routing_key or "", body
    if body is not None:
        raise Misuse("the routing key is given as an argument and with --routing-key: use only one of them")
    return key, routing_key


def _properties(options: list[str], header: list[str], transient: bool) -> Row:
    given = _known_properties(pairs(options, "--property"))
    if transient and given.get("delivery_mode", TRANSIENT) != TRANSIENT:
        raise Misuse("--transient and --property delivery_mode exclude each other: use only one of them")
    if header and "headers" in given:
        raise Misuse("the headers are given with --header and with --property headers: use only one of them")
    properties: Row = {"delivery_mode": TRANSIENT if transient else PERSISTENT, **given}
    if header:
        properties["headers"] = pairs(header, "--header")
    return properties


def _known_properties(given: Row) -> Row:
    from leveret.wire.properties import LAYOUT

    known = {field for _, field, _, _ in LAYOUT}
    for key in given:
        if key not in known:
            raise Misuse(f"unknown message property in --property {key!r}: {did_you_mean(key, known)}")
    return given


def _body(body: str | None, file: Path | None) -> bytes:
    if body is not None and file is not None:
        raise Misuse("the body is given as an argument and with --file: use only one of them")
    if body is not None:
        return body.encode("utf-8", "surrogateescape")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as problem:
            raise Misuse(f"cannot read {file}: {problem.strerror}") from None
    return sys.stdin.buffer.read()


@get_app.command()
@at_broker
def get(
    api: Api,
    queue: str = QUEUE,
    number: int = typer.Option(1, "--count", metavar="N", min=1, help="Maximum number of messages."),
    ack: bool = typer.Option(False, "--ack", help="Acknowledge: remove the messages from the queue."),
    reject: bool = typer.Option(False, "--reject", help="Reject without requeueing: dead-letter or drop the messages."),
    raw: bool = RAW,
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Get messages from a queue; without --ack or --reject they stay there and are not counted as delivered."""
    if ack and reject:
        raise Misuse("--ack and --reject exclude each other: use only one of them")
    place = vhost_in(api, vhost)
    if ack or reject:
        answer = _got(api, place, queue, number, "ack_requeue_false" if ack else "reject_requeue_false")
        rows = answer.rows
    else:
        rows = _browsed(api, place, queue, number)
    if as_json:
        print_json(answer) if ack or reject else print_line(json.dumps(rows))
    elif raw:
        _write_bodies(rows)
    else:
        print_table(COLUMNS, rows, f"Queue '{queue}' has no ready messages.")


def _got(api: Api, vhost: str, queue: str, number: int, mode: str) -> Answer:
    value = {"count": number, "ackmode": mode, "encoding": "auto"}
    return api.post("queues", vhost, queue, "get", value=value)


def _browsed(api: Api, vhost: str, queue: str, number: int) -> list[Row]:
    """RabbitMQ cannot browse: there, the messages are requeued, which counts as a delivery."""
    from leveret.cli.delivery_limit import QUEUE_COLUMNS, delivery_limit, warn_of_limit
    from leveret.cli.queue_browser import QueueBrowser

    try:
        return [row for rows in QueueBrowser(api, vhost, queue).pages(number, follows=False) for row in rows]
    except NotSupported:
        row = api.get("queues", vhost, queue, query={"columns": QUEUE_COLUMNS}).value
    warn_of_limit(queue, delivery_limit(row))
    rows = _got(api, vhost, queue, number, "ack_requeue_true").rows
    sys.stderr.write(f"{numbered(len(rows), 'messages')} requeued; the broker counts this as a delivery\n")
    return rows


@browse_app.command()
@at_broker
def browse(
    api: Api,
    queue: str = QUEUE,
    limit: int = typer.Option(20, "--limit", metavar="N", min=1, max=1000, help="Maximum number of messages."),
    selector: str | None = typer.Option(
        None, "--selector", metavar="TEXT", help="Only matching messages, such as: priority > 3 AND kind = 'a'"
    ),
    contains: str | None = typer.Option(None, "--contains", metavar="TEXT", help="Only bodies that contain this text."),
    where: str | None = typer.Option(
        None, "--where", metavar="PATH=VALUE", help="Only JSON bodies with this value, such as order.id=7"
    ),
    header: list[str] = WITH_HEADER,
    raw: bool = RAW,
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Browse the messages of a queue or stream without removing them."""
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
    print_table((Column("id", "id"), *COLUMNS), found["messages"], f"No matching messages in queue '{queue}'.")
    if found.get("too_large"):
        sys.stderr.write(f"{numbered(found['too_large'], 'messages')} not searched: too large.\n")
    if not found.get("is_complete", True):
        seen = numbered(found["looked_at"], "messages")
        sys.stderr.write(f"Only the first {seen} examined; to see more, increase --limit.\n")


def _write_bodies(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        is_text = row["payload_encoding"] == "string"
        typer.echo(row["payload"].encode() if is_text else base64.b64decode(row["payload"]))

"""``leveret consume`` and ``leveret tail``: messages as they come, over AMQP, until Ctrl-C.

What is not acknowledged goes back when the command ends. An exchange is followed by a queue of our own, which goes with
the connection and holds no more than a terminal can show.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from leveret.cli.amqp_address import AMQP, amqp_address
from leveret.cli.api_client import Api, Misuse
from leveret.cli.broker_options import ARGUMENTS, VHOST, alone, at_broker, pairs, vhost_in
from leveret.cli.completing import names_of
from leveret.cli.tables import numbered

if TYPE_CHECKING:
    from leveret.cli.amqp_link import AmqpLink
    from leveret.cli.delivery_text import Shown
    from leveret.cli.watching import Watch

consume_app, tail_app = alone(), alone()

STREAM = "stream"
QUEUE = typer.Argument(metavar="QUEUE", help="a queue or stream", autocompletion=names_of("queues"))
OWN_QUEUE: dict[str, Any] = {"x-max-length": 10_000, "x-overflow": "drop-head"}


class Showing(NamedTuple):
    """How messages are shown, until when, and where they come from."""

    most: int | None = typer.Option(None, "--count", metavar="N", min=1, help="end after so many")
    follow: bool = typer.Option(True, "--follow/--no-follow", help="wait for more, or end when nothing more is there")
    as_json: bool = typer.Option(False, "--json", help="a line of JSON each")
    raw: bool = typer.Option(False, "--raw", help="only the bodies, byte for byte, each with an end of line")
    in_hex: bool = typer.Option(False, "--hex", help="bodies by their bytes")
    vhost: str | None = VHOST
    amqp: str | None = AMQP


class Taking(NamedTuple):
    """What is for queues and streams only."""

    ack: bool = typer.Option(False, "--ack", help="they are gone afterwards; without it they go back at the end")
    offset: str | None = typer.Option(
        None, "--offset", metavar="WHERE", help="of a stream: first, last, next or a number  [default: next]"
    )


@consume_app.command()
@at_broker
def consume(api: Api, showing: Showing, taking: Taking, queue: str = QUEUE) -> None:
    """Show the messages of a queue as they come, until Ctrl-C; without --ack they go back at the end."""
    _follow_queue(api, queue, showing, taking)


@tail_app.command()
@at_broker
def tail(
    api: Api,
    showing: Showing,
    taking: Taking,
    queue: str | None = typer.Argument(
        None, metavar="[QUEUE]", help="a queue or stream", autocompletion=names_of("queues")
    ),
    exchange: str | None = typer.Option(
        None, "--exchange", metavar="NAME", help="copies of what it is sent", autocompletion=names_of("exchanges")
    ),
    key: str = typer.Option("#", "--key", metavar="KEY", help="of an exchange: the binding key"),
    argument: list[str] = ARGUMENTS,
) -> None:
    """Show messages as they come: copies of what an exchange is sent, or those of a queue or stream."""
    if (queue is None) == (exchange is None):
        raise Misuse("name either a QUEUE or an --exchange to follow")
    if queue is not None:
        if argument:
            raise Misuse("--argument is for the binding to an exchange: it needs --exchange")
        _follow_queue(api, queue, showing, taking)
    elif exchange is not None:
        if taking.ack or taking.offset is not None:
            raise Misuse("--ack and --offset are for queues: what an exchange is sent is copied, nothing is taken")
        _follow_exchange(api, exchange, key, pairs(argument, "--argument"), showing)


def _follow_queue(api: Api, queue: str, showing: Showing, taking: Taking) -> None:
    from leveret.cli.watching import MOST_HELD, Watch

    row = api.get("queues", vhost_in(api, showing.vhost), queue, query={"columns": "type"}).value
    is_stream = row["type"] == STREAM
    if taking.offset is not None and not is_stream:
        raise Misuse(f"--offset is for streams, and queue '{queue}' is a {row['type']} queue")
    acks = taking.ack or is_stream  # of a stream nothing is taken
    if not acks and showing.most is not None and showing.most > MOST_HELD:
        raise Misuse(f"--count {showing.most} without --ack would hold that many messages: at most {MOST_HELD} can be")
    watch = Watch(queue, acks, False, showing.most, showing.follow, taking.offset)

    async def prepare(link: AmqpLink) -> Watch:
        return watch

    written = _watch(api, showing, prepare)
    if not acks and written:
        full = ", which is as many as can be held: --ack takes more" if written == MOST_HELD else ""
        sys.stderr.write(f"{numbered(written, 'messages')} went back to queue '{queue}'{full}\n")


def _follow_exchange(api: Api, exchange: str, key: str, arguments: dict[str, Any], showing: Showing) -> None:
    from leveret.cli.watching import Watch
    from leveret.wire.methods import QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk

    async def prepare(link: AmqpLink) -> Watch:
        own = await link.call(QueueDeclare(exclusive=True, auto_delete=True, arguments=OWN_QUEUE), QueueDeclareOk)
        await link.call(QueueBind(own.queue, exchange, key, arguments=arguments), QueueBindOk)
        return Watch(own.queue, no_ack=True, most=showing.most, follows=showing.follow)

    _watch(api, showing, prepare)


def _watch(api: Api, showing: Showing, prepare: Callable[[AmqpLink], Awaitable[Watch]]) -> int:
    """How many messages were shown."""
    from leveret.cli.amqp_link import linked
    from leveret.cli.watching import Watcher

    form, vhost = _form(showing), vhost_in(api, showing.vhost)
    address = amqp_address(api, showing.amqp)
    written = 0

    async def run() -> None:
        nonlocal written
        async with linked(api, address, vhost, "consume") as link:
            watcher = Watcher(link, await prepare(link), form, lambda lines: typer.echo(lines, nl=False))
            try:
                await watcher.run()
            finally:
                written = watcher.written

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass  # the usual end
    return written


def _form(showing: Showing) -> Shown:
    from leveret.cli.delivery_text import as_hex_line, as_json_line, as_line, as_raw

    chosen = [
        form
        for is_asked, form in ((showing.as_json, as_json_line), (showing.raw, as_raw), (showing.in_hex, as_hex_line))
        if is_asked
    ]
    if len(chosen) > 1:
        raise Misuse("--json, --raw and --hex are different forms: leave one of them")
    return chosen[0] if chosen else as_line

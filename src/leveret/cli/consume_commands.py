"""``leveret consume`` and ``leveret tail``: print messages as they arrive over AMQP, until Ctrl-C.

Unacknowledged messages are requeued when the command ends. To follow an exchange, an exclusive queue of limited length
is bound to it; the queue is deleted with the connection.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from leveret.cli.amqp_address import AMQP, amqp_address
from leveret.cli.api_client import Api, Misuse
from leveret.cli.broker_options import ARGUMENTS, DEFAULT_EXCHANGE, VHOST, at_broker, pairs, single_command, vhost_in
from leveret.cli.name_completion import names_of
from leveret.cli.tables import numbered

if TYPE_CHECKING:
    from leveret.cli.delivery_text import Shown
    from leveret.cli.message_printer import Source
    from leveret.client import Channel

consume_app, tail_app = single_command(), single_command()

STREAM = "stream"
QUEUE = typer.Argument(metavar="QUEUE", help="Queue or stream.", autocompletion=names_of("queues"))
OWN_QUEUE: dict[str, Any] = {"x-max-length": 10_000, "x-overflow": "drop-head"}


class OutputOptions(NamedTuple):
    """Options of ``consume`` and ``tail``."""

    most: int | None = typer.Option(None, "--count", metavar="N", min=1, help="Exit after N messages.")
    follow: bool = typer.Option(
        True, "--follow/--no-follow", help="Wait for more messages, or exit when there are none."
    )
    as_json: bool = typer.Option(False, "--json", help="Print messages as JSON lines.")
    raw: bool = typer.Option(False, "--raw", help="Print only the bodies, unchanged, each followed by a newline.")
    in_hex: bool = typer.Option(False, "--hex", help="Print bodies in hex.")
    vhost: str | None = VHOST
    amqp: str | None = AMQP


class QueueOptions(NamedTuple):
    """Options for queues and streams, not for exchanges."""

    ack: bool = typer.Option(False, "--ack", help="Acknowledge: remove the messages from the queue.")
    offset: str | None = typer.Option(
        None,
        "--offset",
        metavar="WHERE",
        help="Start offset in a stream: first, last, next or a number.  [default: next]",
    )


@consume_app.command()
@at_broker
def consume(api: Api, showing: OutputOptions, taking: QueueOptions, queue: str = QUEUE) -> None:
    """Consume from a queue and print messages as they arrive, until Ctrl-C; without --ack they are requeued."""
    _follow_queue(api, queue, showing, taking)


@tail_app.command()
@at_broker
def tail(
    api: Api,
    showing: OutputOptions,
    taking: QueueOptions,
    queue: str | None = typer.Argument(
        None, metavar="[QUEUE]", help="Queue or stream.", autocompletion=names_of("queues")
    ),
    exchange: str | None = typer.Option(
        None,
        "--exchange",
        metavar="NAME",
        help="Copy messages published to this exchange.",
        autocompletion=names_of("exchanges"),
    ),
    key: str = typer.Option("#", "--key", "--routing-key", metavar="KEY", help="Binding key, with --exchange."),
    argument: list[str] = ARGUMENTS,
) -> None:
    """Print messages as they arrive: copies from an exchange, or those of a queue or stream."""
    if (queue is None) == (exchange is None):
        raise Misuse("specify either QUEUE or --exchange")
    if queue is not None:
        if argument:
            raise Misuse("--argument is an argument of the binding: it requires --exchange")
        _follow_queue(api, queue, showing, taking)
    elif exchange is not None:
        if taking.ack or taking.offset is not None:
            raise Misuse("--ack and --offset are for queues and streams: from an exchange only copies are consumed")
        _follow_exchange(api, exchange, key, pairs(argument, "--argument"), showing)


def _follow_queue(api: Api, queue: str, showing: OutputOptions, taking: QueueOptions) -> None:
    from leveret.cli.message_printer import MOST_HELD, Source

    row = api.get("queues", vhost_in(api, showing.vhost), queue, query={"columns": "type"}).value
    is_stream = row["type"] == STREAM
    if taking.offset is not None and not is_stream:
        raise Misuse(f"--offset is only for streams: queue '{queue}' is a {row['type']} queue")
    acks = taking.ack or is_stream  # acknowledging does not remove messages from a stream
    if not acks and showing.most is not None and showing.most > MOST_HELD:
        raise Misuse(
            f"--count {showing.most} is too large without --ack: at most {MOST_HELD} messages can be unacknowledged"
        )
    source = Source(queue, acks, False, showing.most, showing.follow, taking.offset)

    async def prepare(channel: Channel) -> Source:
        return source

    written = _print_messages(api, showing, prepare)
    if not acks and written:
        full = ", the maximum without --ack" if written == MOST_HELD else ""
        sys.stderr.write(f"{numbered(written, 'messages')} requeued to queue '{queue}'{full}\n")


def _follow_exchange(api: Api, exchange: str, key: str, arguments: dict[str, Any], showing: OutputOptions) -> None:
    from leveret.cli.message_printer import Source

    if exchange in ("", DEFAULT_EXCHANGE):
        raise Misuse("nothing can be bound to the default exchange: tail a queue, or use 'leveret trace'")

    async def prepare(channel: Channel) -> Source:
        own = await channel.declare_queue(exclusive=True, auto_delete=True, arguments=OWN_QUEUE)
        await channel.bind_queue(own.queue, exchange, key, arguments)
        return Source(own.queue, no_ack=True, most=showing.most, follows=showing.follow)

    _print_messages(api, showing, prepare)


def _print_messages(api: Api, showing: OutputOptions, prepare: Callable[[Channel], Awaitable[Source]]) -> int:
    """The number of messages printed."""
    from leveret.cli.amqp_connection import connected
    from leveret.cli.message_printer import MessagePrinter

    form, vhost = _form(showing), vhost_in(api, showing.vhost)
    address = amqp_address(api, showing.amqp)
    written = 0

    async def run() -> None:
        nonlocal written
        async with connected(api, address, vhost, "consume") as connection:
            channel = await connection.channel()
            printer = MessagePrinter(channel, await prepare(channel), form, lambda lines: typer.echo(lines, nl=False))
            try:
                await printer.run()
            finally:
                written = printer.written

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass  # the usual way to stop
    return written


def _form(showing: OutputOptions) -> Shown:
    from leveret.cli.delivery_text import as_hex_line, as_json_line, as_line, as_raw

    chosen = [
        form
        for is_asked, form in ((showing.as_json, as_json_line), (showing.raw, as_raw), (showing.in_hex, as_hex_line))
        if is_asked
    ]
    if len(chosen) > 1:
        raise Misuse("--json, --raw and --hex exclude each other: use only one of them")
    return chosen[0] if chosen else as_line

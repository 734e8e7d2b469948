"""``leveret consume`` and ``leveret tail``: print messages as they arrive, until Ctrl-C.

Unless messages are to be acknowledged or taken, a queue is browsed over HTTP (queue_browser.py) and does not change.
RabbitMQ cannot browse: there, ``consume`` requeues what it consumed, which the broker counts as a delivery. Streams and
exchanges are consumed over AMQP: reading a stream changes nothing, and to follow an exchange, an exclusive queue of
limited length is bound to it, which is deleted with the connection.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from leveret.cli.amqp_address import AMQP, amqp_address
from leveret.cli.api_client import Api, Misuse, NotSupported, Row
from leveret.cli.broker_options import ARGUMENTS, DEFAULT_EXCHANGE, VHOST, at_broker, pairs, single_command, vhost_in
from leveret.cli.delivery_limit import QUEUE_COLUMNS, delivery_limit, warn_of_limit
from leveret.cli.name_completion import names_of
from leveret.cli.tables import numbered

if TYPE_CHECKING:
    from leveret.cli.delivery_text import Shown
    from leveret.cli.message_printer import MessagePrinter, Source
    from leveret.cli.queue_browser import QueueBrowser
    from leveret.client import Channel

consume_app, tail_app = single_command(), single_command()

STREAM = "stream"
QUEUE = typer.Argument(metavar="QUEUE", help="Queue or stream.", autocompletion=names_of("queues"))
OWN_QUEUE: dict[str, Any] = {"x-max-length": 10_000, "x-overflow": "drop-head"}


class Form(NamedTuple):
    """The format of a message, and how many bytes of its body it needs."""

    shown: Shown
    truncate: int


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
    """Print the messages of a queue as they arrive, until Ctrl-C; without --ack they stay in the queue."""
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
    key: str | None = typer.Option(
        None, "--routing-key", metavar="KEY", help="Binding key, with --exchange.  [default: #]"
    ),
    old_key: str | None = typer.Option(None, "--key", hidden=True),
    take: bool = typer.Option(
        False, "--take", help="Consume the messages and requeue them at the end; the broker counts a delivery."
    ),
    argument: list[str] = ARGUMENTS,
) -> None:
    """Print messages as they arrive: copies from an exchange, or those of a queue or stream, which stay there."""
    if (queue is None) == (exchange is None):
        raise Misuse("specify either QUEUE or --exchange")
    if queue is not None:
        if argument:
            raise Misuse("--argument is an argument of the binding: it requires --exchange")
        if key is not None or old_key is not None:
            raise Misuse("--routing-key is the key of the binding: it requires --exchange")
        _follow_queue(api, queue, showing, taking, takes=take)
    elif exchange is not None:
        if taking.ack or take or taking.offset is not None:
            raise Misuse(
                "--ack, --take and --offset are for queues and streams: from an exchange only copies are consumed"
            )
        _follow_exchange(api, exchange, key or old_key or "#", pairs(argument, "--argument"), showing)


def _follow_queue(
    api: Api, queue: str, showing: OutputOptions, taking: QueueOptions, takes: bool | None = None
) -> None:
    """``takes``: requeue instead of browsing; None: only if the broker cannot browse."""
    row = api.get("queues", vhost_in(api, showing.vhost), queue, query={"columns": QUEUE_COLUMNS}).value
    is_stream = row["type"] == STREAM
    if taking.offset is not None and not is_stream:
        raise Misuse(f"--offset is only for streams: queue '{queue}' is a {row['type']} queue")
    if taking.ack or is_stream:  # acknowledging does not remove messages from a stream
        _consume_queue(api, queue, showing, offset=taking.offset)
        return
    if not takes:
        try:
            _browse_queue(api, queue, showing)
            return
        except NotSupported:
            if takes is not None:
                raise Misuse(
                    f"the broker at {api.address.url} cannot browse queues: use --take, or --exchange for copies"
                ) from None
    _take_queue(api, queue, showing, row)


def _browse_queue(api: Api, queue: str, showing: OutputOptions) -> None:
    from leveret.cli.delivery_text import of_row
    from leveret.cli.queue_browser import QueueBrowser

    form = _form(showing)
    browser = QueueBrowser(api, vhost_in(api, showing.vhost), queue, form.truncate)
    try:
        for rows in browser.pages(showing.most, showing.follow):
            typer.echo(b"".join(form.shown(of_row(row)) for row in rows), nl=False)
    except KeyboardInterrupt:
        pass  # the usual way to stop
    _report_browsed(browser, queue)


def _report_browsed(browser: QueueBrowser, queue: str) -> None:
    sys.stderr.write(f"{numbered(browser.shown, 'messages')} shown, no messages were consumed from queue '{queue}'\n")
    if browser.missed:
        sys.stderr.write(
            f"{numbered(browser.missed, 'messages')} not shown: consumed or removed before they could be browsed; "
            "'leveret tail --exchange' gets copies of all messages\n"
        )


def _consume_queue(api: Api, queue: str, showing: OutputOptions, offset: str | None) -> None:
    from leveret.cli.message_printer import Source

    async def prepare(channel: Channel) -> Source:
        return Source(queue, True, False, showing.most, showing.follow, offset)

    _print_messages(api, showing, prepare)


def _take_queue(api: Api, queue: str, showing: OutputOptions, row: Row) -> None:
    """Consume without acknowledging: the messages are requeued when the connection is closed."""
    from leveret.cli.message_printer import MOST_HELD, Source

    if showing.most is not None and showing.most > MOST_HELD:
        raise Misuse(
            f"--count {showing.most} is too large without --ack: at most {MOST_HELD} messages can be unacknowledged"
        )
    limit = delivery_limit(row)
    warn_of_limit(queue, limit)

    async def prepare(channel: Channel) -> Source:
        return Source(queue, most=showing.most, follows=showing.follow, delivery_limit=limit)

    printer = _print_messages(api, showing, prepare)
    if printer is not None and printer.written:
        _report_taken(printer, queue)


def _report_taken(printer: MessagePrinter, queue: str) -> None:
    from leveret.cli.message_printer import MOST_HELD

    full = ", the maximum without --ack" if printer.written == MOST_HELD else ""
    back = printer.written - printer.discarded
    if back:
        shown = numbered(back, "messages")
        sys.stderr.write(f"{shown} requeued to queue '{queue}'{full}; the broker counts this as a delivery\n")
    if printer.discarded:
        lost = numbered(printer.discarded, "messages")
        sys.stderr.write(
            f"{lost} exceeded the delivery limit: dead-lettered, or dropped without a dead letter exchange\n"
        )


def _follow_exchange(api: Api, exchange: str, key: str, arguments: dict[str, Any], showing: OutputOptions) -> None:
    from leveret.cli.message_printer import Source

    if exchange in ("", DEFAULT_EXCHANGE):
        raise Misuse("nothing can be bound to the default exchange: tail a queue, or use 'leveret trace'")

    async def prepare(channel: Channel) -> Source:
        own = await channel.declare_queue(exclusive=True, auto_delete=True, arguments=OWN_QUEUE)
        await channel.bind_queue(own.queue, exchange, key, arguments)
        return Source(own.queue, no_ack=True, most=showing.most, follows=showing.follow)

    _print_messages(api, showing, prepare)


def _print_messages(
    api: Api, showing: OutputOptions, prepare: Callable[[Channel], Awaitable[Source]]
) -> MessagePrinter | None:
    """None if it was interrupted before the first message could arrive."""
    from leveret.cli.amqp_connection import connected
    from leveret.cli.message_printer import MessagePrinter

    form, vhost = _form(showing).shown, vhost_in(api, showing.vhost)
    address = amqp_address(api, showing.amqp)
    printer: MessagePrinter | None = None

    async def run() -> None:
        nonlocal printer
        async with connected(api, address, vhost, "consume") as connection:
            channel = await connection.channel()
            printer = MessagePrinter(channel, await prepare(channel), form, lambda lines: typer.echo(lines, nl=False))
            await printer.run()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass  # the usual way to stop
    return printer


def _form(showing: OutputOptions) -> Form:
    from leveret.cli.delivery_text import SHORT, as_hex_line, as_json_line, as_line, as_raw, as_short_line
    from leveret.cli.queue_browser import WHOLE

    chosen = [
        Form(shown, WHOLE)
        for is_asked, shown in ((showing.as_json, as_json_line), (showing.raw, as_raw), (showing.in_hex, as_hex_line))
        if is_asked
    ]
    if len(chosen) > 1:
        raise Misuse("--json, --raw and --hex exclude each other: use only one of them")
    line = Form(as_short_line, SHORT) if sys.stdout.isatty() else Form(as_line, WHOLE)
    return chosen[0] if chosen else line

"""``leveret bench``: a load generator that also checks that no message is lost, duplicated, reordered or changed.

It declares a queue and deletes it at the end; if this process is killed, the queue expires.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from leveret.cli.amqp_address import AMQP, amqp_address
from leveret.cli.api_client import Address, Api, Misuse, Refusal
from leveret.cli.broker_options import VHOST, at_broker, single_command, vhost_in
from leveret.cli.event_loop import loop_factory
from leveret.cli.output import print_line
from leveret.cli.tables import columns, count, numbered, print_facts

if TYPE_CHECKING:
    from leveret.cli.bench_load import Load, Progress, Result
    from leveret.client import Channel

app = single_command()

SMALLEST, LARGEST = 16, 64 << 20
QUEUE_EXPIRES_MS = 60_000  # if this process is killed, the broker deletes the queue after this time
STREAM = "stream"


def per_second(value: Any) -> str:
    return f"{value:,.0f}/s"


def milliseconds(value: Any) -> str:
    return "-" if value is None else f"{value * 1000:,.2f} ms"


FACTS = (
    *columns("published", "consumed", "confirmed", shown=count),
    *columns("publish_rate", "consume_rate", shown=per_second),
    *columns(shown=milliseconds, latency_p50="p50", latency_p99="p99"),
)
WRONG = ("lost", "twice", "changed", "disordered", "refused")


class LoadOptions(NamedTuple):
    """The options that describe the load."""

    size: int = typer.Option(100, "--size", metavar="BYTES", min=SMALLEST, max=LARGEST, help="Body size.")
    seconds: float = typer.Option(10.0, "--seconds", metavar="N", min=0.1, help="How long to publish.")
    publishers: int = typer.Option(
        1, "--publishers", metavar="N", min=1, max=1000, help="Number of publishers, one connection each."
    )
    consumers: int = typer.Option(
        1, "--consumers", metavar="N", min=0, max=1000, help="Number of consumers, one connection each."
    )
    rate: float | None = typer.Option(
        None, "--rate", metavar="N", min=0.1, help="Limit of messages per second, all publishers together."
    )
    confirms: bool = typer.Option(False, "--confirms", help="Use publisher confirms.")
    durable: bool = typer.Option(False, "--durable", help="Use a durable queue and persistent messages.")
    auto_ack: bool = typer.Option(False, "--auto-ack", help="Consume in automatic acknowledgement mode.")


@app.command()
@at_broker
def bench(
    api: Api,
    options: LoadOptions,
    queue: str | None = typer.Option(
        None, "--queue", metavar="NAME", help="Use this queue; it must be empty and unused."
    ),
    vhost: str | None = VHOST,
    amqp: str | None = AMQP,
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Measure throughput and latency; the exit code is 1 if a message is lost, duplicated, reordered or changed."""
    from leveret.cli.bench_load import Load

    load, place = Load(**options._asdict()), vhost_in(api, vhost)
    is_there = queue is not None and _is_usable(api, place, queue)
    address = amqp_address(api, amqp)
    with _live_line() as tick:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            result = runner.run(_run(api, address, place, load, queue, is_there, tick))
    values = result._asdict() | {"is_sound": result.is_sound}
    if as_json:
        print_line(json.dumps(values))
    else:
        print_facts([column for column in FACTS if options.confirms or column.path != "confirmed"], values)
    if not result.is_sound:
        wrong = ", ".join(f"{values[name]} {name}" for name in WRONG if values[name])
        raise Refusal(f"of {numbered(result.published, 'messages')} published: {wrong}; check the broker's log")
    if not as_json:
        print_line("all messages arrived once, in order and unchanged")


def _is_usable(api: Api, vhost: str, queue: str) -> bool:
    """Whether the queue exists. A queue with messages or consumers, or a stream, is refused."""
    if not api.exists("queues", vhost, queue):
        return False
    row = api.get("queues", vhost, queue).value
    if row["type"] == STREAM:
        raise Misuse(f"queue '{queue}' is a stream, and streams keep all messages: use a classic or quorum queue")
    if row.get("messages") or row.get("consumers"):
        raise Misuse(
            f"queue '{queue}' in vhost '{vhost}' has {numbered(row.get('messages') or 0, 'messages')} and "
            f"{numbered(row.get('consumers') or 0, 'consumers')}: use an empty, unused queue, or omit --queue"
        )
    return True


async def _run(
    api: Api,
    address: Address,
    vhost: str,
    load: Load,
    queue: str | None,
    is_there: bool,
    tick: Callable[[Progress], None],
) -> Result:
    from leveret.cli.amqp_connection import connected
    from leveret.cli.bench_frames import LoadConnection, sample
    from leveret.cli.bench_load import LoadRun

    async with AsyncExitStack() as stack:

        async def channels(number: int) -> list[Channel]:
            each = [connected(api, address, vhost, "bench", LoadConnection) for _ in range(number)]
            return [await (await stack.enter_async_context(connection)).channel() for connection in each]

        (keeper,) = await channels(1)
        publishing, consuming = await channels(load.publishers), await channels(load.consumers)
        name = queue or f"leveret.bench.{secrets.token_hex(6)}"
        async with _queue(keeper, name, load, is_there):
            like = sample(name, load.size, load.durable, keeper.connection.frame_max)
            return await LoadRun(load, like, tick).run(publishing, consuming)


@asynccontextmanager
async def _queue(keeper: Channel, name: str, load: Load, is_there: bool) -> AsyncIterator[None]:
    """Declare and delete the queue of the load; an existing queue is purged instead of deleted."""
    if not is_there:
        await keeper.declare_queue(name, durable=load.durable, arguments={"x-expires": QUEUE_EXPIRES_MS})
    try:
        yield
    finally:
        if is_there:
            await keeper.purge_queue(name)
        else:
            await keeper.delete_queue(name)


@contextmanager
def _live_line() -> Iterator[Callable[[Progress], None]]:
    """Live rates on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    last = (0.0, 0, 0)
    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:

        def tick(progress: Progress) -> None:
            nonlocal last
            seconds = max(progress.seconds - last[0], 1e-9)
            published, consumed = (progress.published - last[1]) / seconds, (progress.consumed - last[2]) / seconds
            last = (progress.seconds, progress.published, progress.consumed)
            line = (
                f"{progress.seconds:.0f} s  published {per_second(published)}  consumed {per_second(consumed)}  "
                f"latency p50 {milliseconds(progress.p50)}  latency p99 {milliseconds(progress.p99)}"
            )
            live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

        yield tick

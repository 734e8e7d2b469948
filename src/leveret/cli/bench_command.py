"""``leveret bench``: how fast a broker is, measured with its own protocol, and whether it loses or changes anything.

A queue of its own is made for the load and deleted at the end; should this process die before, it expires by itself.
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

from leveret.cli.amqp_address import AMQP, AmqpAddress, amqp_address
from leveret.cli.api_client import Api, Misuse, Refusal
from leveret.cli.broker_options import VHOST, alone, at_broker, vhost_in
from leveret.cli.event_loop import loop_factory
from leveret.cli.printing import say
from leveret.cli.tables import Column, count, facts, numbered

if TYPE_CHECKING:
    from leveret.cli.amqp_link import AmqpLink
    from leveret.cli.bench_load import Load, Progress, Result

app = alone()

SMALLEST, LARGEST = 16, 64 << 20
LEFT_BEHIND_MS = 60_000  # a queue whose bench died is deleted after that
STREAM = "stream"


def per_second(value: Any) -> str:
    return f"{value:,.0f}/s"


def milliseconds(value: Any) -> str:
    return "-" if value is None else f"{value * 1000:,.2f} ms"


FACTS = (
    Column("published", "published", count),
    Column("consumed", "consumed", count),
    Column("confirmed", "confirmed", count),
    Column("publish rate", "publish_rate", per_second),
    Column("consume rate", "consume_rate", per_second),
    Column("latency, half below", "p50", milliseconds),
    Column("latency, 99 % below", "p99", milliseconds),
)
WRONG = ("lost", "twice", "changed", "disordered", "refused")


class Asked(NamedTuple):
    """The load, as options."""

    size: int = typer.Option(100, "--size", metavar="BYTES", min=SMALLEST, max=LARGEST, help="of a body")
    seconds: float = typer.Option(10.0, "--seconds", metavar="N", min=0.1, help="how long to publish")
    publishers: int = typer.Option(1, "--publishers", metavar="N", min=1, max=1000, help="each with a connection")
    consumers: int = typer.Option(1, "--consumers", metavar="N", min=0, max=1000, help="each with a connection")
    rate: float | None = typer.Option(None, "--rate", metavar="N", min=0.1, help="messages a second, of all together")
    confirms: bool = typer.Option(False, "--confirms", help="publishers wait for confirms")
    durable: bool = typer.Option(False, "--durable", help="a durable queue and persistent messages")
    auto_ack: bool = typer.Option(False, "--auto-ack", help="consumers send no acks")


@app.command()
@at_broker
def bench(
    api: Api,
    asked: Asked,
    queue: str | None = typer.Option(None, "--queue", metavar="NAME", help="this one, if it is empty and unused"),
    vhost: str | None = VHOST,
    amqp: str | None = AMQP,
    as_json: bool = typer.Option(False, "--json", help="the result as JSON"),
) -> None:
    """Put a broker under load and say how fast it is; exit code 1 if a message is lost or not as it was sent."""
    from leveret.cli.bench_load import Load

    load, place = Load(**asked._asdict()), vhost_in(api, vhost)
    is_there = queue is not None and _is_usable(api, place, queue)
    address = amqp_address(api, amqp)
    with _live_line() as tick:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            result = runner.run(_run(api, address, place, load, queue, is_there, tick))
    told = result._asdict() | {"is_sound": result.is_sound}
    if as_json:
        say(json.dumps(told))
    else:
        facts([column for column in FACTS if asked.confirms or column.path != "confirmed"], told)
    if not result.is_sound:
        wrong = ", ".join(f"{told[name]} {name}" for name in WRONG if told[name])
        raise Refusal(f"of {numbered(result.published, 'messages')} published: {wrong}; look at the log of the broker")
    if not as_json:
        say("nothing is lost or changed")


def _is_usable(api: Api, vhost: str, queue: str) -> bool:
    """Whether the queue is there, and fit for it; if it is not there it will be made."""
    if not api.exists("queues", vhost, queue):
        return False
    row = api.get("queues", vhost, queue).value
    if row["type"] == STREAM:
        raise Misuse(f"queue '{queue}' is a stream, which keeps what it is given: name a classic or quorum queue")
    if row.get("messages") or row.get("consumers"):
        raise Misuse(
            f"queue '{queue}' in vhost '{vhost}' has {numbered(row.get('messages') or 0, 'messages')} and "
            f"{numbered(row.get('consumers') or 0, 'consumers')}: name one that is empty and unused, or none"
        )
    return True


async def _run(
    api: Api,
    address: AmqpAddress,
    vhost: str,
    load: Load,
    queue: str | None,
    is_there: bool,
    tick: Callable[[Progress], None],
) -> Result:
    from leveret.cli.amqp_link import linked
    from leveret.cli.bench_frames import sample
    from leveret.cli.bench_load import LoadRun

    async with AsyncExitStack() as stack:

        async def links(number: int) -> list[AmqpLink]:
            each = [linked(api, address, vhost, "bench") for _ in range(number)]
            return [await stack.enter_async_context(link) for link in each]

        (keeper,) = await links(1)
        publishing, consuming = await links(load.publishers), await links(load.consumers)
        name = queue or f"leveret.bench.{secrets.token_hex(6)}"
        async with _queue(keeper, name, load, is_there):
            like = sample(name, load.size, load.durable, keeper.frame_max)
            return await LoadRun(load, like, tick).run(publishing, consuming)


@asynccontextmanager
async def _queue(keeper: AmqpLink, name: str, load: Load, is_there: bool) -> AsyncIterator[None]:
    """One that was there before is left as it was found, empty; ours goes."""
    from leveret.wire.methods import (
        QueueDeclare,
        QueueDeclareOk,
        QueueDelete,
        QueueDeleteOk,
        QueuePurge,
        QueuePurgeOk,
    )

    if not is_there:
        own = QueueDeclare(name, durable=load.durable, arguments={"x-expires": LEFT_BEHIND_MS})
        await keeper.call(own, QueueDeclareOk)
    try:
        yield
    finally:
        if is_there:
            await keeper.call(QueuePurge(name), QueuePurgeOk)
        else:
            await keeper.call(QueueDelete(name), QueueDeleteOk)


@contextmanager
def _live_line() -> Iterator[Callable[[Progress], None]]:
    """For whoever sits at a terminal."""
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
                f"p50 {milliseconds(progress.p50)}  p99 {milliseconds(progress.p99)}"
            )
            live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

        yield tick

"""Python clients of AMQP, each used in the fast way that its own documentation shows: publish with confirms, consume
with an ack for each message. A measure runs in a process of its own:

    python -m benchmarks.clients.measures blocking-publish amqp://localhost 10000
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

QUEUE = "benchmark of clients"
BODY = bytes(100)
WINDOW = 1_000  # messages that are not confirmed yet, or not acked


class Watch:
    """Runs from the first message to the last answer."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds = time.perf_counter() - begun


Measure = Callable[[str, int, Watch], None]
AsyncMeasure = Callable[[str, int, Watch], Coroutine[None, None, None]]


def on_a_loop(measure: AsyncMeasure) -> Measure:
    return lambda url, count, watch: asyncio.run(measure(url, count, watch))


# ---- leveret.client, asyncio


async def asyncio_one_by_one(url: str, count: int, watch: Watch) -> None:
    from leveret.client import connect

    async with await connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(QUEUE)
        await channel.confirm_select()
        with watch.running():
            for _ in range(count):
                await channel.publish(BODY, routing_key=QUEUE)


async def asyncio_publish(url: str, count: int, watch: Watch) -> None:
    from leveret.client import connect

    async with await connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(QUEUE)
        await channel.confirm_select()
        open_: deque[asyncio.Future[None]] = deque()
        with watch.running():
            for _ in range(count):
                confirm = channel.send(BODY, routing_key=QUEUE)
                assert confirm is not None
                open_.append(confirm)
                if len(open_) > WINDOW:
                    await open_.popleft()
            for confirm in open_:
                await confirm


async def asyncio_consume(url: str, count: int, watch: Watch) -> None:
    from leveret.client import connect

    async with await connect(url) as connection:
        channel = await connection.channel()
        await channel.qos(WINDOW)
        with watch.running():
            left = count
            consumer = await channel.consume(QUEUE)
            async for message in consumer:
                message.ack()
                left -= 1
                if not left:
                    break
            await consumer.cancel()


# ---- leveret.client, blocking


def blocking_one_by_one(url: str, count: int, watch: Watch) -> None:
    from leveret.client import blocking

    with blocking.connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue(QUEUE)
        channel.confirm_select()
        with watch.running():
            for _ in range(count):
                channel.publish(BODY, routing_key=QUEUE)


def blocking_publish(url: str, count: int, watch: Watch) -> None:
    from leveret.client import blocking

    with blocking.connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue(QUEUE)
        channel.confirm_select()
        open_: deque[blocking.Answer[None]] = deque()
        with watch.running():
            for _ in range(count):
                confirm = channel.send(BODY, routing_key=QUEUE)
                assert confirm is not None
                open_.append(confirm)
                if len(open_) > WINDOW:
                    open_.popleft().result()
            for confirm in open_:
                confirm.result()


def blocking_consume(url: str, count: int, watch: Watch) -> None:
    from leveret.client import blocking

    with blocking.connect(url) as connection:
        channel = connection.channel()
        channel.qos(WINDOW)
        with watch.running():
            left = count
            consumer = channel.consume(QUEUE)
            for message in consumer:
                message.ack()
                left -= 1
                if not left:
                    break
            consumer.cancel()


# ---- pika


def pika_publish(url: str, count: int, watch: Watch) -> None:
    """A blocking connection waits for the confirm of each message; it has no other way."""
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare(QUEUE)
    channel.confirm_delivery()
    with watch.running():
        for _ in range(count):
            channel.basic_publish("", QUEUE, BODY)
    connection.close()


def pika_consume(url: str, count: int, watch: Watch) -> None:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=WINDOW)
    left = count

    def take(channel: pika.channel.Channel, method: pika.spec.Basic.Deliver, *_: object) -> None:
        nonlocal left
        channel.basic_ack(method.delivery_tag)
        left -= 1
        if not left:
            channel.stop_consuming()

    with watch.running():
        channel.basic_consume(QUEUE, take)
        channel.start_consuming()
    connection.close()


# ---- aio-pika


async def aio_pika_one_by_one(url: str, count: int, watch: Watch) -> None:
    import aio_pika

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(QUEUE)
        with watch.running():
            for _ in range(count):
                await channel.default_exchange.publish(aio_pika.Message(BODY), QUEUE)


async def aio_pika_publish(url: str, count: int, watch: Watch) -> None:
    import aio_pika

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue(QUEUE)
        publish = channel.default_exchange.publish
        with watch.running():
            for start in range(0, count, WINDOW):
                burst = min(WINDOW, count - start)
                await asyncio.gather(*(publish(aio_pika.Message(BODY), QUEUE) for _ in range(burst)))


async def aio_pika_consume(url: str, count: int, watch: Watch) -> None:
    import aio_pika

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=WINDOW)
        queue = await channel.declare_queue(QUEUE)
        left = count
        with watch.running():
            async with queue.iterator() as messages:
                async for message in messages:
                    await message.ack()
                    left -= 1
                    if not left:
                        break


MEASURES: dict[str, Measure] = {
    "blocking-one": blocking_one_by_one,
    "blocking-publish": blocking_publish,
    "blocking-consume": blocking_consume,
    "pika-publish": pika_publish,
    "pika-consume": pika_consume,
    "asyncio-one": on_a_loop(asyncio_one_by_one),
    "asyncio-publish": on_a_loop(asyncio_publish),
    "asyncio-consume": on_a_loop(asyncio_consume),
    "aio-pika-one": on_a_loop(aio_pika_one_by_one),
    "aio-pika-publish": on_a_loop(aio_pika_publish),
    "aio-pika-consume": on_a_loop(aio_pika_consume),
}


def main() -> None:
    name, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    watch = Watch()
    MEASURES[name](url, count, watch)
    print(json.dumps({"rate": count / watch.seconds, "seconds": watch.seconds, "messages": count}))


if __name__ == "__main__":
    main()

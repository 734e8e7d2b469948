"""How long a node takes to open a data directory: what a take-over or a restart waits for.

    python -m benchmarks.take_over [--queues 10000] [--messages 1000000] [--bytes 200] [--run 10]

Writes the messages to a temporary directory, then opens it with a checkpoint and without one. Prints for each step the
seconds of the clock and of the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from leveret.broker.broker import Broker
from leveret.broker.publishes import write_run
from leveret.broker.restoration import open_streams, restore_definitions, restore_messages, restore_streams
from leveret.cli.serve import collect_garbage_rarely
from leveret.clock import Clock
from leveret.config import Settings
from leveret.message import PERSISTENT, Address, Message
from leveret.node import Node
from leveret.store.store import Store

SEGMENT = 64 << 20


async def fill(folder: Path, queues: int, messages: int, size: int, run_length: int) -> None:
    node = Node(Settings(data_dir=folder, amqp_port=None, http_port=None, shutdown_timeout=60.0))
    await node.start()
    broker, vhost = node.broker, node.broker.vhost("/")
    made = [vhost.declare_queue(f"queue {n}", durable=True, arguments={}) for n in range(queues)]
    address, content = Address("", "key", 1, 131072), bytes(size)
    for first in range(0, messages, queues * run_length):
        for place, queue in enumerate(made):
            left = messages - first - place * run_length
            run: list[Message] = [(content, address, PERSISTENT)] * min(run_length, left)
            if run:
                write_run([queue], broker.log, run, size * len(run), False)
            if place % 500 == 499:
                broker.tick()
                while broker.last_granted < broker.log.issued:
                    await asyncio.sleep(0.001)
    await node.stop()


@contextmanager
def timed(name: str) -> Iterator[None]:
    begun, used = time.perf_counter(), time.process_time()
    yield
    print(f"  {name:24} {time.perf_counter() - begun:6.2f} s, CPU {time.process_time() - used:6.2f} s")


def open_directory(folder: Path) -> None:
    clock = Clock()
    store = Store(folder, segment_size=SEGMENT, synced=True, clock=clock)
    broker = Broker(
        node_name="take-over",
        clock=clock,
        log=store.journal,
        memory_high_watermark=4 << 30,
        pages=store.pages,
        stream_disk=store.disk,
    )
    with timed("all of it"):
        with timed("Store.open"):
            opened = store.open()
        with timed("restore_definitions"), broker.unrecorded():
            restore_definitions(broker, opened.definitions, "guest", "guest")
        with timed("open_streams"):
            open_streams(broker)
        with timed("adopt, restore_messages"):
            lanes = store.adopt(opened.recovered)
            number = restore_streams(broker, lanes) + restore_messages(broker, lanes)
    print(f"  {number} messages, {len(opened.definitions.queues)} queues, read {opened.recovered.bytes_read} bytes")
    store.abandon()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--queues", type=int, default=10_000)
    options.add_argument("--messages", type=int, default=1_000_000)
    options.add_argument("--bytes", type=int, default=200)
    options.add_argument("--run", type=int, default=10, help="messages that are published together")
    chosen = options.parse_args()
    collect_garbage_rarely()
    with TemporaryDirectory() as name:
        folder = Path(name) / "data"
        with timed("write"):
            asyncio.run(fill(folder, chosen.queues, chosen.messages, chosen.bytes, chosen.run))
        print("with a checkpoint:")
        open_directory(folder)
        for path in (folder / "journal").glob("*.checkpoint"):
            print(f"  checkpoint of {path.stat().st_size} bytes removed")
            path.unlink()
        print("without a checkpoint:")
        open_directory(folder)


if __name__ == "__main__":
    main()

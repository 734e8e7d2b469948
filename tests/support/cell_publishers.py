"""Publishers of several client libraries, each in a thread, which reconnect by the ordinary means of their library.

Each publishes numbers as persistent messages to a durable queue of its own name, in order, and the same number again
until it is confirmed. ``confirmed`` has those that were.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import aio_pika
import kombu
import pika
from pika.exceptions import AMQPError

from leveret.client import Properties, blocking
from tests.support.cell_celery import make_cell_app
from tests.support.cell_node import until

REPOSITORY = Path(__file__).resolve().parents[2]
PAUSE = 0.01  # seconds between two messages


class Publisher(threading.Thread):
    """``urls``: of the nodes, in the order in which they are tried."""

    def __init__(self, urls: list[str]) -> None:
        super().__init__(name=type(self).__name__.lower(), daemon=True)
        self.urls = urls
        self.confirmed: list[int] = []
        self.problem: BaseException | None = None
        self._is_ending = threading.Event()

    def run(self) -> None:
        try:
            while not self._is_ending.is_set():
                self.publish_while_connected()
        except BaseException as problem:  # the test reports it
            self.problem = problem

    def publish_while_connected(self) -> None:
        """Returns when the connection is lost, or at the end."""
        raise NotImplementedError

    def publish_all(self, send: Callable[[bytes], object]) -> None:
        while not self._is_ending.wait(PAUSE):
            number = len(self.confirmed)
            send(str(number).encode())
            self.confirmed.append(number)

    def await_progress(self, messages: int, seconds: float) -> None:
        wanted = len(self.confirmed) + messages
        until(lambda: len(self.confirmed) >= wanted or self.problem, seconds, lambda: f"{self.name} does not go on")
        assert self.problem is None, f"{self.name}: {self.problem!r}"

    def end(self) -> None:
        self._is_ending.set()
        self.join(60)
        assert self.problem is None, f"{self.name}: {self.problem!r}"


class Pika(Publisher):
    def publish_while_connected(self) -> None:
        try:
            connection = pika.BlockingConnection([pika.URLParameters(url) for url in self.urls])
        except AMQPError:
            return
        channel = connection.channel()
        persistent = pika.BasicProperties(delivery_mode=2)
        try:
            channel.queue_declare(self.name, durable=True)
            channel.confirm_delivery()
            self.publish_all(lambda body: channel.basic_publish("", self.name, body, persistent))
            connection.close()
        except AMQPError:
            return


class Kombu(Publisher):
    def publish_while_connected(self) -> None:
        queue = kombu.Queue(self.name, durable=True)
        policy = {"max_retries": 100, "interval_start": 0.1, "interval_max": 0.3}
        with kombu.Connection(";".join(self.urls), transport_options={"confirm_publish": True}) as connection:
            with connection.Producer() as producer:
                self.publish_all(
                    lambda body: producer.publish(
                        body, routing_key=self.name, declare=[queue], retry=True, retry_policy=policy
                    )
                )


class AioPika(Publisher):
    """A robust connection has one address: the first one."""

    def publish_while_connected(self) -> None:
        asyncio.run(self._publish())

    async def _publish(self) -> None:
        connection = await aio_pika.connect_robust(self.urls[0], reconnect_interval=0.2)
        async with connection:
            channel = await connection.channel()
            await channel.declare_queue(self.name, durable=True)
            while not self._is_ending.is_set():
                number = len(self.confirmed)
                message = aio_pika.Message(str(number).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                try:
                    await channel.default_exchange.publish(message, self.name)
                except (aio_pika.exceptions.AMQPException, OSError, RuntimeError):
                    await asyncio.sleep(PAUSE)
                    continue
                self.confirmed.append(number)
                await asyncio.sleep(PAUSE)


class Leveret(Publisher):
    """It is given one node, and learns the others from it."""

    def publish_while_connected(self) -> None:
        with blocking.connect(f"failover:({self.urls[0]})?maxReconnectDelay=300") as connection:
            channel, persistent = connection.channel(), Properties(delivery_mode=2)
            channel.declare_queue(self.name, durable=True)
            channel.confirm_select()
            self.publish_all(lambda body: channel.publish(body, routing_key=self.name, properties=persistent))


class CeleryTasks(Publisher):
    """Tasks that write their numbers into a file, with acks_late, and the worker that runs them."""

    def __init__(self, urls: list[str], folder: Path) -> None:
        super().__init__(urls)
        self._lines, self._log = folder / "lines", folder / "worker.log"
        self._lines.touch()
        self._app = make_cell_app(";".join(urls))
        command = [sys.executable, "-m", "celery", "-A", "tests.support.cell_celery", "worker", "-P", "solo"]
        with self._log.open("wb") as output:
            self._worker = subprocess.Popen(
                [*command, "-l", "INFO", "-n", "cell@test", "--without-mingle", "--without-gossip"],
                cwd=REPOSITORY,
                env=os.environ | {"CELL_BROKER": ";".join(urls)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def publish_while_connected(self) -> None:
        note = self._app.tasks["note"]
        self.publish_all(lambda body: note.delay(str(self._lines), body.decode()))

    @property
    def done(self) -> list[int]:
        """The numbers that the worker has written."""
        return [int(line) for line in self._lines.read_text().splitlines()]

    def await_progress(self, messages: int, seconds: float) -> None:
        """Of the worker as well."""
        before = len(self.done)
        super().await_progress(messages, seconds)
        until(lambda: len(self.done) >= before + messages, seconds, self._log.read_text)

    def await_all_done(self, seconds: float) -> None:
        until(lambda: set(self.confirmed) <= set(self.done), seconds, self._log.read_text)

    def end_worker(self) -> None:
        self._app.close()
        self._worker.terminate()
        try:
            self._worker.wait(60)
        finally:
            if self._worker.poll() is None:
                self._worker.kill()
                self._worker.wait()


def numbers_in(url: str, queue: str) -> list[int]:
    """What is in the queue, in order, which is empty afterwards."""
    with blocking.connect(url) as connection:
        channel = connection.channel()
        numbers = []
        while (message := channel.get(queue, no_ack=True)) is not None:
            numbers.append(int(message.body.decode()))
        return numbers

"""The commands and programs of first-hour.md, and the commands of command-line.md, in their order, at a real broker.

Where a page shows the output of a command, its first line must be in the output; numbers may differ. A command whose
shown output is an error must fail. tests/unit/cli/test_guide_commands.py parses the commands of all other pages.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from pika.exceptions import AMQPError
from typer.testing import Result

import leveret
from tests.support.cell_clients import until
from tests.support.command_line import Cli
from tests.support.guide_pages import PAGES, blocks, leveret_commands, typed

PASSWORD = "correct horse"
CONTEXT = "guide"  # leads the commands, which have no --url, to the broker
NOT_OURS = ("pip install ", "leveret serve")
FASTER = {  # what takes a minute, or for ever
    "while time.monotonic() < end:": "while number < 40:",
    "connection.sleep(0.1)": "connection.sleep(0.01)",
    "connection.sleep(2)": "connection.sleep(0.02)",
}


class Reader:
    """Types commands in a home of its own."""

    def __init__(self, broker: leveret.Broker, home: Path) -> None:
        self.broker = broker
        self.home = home
        self._cli = Cli(broker.http_url, home)
        self.enter(f"context add {CONTEXT} --url {broker.http_url}")
        self.enter(f"context use {CONTEXT}")

    def enter(self, arguments: str, more: str = "") -> Result:
        """The words of one ``leveret``, which must succeed."""
        result = self.run(shlex.split(f"{arguments} {more}"))
        assert result.exit_code == 0, f"leveret {arguments}: {result.output}"
        return result

    def type(self, line: str, shown: list[str], more: str = "") -> None:
        """A line of a page, and what the page shows below it."""
        ((given, words),) = [(line.partition(" | ")[0], words) for words in leveret_commands(line)]
        result = self.run([*words, *shlex.split(more)], shlex.split(given)[-1] if "|" in line else PASSWORD)
        is_refused = bool(shown) and shown[0].startswith("leveret: ")
        assert result.exit_code == int(is_refused), f"{line}: {result.output}"
        if shown and shown[0] != "...":
            assert alike(shown[0]) in self.lines(result.output), line

    def run(self, words: list[str], given: str = PASSWORD) -> Result:
        placed = [self.placed(word) for word in words]
        return self._cli.run(*placed, given=f"{given}\n", url=None)

    def placed(self, word: str) -> str:
        """Files below this home, and this broker."""
        if word == "~/.local/share/leveret":
            return str(self.home / "data")
        if word.startswith(("~/", "/tmp/")):
            return f"{self.home}/{word.partition('/')[2].removeprefix('tmp/')}"
        return word.replace("http://broker.example:15672", self.broker.http_url)

    def lines(self, output: str) -> list[str]:
        """As they would be in the home of the guide."""
        output = output.replace(str(self.home / "data"), "/home/me/.local/share/leveret")
        return [alike(line) for line in output.replace(f"{self.home}/", "/tmp/").splitlines()]


def alike(line: str) -> str:
    return " ".join(re.sub(r"\d+(?:\.\d+)*", "0", line).split())


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    with leveret.Broker(http_port=0, data_dir=tmp_path / "data", durability="os", shutdown_timeout=0.5) as broker:
        yield Reader(broker, tmp_path)


# ---- the first hour


class Programs:
    """Those of the page, by the names that it gives them. The last one runs until the broker stops."""

    def __init__(self, text: str, amqp_url: str) -> None:
        self._names = iter(re.findall(r"(?:Save this|Save it|Run it) as\s+`(\w+\.py)`", text))
        self._address = urlsplit(amqp_url).netloc.rpartition("@")[2]
        self._code: dict[str, str] = {}

    def save(self, code: str) -> str:
        name = next(self._names)
        for slow, quick in FASTER.items():
            code = code.replace(slow, quick)
        self._code[name] = code.replace("127.0.0.1:5672", self._address)
        return name

    def run(self, name: str) -> None:
        exec(compile(self._code[name], name, "exec"), {})  # noqa: S102  the guide is ours

    def run_until_disconnected(self, name: str) -> None:
        with suppress(AMQPError):
            self.run(name)


def test_the_first_hour(reader: Reader) -> None:
    text = PAGES["first-hour"].read_text(encoding="utf-8")
    assert [slow for slow in FASTER if slow not in text] == []
    programs, broker = Programs(text, reader.broker.amqp_url), reader.broker
    worker: threading.Thread | None = None
    for language, block in blocks(PAGES["first-hour"], "python", "console"):
        if language == "python":
            name = programs.save(block)
            if "start_consuming" in block:
                worker = threading.Thread(target=programs.run_until_disconnected, args=(name,))
                worker.start()
                wait_for_consumer(broker, "orders")
            continue
        for line, shown in typed(block):
            if line.startswith("python "):
                programs.run(line.split()[1])
            elif not line.startswith(NOT_OURS):
                reader.type(line, shown)
    broker.stop()
    assert worker is not None
    worker.join(20)
    assert not worker.is_alive()


def wait_for_consumer(broker: leveret.Broker, queue: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        until(lambda: channel.queue_declare(queue, passive=True).method.consumer_count == 1, 20)


# ---- the command line


BEFORE = {  # commands that make what a block needs, by the beginning of the block
    "leveret context add shop": (
        "vhosts create orders",
        "users create anna --tag management",
        "permissions set anna --vhost orders --read '.*'",
        "context add other --url {url} --vhost /",
    ),
    "leveret publish orders": (
        "exchanges create news --type topic",
        "queues create sport",
        "bindings create news sport --routing-key 'sport.#'",
    ),
    "leveret tail orders": (
        "queues create events --type stream",
        "publish events first",
        "publish orders again",
    ),
    "leveret redrive orders.dead": (
        "queues create orders.dead",
        "queues create orders.parked",
        'policies set dead \'^orders$\' \'{"dead-letter-exchange": "", "dead-letter-routing-key": "orders.dead"}\'',
        "publish orders refused",
        "get orders --reject",
    ),
    "leveret policies set short": ("queues create orders.eu",),
}
AFTER = {
    "leveret context add shop": (f"context use {CONTEXT}", "users delete anna", "vhosts delete orders --yes"),
}
MORE = {  # what ends a command that follows, and makes others short
    "leveret tail orders": "--no-follow",
    "leveret tail --exchange": "--count 1",
    "leveret consume": "--count 1",
    "leveret bench": "--seconds 0.2",
}
ELSEWHERE = {"leveret cluster": "needs a cell: tests/cluster runs them"}


def test_the_page_of_the_command_line(reader: Reader) -> None:
    (reader.home / ".shop").touch(0o600)
    (reader.home / ".shop").write_text(f"{PASSWORD}\n")
    (reader.home / "report.pdf").write_bytes(b"%PDF")
    ran = 0
    for _, block in blocks(PAGES["command-line"], "console"):
        if block.startswith(tuple(f"$ {beginning}" for beginning in ELSEWHERE)):
            continue
        for line in found(BEFORE, block):
            reader.enter(line.format(url=reader.broker.http_url) if "{url}" in line else line)
        for line, shown in typed(block):
            more = " ".join(option for beginning, option in MORE.items() if line.startswith(beginning))
            with published(reader.broker, "news", "sport.golf", line.startswith("leveret tail --exchange")):
                reader.type(line, shown, more)
            ran += 1
        for line in found(AFTER, block):
            reader.enter(line)
    assert ran > 30


@contextmanager
def published(broker: leveret.Broker, exchange: str, key: str, is_wanted: bool) -> Iterator[None]:
    """Messages one after the other, until one of them is seen."""
    is_seen = threading.Event()

    def publish() -> None:
        while is_wanted and not is_seen.wait(0.02):
            broker.vhost().publish(exchange, key, b"hole in one")

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        yield
    finally:
        is_seen.set()
        publisher.join()


def found(commands: dict[str, Any], block: str) -> tuple[str, ...]:
    return next((lines for beginning, lines in commands.items() if block.startswith(f"$ {beginning}")), ())

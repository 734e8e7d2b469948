"""kill -9 again and again while STOMP clients send, commit and move messages: a RECEIPT is a promise.

What got its receipt is there after the restart. A transaction is there whole or not at all: all its messages or none,
and a message that was moved, by an ACK and a SEND in one transaction, is in one of both queues and never in both.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.support.forked_broker import ForkedBroker
from tests.support.stomp_client import StompClient, made

CYCLES = int(os.environ.get("LEVERET_CRASH_CYCLES", "5"))
MOST_RECEIPTS = 300  # of a run
UNDER_WAY = 20  # sends without a receipt yet
TO_MOVE = [b"%05d" % number for number in range(1_000)]
PATIENCE = 30.0  # seconds
KEPT, SOURCE, TARGET = "/queue/kept", "/queue/source", "/queue/target"


class Promises:
    """What the clients received, over all runs."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.committed: set[bytes] = set()  # names of transactions
        self.sizes: dict[bytes, int] = {}  # of every transaction that was begun
        self.moved: set[bytes] = set()
        self._receipts = 0
        self._news = threading.Condition()

    def note(self, promises: set[bytes], name: bytes) -> None:
        with self._news:
            promises.add(name)
            self._receipts += 1
            self._news.notify_all()

    def wait_for_more(self, number: int) -> None:
        """And for the first one of each kind, so that all of them are put to the proof."""
        with self._news:
            wanted = self._receipts + number

            def is_enough() -> bool:
                return self._receipts >= wanted and bool(self.sent and self.committed and self.moved)

            assert self._news.wait_for(is_enough, PATIENCE), "nothing is promised any more"


class Load:
    """Clients in threads, until the broker is gone."""

    def __init__(self, url: str, life: int, promises: Promises) -> None:
        self._url = url
        self._life = life
        self._promises = promises
        self._threads = [
            threading.Thread(target=self._until_the_end, args=(work, number))
            for number, work in enumerate((self._send, self._send, self._commit, self._commit, self._move))
        ]
        for thread in self._threads:
            thread.start()

    def _until_the_end(self, work: Callable[[StompClient, bytes], None], number: int) -> None:
        try:
            with StompClient(self._url) as client:
                client.connect()
                work(client, b"%d-%d" % (self._life, number))
        except (OSError, AssertionError):
            pass  # the broker is gone

    def _send(self, client: StompClient, name: bytes) -> None:
        for number in count():
            body = b"s/%s/%d" % (name, number)
            headers = {"destination": KEPT, "persistent": "true", "receipt": body.decode()}
            client.socket.sendall(made("SEND", headers, body))
            if number >= UNDER_WAY:
                self._promises.note(self._promises.sent, client.read()["receipt-id"].encode())

    def _commit(self, client: StompClient, name: bytes) -> None:
        random = Random(name)
        for number in count():
            transaction, size = b"%s/%d" % (name, number), random.randint(2, 30)
            self._promises.sizes[transaction] = size
            headers = {"transaction": "t", "destination": KEPT, "persistent": "true"}
            sends = [made("SEND", headers, b"t/%s/%d" % (transaction, each)) for each in range(size)]
            end = made("COMMIT", {"transaction": "t", "receipt": "r"})
            client.socket.sendall(made("BEGIN", {"transaction": "t"}) + b"".join(sends) + end)
            assert client.read()["receipt-id"] == "r"
            self._promises.note(self._promises.committed, transaction)

    def _move(self, client: StompClient, name: bytes) -> None:
        client.say("SUBSCRIBE", destination=SOURCE, id="s", ack="client-individual", prefetch_count=1)
        while True:
            message = client.read()
            step = {"transaction": "t"}
            send = made("SEND", {**step, "destination": TARGET, "persistent": "true"}, message.body)
            ack, commit = made("ACK", {**step, "id": message["ack"]}), made("COMMIT", {**step, "receipt": "r"})
            client.socket.sendall(made("BEGIN", step) + send + ack + commit)
            assert client.read()["receipt-id"] == "r"
            self._promises.note(self._promises.moved, message.body)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def drained(client: StompClient, destination: str) -> list[bytes]:
    client.sure("SEND", b"end", destination=destination, persistent="true")
    client.say("SUBSCRIBE", destination=destination, id=destination)
    bodies = [client.read().body]
    while bodies[-1] != b"end":
        bodies.append(client.read().body)
    return bodies[:-1]


def check_sends(promises: Promises, kept: list[bytes]) -> None:
    """Nothing promised is lost, nothing is there twice, each client's sends are in order."""
    sent = [body for body in kept if body.startswith(b"s/")]
    assert promises.sent - set(sent) == set()
    latest: dict[bytes, int] = {}
    for body in sent:
        client, _, number = body.rpartition(b"/")
        assert int(number) > latest.get(client, -1), body
        latest[client] = int(number)


def check_transactions(promises: Promises, kept: list[bytes]) -> None:
    there = Counter(body[2:].rpartition(b"/")[0] for body in kept if body.startswith(b"t/"))
    assert len(set(kept)) == len(kept)
    assert promises.committed - there.keys() == set()
    assert {name: number for name, number in there.items() if number != promises.sizes[name]} == {}


def check_moves(promises: Promises, source: list[bytes], target: list[bytes]) -> None:
    assert sorted(source + target) == TO_MOVE
    assert promises.moved - set(target) == set()


@pytest.mark.slow
@pytest.mark.timeout(300 + 10 * CYCLES)
@pytest.mark.feature("S0-11", "S3-16", "S4-30", "S4-74")
def test_receipts_and_transactions_hold_however_often_the_broker_is_killed(tmp_path: Path, random: Random) -> None:
    promises = Promises()
    with ForkedBroker(tmp_path, "--stomp-port", "0") as serving, StompClient.open(serving.url("stomp")) as client:
        for body in TO_MOVE[:-1]:
            client.say("SEND", body, destination=SOURCE, persistent="true")
        client.sure("SEND", TO_MOVE[-1], destination=SOURCE, persistent="true")
        serving.process.kill()
    for life in range(CYCLES):
        with ForkedBroker(tmp_path, "--stomp-port", "0") as serving:
            load = Load(serving.url("stomp"), life, promises)
            promises.wait_for_more(random.randint(1, MOST_RECEIPTS))
            serving.process.kill()
            load.join()
    with ForkedBroker(tmp_path, "--stomp-port", "0") as serving, StompClient.open(serving.url("stomp")) as client:
        kept = drained(client, KEPT)
        check_sends(promises, kept)
        check_transactions(promises, kept)
        check_moves(promises, drained(client, SOURCE), drained(client, TARGET))
        assert "Traceback" not in serving.log()

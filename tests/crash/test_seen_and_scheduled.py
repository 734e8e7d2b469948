"""Duplicates and schedules over the end of the broker: killed, and cut off after every write of a virtual disk.

A message and the trace of its id are there together or not at all; a scheduled message is in the schedule or in its
queue, never in both and never in neither.
"""

from __future__ import annotations

import time
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import pytest

from leveret.wire.methods import BasicAck, ConfirmSelect
from leveret.wire.properties import Properties
from tests.support.forked_broker import ForkedBroker
from tests.support.peer_pair import Client
from tests.support.publishing import Publishing, declare_at, take_all
from tests.support.raw_client import eventually
from tests.support.stored_harness import StoredHarness
from tests.support.virtual_disk import VirtualDisk

ID = "x-deduplication-header"
SEED = 4
WALL = 1_700_000_000.0
DUE = 100  # seconds from the beginning
UNIQUE = [number for number in range(40) if number % 3]  # the others are scheduled
MOST = 4  # images of one crash, beside the extremes


def with_id(number: int) -> Properties:
    return Properties(headers={ID: number}, delivery_mode=2)


def publish(url: str, properties: list[Properties]) -> None:
    with Publishing(url) as publishing:
        for number, each in enumerate(properties):
            publishing.publish("q", [b"%d" % number], each)
        publishing.hear_verdicts()
        assert not publishing.nacked


@pytest.mark.feature("S0-15")
def test_a_duplicate_is_one_after_a_kill(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q", x_message_deduplication=True)
        publish(serving.url(), [with_id(number) for number in range(50)])
        serving.process.kill()
        serving.exit_code()
    with ForkedBroker(tmp_path) as serving:
        publish(serving.url(), [with_id(number) for number in range(60)])
        found = [int(each.body) for each in take_all(serving.url(), "q")]
        assert found == list(range(60))
        serving.terminate()
        assert serving.exit_code(15) == 0, serving.log()
    with ForkedBroker(tmp_path) as serving:
        publish(serving.url(), [with_id(number) for number in range(60)])
        assert take_all(serving.url(), "q") == [], "the trace stays when the messages are consumed"


def test_what_is_scheduled_survives_a_kill_and_comes_in_time(tmp_path: Path) -> None:
    with ForkedBroker(tmp_path) as serving:
        declare_at(serving.url(), "q")
        soon = round((time.time() + 6) * 1000)
        moments = [soon, soon - 1_000_000, soon + 3_600_000]
        publish(serving.url(), [Properties(headers={"x-deliver-at": at}, delivery_mode=2) for at in moments])
        assert [each.body for each in take_all(serving.url(), "q")] == [b"1"]
        serving.process.kill()
        serving.exit_code()
    with ForkedBroker(tmp_path) as serving:
        found: list[bytes] = []

        def has_come() -> bool:
            found.extend(each.body for each in take_all(serving.url(), "q"))
            return b"0" in found

        eventually(has_come)
        assert time.time() * 1000 >= soon
        assert b"2" not in found


# ---- after every write


class Told:
    """What the broker confirmed, and after how many operations on the disk."""

    def __init__(self) -> None:
        self.confirmed: dict[bytes, int] = {}


@cache
def lived() -> tuple[StoredHarness, Told]:
    """A run with both, in small steps; the writer sometimes does several ticks at once."""
    harness, told, chance = StoredHarness(segment_size=2048, wall=WALL), Told(), Random(SEED)
    client = harness.client()
    client.declare("q", durable=True, arguments={"x-message-deduplication": True})
    client.declare("p", durable=True)
    client.ask(ConfirmSelect())
    sent: dict[int, bytes] = {}
    harness.is_slow = True
    for number in range(40):
        body = b"%d" % number
        if number in UNIQUE:
            client.publish("q", body, headers={ID: number}, delivery_mode=2)
        else:
            at = round((WALL + DUE + number % 5) * 1000)
            client.publish("p", body, headers={"x-deliver-at": at}, delivery_mode=2)
        sent[len(sent) + 1] = body
        if number == 25:
            harness.advance(DUE + 2)
        if chance.random() < 0.4:
            harness.write()
        note(harness, client, sent, told)
    harness.work()
    note(harness, client, sent, told)
    harness.advance(10)
    harness.work()
    return harness, told


def note(harness: StoredHarness, client: Client, sent: dict[int, bytes], told: Told) -> None:
    for what in client.heard():
        assert isinstance(what, BasicAck)
        tags = range(1, what.delivery_tag + 1) if what.multiple else [what.delivery_tag]
        for tag in tags:
            told.confirmed.setdefault(sent[tag], len(harness.disk.operations))


@cache
def crashes() -> list[tuple[int, VirtualDisk]]:
    """What may be left after each operation; a disk that reads the same is looked at once, as late as it is found."""
    disk = VirtualDisk()
    found: dict[tuple[object, ...], tuple[int, VirtualDisk]] = {}
    for at, operation in enumerate(lived()[0].disk.operations):
        disk.redo(operation)
        for _, image in disk.images(Random(at), most=MOST):
            files = tuple(sorted(image.files().items()))
            found[files, len(image.rows)] = (at + 1, image)
    return [pair for pair in found.values() if len(pair[1].queues())]


def all_of(harness: StoredHarness) -> Counter[bytes]:
    """What the queues give when everything is due."""
    harness.advance(10 * DUE)
    harness.work()
    found: Counter[bytes] = Counter()
    client = harness.client()
    for queue in harness.vhost.queues:
        while (content := client.get(queue, no_ack=True)) is not None:
            found[content.body] += 1
    return found


@pytest.mark.parametrize("part", range(4))
@pytest.mark.feature("S0-15")
def test_after_every_write_each_message_is_there_once_and_known(part: int) -> None:
    _, told = lived()
    assert len(told.confirmed) == 40
    looked = 0
    for at, image in crashes()[part::4]:
        again = StoredHarness(image.copy(), wall=WALL + 1, segment_size=2048)
        if "q" not in again.vhost.queues:
            continue
        looked += 1
        client = again.client()
        for number in UNIQUE:  # the publisher does not know what came through, and sends all again
            client.publish("q", b"%d" % number, headers={ID: number}, delivery_mode=2)
        found = all_of(again)
        assert {body: found[body] for body in found if int(body) in UNIQUE} == {b"%d" % n: 1 for n in UNIQUE}, at
    assert looked > 20


@pytest.mark.parametrize("part", range(4))
def test_after_every_write_what_was_confirmed_is_there_once(part: int) -> None:
    _, told = lived()
    for at, image in crashes()[part::4]:
        again = StoredHarness(image.copy(), wall=WALL + 1, segment_size=2048)
        promised = {body for body, when in told.confirmed.items() if when <= at}
        if promised:
            found = all_of(again)
            assert promised <= found.keys(), at
            assert max(found.values()) == 1, at

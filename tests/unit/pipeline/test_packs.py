"""Packs: many staged messages as one, taken apart by the commit."""

from __future__ import annotations

import numpy as np
import pytest

from leveret.message import Message
from leveret.pipeline.packs import Pack, is_pack, packed, unpacked
from leveret.pipeline.stages import Stage
from tests.support.sinks import Sink, address, drained, row
from tests.support.stored_harness import StoredHarness


def pack_of(*runs: tuple[str, list[bytes]]) -> Pack:
    contents: list[bytes] = []
    ranges = []
    for key, bodies in runs:
        ranges.append((len(contents), len(contents) + len(bodies), address("", key)))
        contents += [row(body, address())[0] for body in bodies]
    ends = np.cumsum([0, *map(len, contents)], dtype=np.int32)
    return packed(ranges, ends, b"".join(contents))


def shown(runs: list[list[Message]]) -> list[tuple[str, int]]:
    return [(run[0][1].key, len(run)) for run in runs]


def harness_with(*queues: str, **more: int) -> StoredHarness:
    harness = StoredHarness(**more)
    for queue in queues:
        harness.vhost.declare_queue(queue, durable=True)
    harness.rest()
    return harness


def staged(sink: Sink, *parts: Pack | list[Message]) -> Stage:
    stage = sink.begin("T", 0)
    for part in parts:
        if isinstance(part, Pack):
            sink.stages.add_pack(stage, part)
        else:
            sink.add(stage, part)
    sink.finish(stage)
    return stage


def test_a_pack_comes_apart_as_it_was_made() -> None:
    pack = pack_of(("a", [b"1", b"two"]), ("b", [b""]), ("a", [b"x" * 300]))
    assert is_pack(pack.data)
    assert not is_pack(row(b"1", address())[0])
    runs = unpacked(pack.data)
    assert shown(runs) == [("a", 2), ("b", 1), ("a", 1)]
    assert runs[0][0][1] is runs[2][0][1], "one address object for each address, so that runs can be merged"
    contents = [message[0] for run in runs for message in run]
    assert contents == [row(body, address())[0] for body in (b"1", b"two", b"", b"x" * 300)]
    assert (pack.messages, pack.size) == (4, sum(map(len, contents)))
    assert [(first[0], number) for first, number in pack.firsts] == [
        (contents[0], 2),
        (contents[2], 1),
        (contents[3], 1),
    ]


def test_packs_and_single_messages_of_a_stage_are_committed_in_order() -> None:
    harness = harness_with("q", "other")
    sink = Sink(harness)
    single = [row(b"3", address(), priority=1), row(b"4", address(), priority=1)]
    stage = staged(sink, pack_of(("q", [b"1", b"2"]), ("other", [b"x"])), single, pack_of(("q", [b"5"])))
    assert (stage.messages, stage.entries, stage.queue.ready) == (6, 4, 4)
    assert sink.commit("T", 0, stage.id).messages == 6
    assert drained(harness, "q") == [b"1", b"2", b"3", b"4", b"5"]
    assert drained(harness, "other") == [b"x"]


def test_packs_larger_than_memory_are_moved_from_disk_in_order() -> None:
    harness = harness_with("q", queue_memory=16 << 10)
    sink = Sink(harness)
    bodies = [b"%05d" % number for number in range(5_000)]
    stage = sink.begin("T", 0)
    for at in range(0, 5_000, 10):
        sink.stages.add_pack(stage, pack_of(("q", bodies[at : at + 10])))
        harness.rest()
    sink.finish(stage)
    assert stage.queue.lane.paged > 300, "most of it is on disk only"
    assert sink.commit("T", 0, stage.id).messages == 5_000
    assert drained(harness, "q") == bodies


@pytest.mark.parametrize("image", range(3))
def test_packs_survive_a_power_cut_before_and_during_their_commit(image: int) -> None:
    harness = harness_with("q")
    packs = [pack_of(("q", [b"%d" % number] * 3)) for number in range(5)]
    bodies = [b"%d" % number for number in range(5) for _ in range(3)]
    stage = staged(Sink(harness), *packs)
    harness = harness.crashed(image=image).again()
    sink = Sink(harness)
    sink.send("T", 0, stage.id)
    harness.broker.tick()
    harness.write()  # the row, and the first packs
    harness = harness.crashed(image=image).again()
    sink = Sink(harness)
    assert drained(harness, "q") == bodies
    assert sink.ids() == []

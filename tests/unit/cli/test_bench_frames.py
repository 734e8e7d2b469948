"""The messages of a load: what comes back is counted as sound only if it is, whatever the slicing."""

from __future__ import annotations

import pytest

from leveret.cli.bench_frames import SEQUENCE_BITS, Batches, Deliveries, Latencies, Received, Sample, sample
from leveret.wire.constants import FRAME_METHOD, HEARTBEAT_FRAME
from leveret.wire.frames import ENVELOPE, decode_method, method_frame
from leveret.wire.methods import BasicCancel, BasicDeliver, BasicPublish, Method
from tests.support.frame_reader import FrameReader

TAG = "amq.ctag-x"


def delivered(publishes: bytes, first_tag: int = 1) -> list[bytes]:
    """What a broker makes of publishes: each a delivery with the same content."""
    messages: list[bytes] = []
    tag = first_tag
    for kind, channel, payload in FrameReader(limit=0).feed(publishes):
        whole = ENVELOPE.pack(kind, channel, len(payload)) + payload + b"\xce"
        if kind == FRAME_METHOD:
            method = decode_method(payload)
            assert isinstance(method, BasicPublish)
            messages.append(method_frame(1, BasicDeliver(TAG, tag, False, "", method.routing_key)))
            tag += 1
        else:
            messages[-1] += whole
    return messages


def taken(like: Sample, data: bytes, step: int = 1 << 20, publishers: int = 1) -> tuple[Received, Deliveries]:
    received = Received()
    deliveries = Deliveries(like, TAG, publishers, received)
    others: list[Method] = []
    for start in range(0, len(data), step):
        deliveries.take(data[start : start + step], 2_000_000, others.append)
    return received, deliveries


@pytest.fixture(params=[16, 100, 9000], ids=lambda size: f"{size} bytes")
def like(request: pytest.FixtureRequest) -> Sample:
    """The largest has several body frames."""
    return sample("q", request.param, persistent=True, frame_max=4096)


@pytest.mark.parametrize("step", [1, 7, 1000, 1 << 20])
def test_a_load_is_counted_in_any_slicing_with_heartbeats_between(like: Sample, step: int) -> None:
    messages = delivered(Batches(like, 0).take(5, 1_000_000))
    data = HEARTBEAT_FRAME + b"".join(messages[:2]) + HEARTBEAT_FRAME + b"".join(messages[2:])
    received, deliveries = taken(like, data, step)
    assert (received.count, received.total, deliveries.last_tag) == (5, 0 + 1 + 2 + 3 + 4, 5)
    assert (received.changed, received.disordered) == (0, 0)
    assert received.latencies.quantile(0.5) == pytest.approx(0.001, rel=0.05)


@pytest.mark.parametrize("at", [-2, -80, -115], ids=["the last byte", "the filler", "the header"])
def test_one_bit_is_seen_wherever_it_is(at: int) -> None:
    like = sample("q", 100, persistent=True, frame_max=4096)
    first, second, third = delivered(Batches(like, 0).take(3, 1_000_000))
    spoilt = bytearray(second)
    spoilt[at] ^= 1
    received, deliveries = taken(like, first + bytes(spoilt) + third)
    assert (received.count, received.changed, deliveries.last_tag) == (2, 1, 3)


def test_a_message_with_another_body_is_changed_and_the_next_ones_still_count() -> None:
    like, other = (sample("q", 100, persistent=False, frame_max=4096) for _ in range(2))
    messages = delivered(Batches(like, 0).take(3, 1_000_000))
    foreign = delivered(Batches(other, 0).take(2, 1_000_000))
    received, _ = taken(like, messages[0] + foreign[1] + messages[2])
    assert (received.count, received.changed, received.disordered) == (2, 1, 0)


def test_what_comes_twice_or_too_late_is_disordered_for_each_publisher(like: Sample) -> None:
    ours, theirs = Batches(like, 0), Batches(like, 1)
    first, second = delivered(ours.take(2, 1)), delivered(theirs.take(2, 1), first_tag=3)
    mixed = first[0] + second[0] + first[1] + second[1]
    received, _ = taken(like, mixed, publishers=2)
    assert (received.count, received.disordered) == (4, 0)
    assert received.total == 0 + 1 + 2 * (1 << SEQUENCE_BITS) + 1
    assert taken(like, first[0] + first[0], publishers=2)[0].disordered == 1
    assert taken(like, first[1] + first[0], publishers=2)[0].disordered == 1


def test_other_methods_are_handed_on(like: Sample) -> None:
    heard: list[Method] = []
    deliveries = Deliveries(like, TAG, 1, Received())
    deliveries.take(method_frame(1, BasicCancel(TAG)), 1, heard.append)
    assert heard == [BasicCancel(TAG)]


def test_quantiles_are_true_to_a_few_parts_in_a_hundred() -> None:
    latencies = Latencies()
    assert latencies.quantile(0.5) is None
    for milliseconds in range(1, 101):
        latencies.add(milliseconds * 1_000_000, 10)
    assert latencies.quantile(0.5) == pytest.approx(0.050, rel=0.05)
    assert latencies.quantile(0.99) == pytest.approx(0.099, rel=0.05)

"""The histogram of message sizes."""

from __future__ import annotations

import pytest

from leveret.broker.message_sizes import SIZES, MessageSizes
from leveret.message import TRANSIENT, Address, Message
from leveret.wire.content import make_content
from leveret.wire.properties import Properties
from tests.support.peer_pair import Harness

ADDRESS = Address("", "q", 1, 131072)


def run_of(*bodies: int) -> list[Message]:
    return [(make_content(Properties(), b"x" * size), ADDRESS, TRANSIENT) for size in bodies]


def counted(*runs: list[Message]) -> MessageSizes:
    sizes = MessageSizes()
    for run in runs:
        sizes.lengths[len(run[0][0])] += len(run)
    return sizes


@pytest.mark.parametrize(
    ("body", "limit"),
    [(1, 100), (100, 100), (101, 1_000), (1_000, 1_000), (1_001, 10_000), (100_000, 100_000), (100_001, 1_000_000)],
)
def test_a_message_counts_up_to_the_limit_that_its_body_fits(body: int, limit: int) -> None:
    numbers = counted(run_of(body)).cumulative()
    assert len(numbers) == len(SIZES) + 1
    assert numbers == [int(limit <= each) for each in SIZES] + [1]


def test_lengths_are_sorted_once_and_then_forgotten() -> None:
    sizes = counted(run_of(50, 50, 50), run_of(5_000), run_of(200, 200))
    assert len(sizes.lengths) == 3
    sizes.sort()
    assert not sizes.lengths
    assert sizes.cumulative()[:3] == [3, 5, 6]
    assert (sizes.cumulative()[-1], sizes.total()) == (6, 150 + 5_000 + 400)
    sizes.lengths[len(run_of(50)[0][0])] += 1
    assert (sizes.cumulative()[-1], sizes.total()) == (7, 150 + 5_000 + 400 + 50)


def test_an_empty_body_has_no_size() -> None:
    sizes = counted(run_of(0))
    assert (sizes.cumulative()[0], sizes.total()) == (1, 0)


def test_publishes_in_one_read_count_with_the_first_of_each_run() -> None:
    harness = Harness()
    client = harness.client()
    client.declare("a")
    client.publish("a", b"x" * 50, b"x" * 5_000, b"x" * 50)
    assert harness.broker.message_sizes.cumulative()[:3] == [3, 3, 3]

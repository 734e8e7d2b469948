"""Runs are joined where no queue can tell the difference."""

from __future__ import annotations

from random import Random

import pytest

from leveret.message import Address, Message
from leveret.pipeline.inflow import AddressRoutes
from leveret.pipeline.run_merge import merged_runs
from leveret.routing.bindings import Binding, Destination
from leveret.wire.content import body_of
from tests.support.peer_pair import Harness
from tests.support.sinks import address, row


def harness_with(bindings: str) -> Harness:
    """``"a:q a:r b:q"``: exchange ex, keys a and b, queues q and r."""
    harness = Harness()
    harness.vhost.declare_exchange("ex", "direct")
    for pair in bindings.split():
        key, queue = pair.split(":")
        harness.vhost.declare_queue(queue)
        harness.vhost.bind(Binding("ex", Destination("queue", queue), key))
    return harness


def runs_of(keys: str) -> list[list[Message]]:
    """One message each, numbered; the same key has the same address object."""
    to: dict[str, Address] = {key: address("ex", key) for key in keys}
    return [[row(b"%d" % number, to[key])] for number, key in enumerate(keys)]


def shown(runs: object) -> list[str]:
    return [
        f"{run[0][1].key}:{' '.join(body_of(message[0]).decode() for message in run)}"
        for run in runs  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize(
    ("bindings", "keys", "joined"),
    [
        ("a:q b:r", "abab", ["a:0 2", "b:1 3"]),
        ("a:q b:q", "abab", ["a:0", "b:1", "a:2", "b:3"]),
        ("a:q b:q c:r", "acbcaa", ["a:0", "b:2", "a:4 5", "c:1 3"]),
        ("a:q a:r b:r b:s c:s", "acab", ["a:0", "c:1", "a:2", "b:3"]),  # a and c are related by b
        ("a:q", "aaxxax", ["a:0 1 4", "x:2 3 5"]),  # nobody gets x
    ],
)
def test_messages_of_unrelated_addresses_are_joined(bindings: str, keys: str, joined: list[str]) -> None:
    harness = harness_with(bindings)
    assert sorted(shown(merged_runs(runs_of(keys), AddressRoutes(harness.vhost)))) == sorted(joined)


def test_where_chance_or_headers_decide_the_order_stays() -> None:
    harness = harness_with("a:q b:r")
    harness.vhost.declare_exchange("by headers", "headers")
    harness.vhost.bind(Binding("ex", Destination("exchange", "by headers"), "b"))
    assert shown(merged_runs(runs_of("abab"), AddressRoutes(harness.vhost))) == ["a:0", "b:1", "a:2", "b:3"]


def test_what_is_given_is_not_changed() -> None:
    runs = runs_of("abab")
    merged_runs(runs, AddressRoutes(harness_with("a:q b:r").vhost))
    assert [len(run) for run in runs] == [1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(50))
def test_no_queue_sees_another_order(seed: int) -> None:
    random = Random(seed)
    keys, queues = "abcdef", "pqrst"
    pairs = {(random.choice(keys), random.choice(queues)) for _ in range(random.randrange(1, 10))}
    harness = harness_with(" ".join(f"{key}:{queue}" for key, queue in pairs))
    runs = runs_of("".join(random.choice(keys) for _ in range(40)))
    joined = merged_runs(runs, AddressRoutes(harness.vhost))
    for queue in queues:
        wanted = {key for key, to in pairs if to == queue}
        before = [message for run in runs for message in run if message[1].key in wanted]
        after = [message for run in joined for message in run if message[1].key in wanted]
        assert before == after
    assert sum(map(len, joined)) == 40

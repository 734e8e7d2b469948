"""Leases in the definitions: one row per lease, and one per consumer with its last commit.

A lease may have as many runs as messages, so its row is packed: a header followed by the runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from struct import Struct, error
from typing import NamedTuple

from leveret.backlog.lease_builder import LeasedRun
from leveret.errors import StoreError

LEASE, CONSUMER = "lease", "lease-consumer"  # components
FORMAT = 1
HEAD = Struct("<BQQd")  # format, messages, bytes, since
RUN = Struct("<BQIB")  # lane, sequence, number, whether the messages were delivered before


class LeaseName(NamedTuple):
    queue: int
    number: int
    consumer: str

    def __str__(self) -> str:
        return f"{self.queue}/{self.number}/{self.consumer}"  # the consumer is last: it may contain any character


class ConsumerName(NamedTuple):
    queue: int
    consumer: str

    def __str__(self) -> str:
        return f"{self.queue}/{self.consumer}"


class LeaseFacts(NamedTuple):
    messages: int
    bytes: int
    since: float  # wall time
    runs: tuple[LeasedRun, ...]


class Committed(NamedTuple):
    """The highest lease number that a consumer has committed, and the number of messages of that commit."""

    number: int
    messages: int


def lease_name(text: str) -> LeaseName:
    queue, number, consumer = text.split("/", 2)
    return LeaseName(int(queue), int(number), consumer)


def consumer_name(text: str) -> ConsumerName:
    queue, consumer = text.split("/", 1)
    return ConsumerName(int(queue), consumer)


def pack_lease(messages: int, size: int, since: float, runs: Iterable[LeasedRun]) -> bytes:
    pack = RUN.pack
    return HEAD.pack(FORMAT, messages, size, since) + b"".join([pack(*run) for run in runs])


def unpack_lease(value: bytes) -> LeaseFacts:
    try:
        version, messages, size, since = HEAD.unpack_from(value)
        if version != FORMAT:
            raise StoreError(f"it has format {version}, this version reads {FORMAT}: upgrade Leveret")
        runs = [LeasedRun(lane, first, number, bool(again)) for lane, first, number, again in _runs(value)]
    except error as problem:
        raise StoreError(f"its value is not a lease: {problem}") from None
    return LeaseFacts(messages, size, since, tuple(runs))


def _runs(value: bytes) -> Iterable[tuple[int, int, int, int]]:
    return RUN.iter_unpack(value[HEAD.size :])


def pack_committed(committed: Committed) -> bytes:
    return json.dumps({"committed": committed.number, "messages": committed.messages}).encode()


def unpack_committed(value: bytes) -> Committed:
    try:
        facts = json.loads(value)
        return Committed(int(facts["committed"]), int(facts["messages"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise StoreError(f"its value is not a commit: {problem!r}") from None

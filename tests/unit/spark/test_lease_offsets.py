"""The two forms of an offset of leases, and which query can continue which."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.spark.errors import OptionError
from leveret.spark.lease_offsets import LeaseOffsets
from leveret.spark.minimum_batch import MinimumBatch

ONE, SEVERAL = LeaseOffsets("c", "/", "q"), LeaseOffsets("c", "/", None)
OLD = {"consumer": "c", "lease": 4, "queue": "q", "vhost": "/"}


def test_both_forms_are_read_back() -> None:
    assert ONE.json_of({"q": 4}) == OLD
    assert SEVERAL.json_of({"b": 2, "a": 1}) == {"consumer": "c", "leases": {"a": 1, "b": 2}, "vhost": "/"}
    assert ONE.leases_of(ONE.json_of({"q": 4})) == {"q": 4}
    assert SEVERAL.leases_of(SEVERAL.json_of({"a": 1, "b": 2})) == {"a": 1, "b": 2}


def test_several_queues_continue_a_checkpoint_of_one() -> None:
    assert SEVERAL.leases_of(OLD) == {"q": 4}


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (OLD | {"consumer": "theirs"}, "the checkpoint belongs to consumer 'theirs', not 'c'"),
        (OLD | {"vhost": "v"}, "the checkpoint belongs to vhost 'v', not '/'"),
        (OLD | {"queue": "other"}, "the checkpoint belongs to queue 'other', not 'q'"),
        ({"consumer": "c", "leases": {"q": 1, "r": 2}, "vhost": "/"}, "the checkpoint belongs to queue 'r', not 'q'"),
    ],
)
def test_a_checkpoint_of_other_queues_is_refused(offset: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        ONE.leases_of(offset)


def test_a_small_batch_waits_for_more_messages_or_for_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("leveret.spark.minimum_batch.time.monotonic", lambda: now)
    minimum = MinimumBatch(10, 60.0)
    assert not minimum.is_reached(0)
    assert minimum.is_reached(1)  # the first batch of a run
    assert not minimum.is_reached(9)
    assert minimum.is_reached(10)
    now += 59
    assert not minimum.is_reached(9)
    now += 1
    assert minimum.is_reached(9)
    assert not minimum.is_reached(9)
    assert MinimumBatch(None, 60.0).is_reached(0)

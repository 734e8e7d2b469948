"""The x- arguments of a queue, checked at the door (S4-07, S4-81)."""

from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from leveret.queues.options import QueueOptions, differing_argument


def test_no_arguments_ask_for_nothing() -> None:
    assert QueueOptions.of({}) == QueueOptions(ttl=None, expires=None, max_priority=None, kind="classic")


@pytest.mark.feature("S4-07")
def test_milliseconds_become_seconds() -> None:
    options = QueueOptions.of({"x-message-ttl": 1500, "x-expires": 1, "x-max-priority": 10})
    assert options == QueueOptions(ttl=1.5, expires=0.001, max_priority=10)


def test_a_ttl_of_zero_is_legal() -> None:
    assert QueueOptions.of({"x-message-ttl": 0}).ttl == 0


@pytest.mark.parametrize("name", ["x-message-ttl", "x-expires", "x-max-priority"])
@pytest.mark.parametrize("value", ["soon", 1.5, True, False, b"1", [1], {"a": 1}, -1])
@pytest.mark.feature("S4-81")
def test_a_bad_value_is_refused_by_name_and_value(name: str, value: object) -> None:
    """The text says which argument is wrong, and what it was."""
    with pytest.raises(PreconditionFailed) as refusal:
        QueueOptions.of({name: value})
    assert refusal.value.code == 406
    assert name in refusal.value.text
    assert repr(value) in refusal.value.text


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-expires", 0), ("x-max-priority", 256), ("x-message-ttl", 1 << 53), ("x-expires", 1 << 53)],
)
def test_a_value_out_of_bounds_is_refused_with_the_bounds(name: str, value: int) -> None:
    with pytest.raises(PreconditionFailed, match=rf"'{name}': {value} is not within \d+\.\.\d+"):
        QueueOptions.of({name: value})


@pytest.mark.parametrize("kind", ["lazy", 5, "", None])
def test_an_unknown_queue_type_is_refused_with_those_we_have(kind: object) -> None:
    with pytest.raises(PreconditionFailed, match=r"'x-queue-type'.*classic, quorum") as refusal:
        QueueOptions.of({"x-queue-type": kind})
    assert repr(kind) in refusal.value.text


def test_quorum_is_accepted_for_durable_queues_only() -> None:
    assert QueueOptions.of({"x-queue-type": "quorum"}, durable=True).kind == "quorum"
    with pytest.raises(PreconditionFailed, match="'durable' false"):
        QueueOptions.of({"x-queue-type": "quorum"})
    with pytest.raises(PreconditionFailed, match="'exclusive' true"):
        QueueOptions.of({"x-queue-type": "quorum"}, durable=True, exclusive=True)


def test_unknown_arguments_are_never_refused() -> None:
    arguments = {"x-queue-mode": "lazy", "x-queue-version": 2, "x-quorum-initial-group-size": 3, "x-new": [1, {}]}
    assert QueueOptions.of(arguments) == QueueOptions()


def test_declarations_differ_by_the_arguments_that_are_compared() -> None:
    assert differing_argument({"x-expires": 5}, {"x-expires": 5, "x-queue-mode": "lazy"}) is None
    assert differing_argument({"x-expires": 5}, {}) == ("x-expires", None, 5)
    assert differing_argument({}, {"x-max-priority": 3}) == ("x-max-priority", 3, None)
    assert differing_argument({"x-message-ttl": 10}, {"x-message-ttl": 10.0}) == ("x-message-ttl", 10.0, 10)
    assert differing_argument({"x-max-length": 1}, {"x-max-length": True}) == ("x-max-length", True, 1)

"""When a message that came back is tried again, and which arguments are refused."""

from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from leveret.queues.options import LONGEST, QueueOptions, RetryPlan


def delays(arguments: dict[str, object], tries: int, chance: float = 0.0) -> list[float]:
    plan = RetryPlan.of(arguments)
    assert plan is not None
    return [plan.delay(number, chance) for number in range(1, tries + 1)]


def test_exponential_delays_double_up_to_the_longest() -> None:
    arguments: dict[str, object] = {"x-retry-delay-min": 1000, "x-retry-delay-max": 10_000}
    assert delays(arguments, 6) == [1, 2, 4, 8, 10, 10]
    assert delays({**arguments, "x-retry-multiplier": 3}, 4) == [1, 3, 9, 10]
    assert delays({**arguments, "x-retry-multiplier": 1}, 3) == [1, 1, 1]


def test_without_a_longest_they_stay_within_a_year() -> None:
    assert delays({"x-retry-delay-min": 1000}, 5000)[-1] == LONGEST


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 10.0), (0.5, 7.5), (1.0, 5.0)])
def test_jitter_takes_a_part_off_by_chance(chance: float, expected: float) -> None:
    arguments: dict[str, object] = {"x-retry-delays": [10_000], "x-retry-jitter": 0.5}
    assert delays(arguments, 1, chance) == [expected]


def test_a_disabled_retry_is_none() -> None:
    assert RetryPlan.of({"x-delayed-retry-type": "disabled", "x-delayed-retry-min": 5}) is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"x-retry-delays": []}, "x-retry-delays"),
        ({"x-retry-delays": "1000"}, "x-retry-delays"),
        ({"x-retry-delays": [1, -1]}, "-1"),
        ({"x-retry-delays": [True]}, "True"),
        ({"x-retry-delays": [1] * 101}, "x-retry-delays"),
        ({"x-retry-delays": [1], "x-retry-delay-min": 1}, "x-retry-delay-min"),
        ({"x-retry-delay-min": 0}, "x-retry-delay-min"),
        ({"x-retry-delay-min": 1, "x-retry-jitter": 2}, "x-retry-jitter"),
        ({"x-retry-delay-min": 1, "x-retry-multiplier": 0.5}, "x-retry-multiplier"),
        ({"x-retry-delay-min": 10, "x-retry-delay-max": 5}, "x-retry-delay-max"),
        ({"x-delayed-retry-type": "sometimes"}, "sometimes"),
        ({"x-delayed-retry-type": "all"}, "x-delayed-retry-min"),
        ({"x-delivery-limit": -2}, "x-delivery-limit"),
        ({"x-delivery-limit": "5"}, "x-delivery-limit"),
        ({"x-consumer-timeout": 0}, "x-consumer-timeout"),
    ],
)
def test_a_wrong_value_is_refused_by_name(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        QueueOptions.of(arguments)
    assert named in refusal.value.text

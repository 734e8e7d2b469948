"""The arithmetic of retries."""

from __future__ import annotations

import pytest

from leveret.client.jms import IllegalState, RedeliveryPolicy
from leveret.client.jms.policies import LONGEST_DELAY, NO_MAXIMUM


def delays(policy: RedeliveryPolicy, count: int = 4) -> list[float]:
    return [policy.delay(redelivery) for redelivery in range(1, count + 1)]


@pytest.mark.feature("S3-21")
def test_without_backoff_each_retry_waits_as_long() -> None:
    assert delays(RedeliveryPolicy()) == [1, 1, 1, 1]
    assert delays(RedeliveryPolicy(initial_delay=0)) == [0, 0, 0, 0]


def test_backoff_multiplies_up_to_the_maximum() -> None:
    growing = RedeliveryPolicy(initial_delay=2, use_exponential_backoff=True, multiplier=3)
    assert delays(growing) == [2, 6, 18, 54]
    bounded = RedeliveryPolicy(initial_delay=2, use_exponential_backoff=True, multiplier=3, maximum_delay=10)
    assert delays(bounded) == [2, 6, 10, 10]
    assert growing.delay(100_000) == LONGEST_DELAY


def test_jitter_moves_a_delay_either_way() -> None:
    policy = RedeliveryPolicy(initial_delay=10, jitter=0.15)
    chances = iter((0.0, 0.5, 1.0))
    assert [round(policy.delay(1, chances.__next__), 6) for _ in range(3)] == [8.5, 10, 11.5]
    assert all(8.5 <= delay <= 11.5 for delay in delays(policy, 50))


@pytest.mark.feature("S1-20")
def test_six_redeliveries_are_allowed_by_default() -> None:
    policy = RedeliveryPolicy()
    assert [policy.allows(redelivery) for redelivery in (1, 6, 7)] == [True, True, False]
    assert not RedeliveryPolicy(maximum_redeliveries=0).allows(1)
    assert RedeliveryPolicy(maximum_redeliveries=NO_MAXIMUM).allows(1_000_000)


@pytest.mark.parametrize(
    ("field", "value"), [("initial_delay", -1), ("multiplier", 0.5), ("jitter", 1.5), ("maximum_redeliveries", -2)]
)
def test_what_makes_no_sense_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(IllegalState, match=field):
        RedeliveryPolicy(**{field: value})  # type: ignore[arg-type]

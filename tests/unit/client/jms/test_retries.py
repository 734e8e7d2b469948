"""Messages that wait for their next try, by a clock that the test moves."""

from __future__ import annotations

from typing import Any, cast

import pytest

from leveret.client.jms.policies import RedeliveryPolicy
from leveret.client.jms.retries import Retries
from leveret.client.jms.unsettled import Dispatch
from leveret.client.messages import Delivery
from tests.support.manual_clock import ManualClock


def entry(tag: int, redeliveries: int) -> Dispatch:
    made = Dispatch(cast(Any, None), Delivery(cast(Any, None), "", tag, False, "", "q", b"", b""), 0.0, None)
    made.redeliveries = redeliveries
    return made


@pytest.mark.feature("S3-15", "S3-21")
def test_the_line_stands_still_until_the_last_of_its_pauses_is_over() -> None:
    """A short pause does not end a longer one."""
    clock, line = ManualClock(), list[Dispatch]()
    policy = RedeliveryPolicy(use_exponential_backoff=True, multiplier=5)
    retries = Retries(policy, clock, line.extend, lambda: None)
    retries.add([entry(2, 2)])
    retries.add([entry(1, 1)])
    clock.advance(1)
    assert retries.is_pausing
    clock.advance(4)
    assert not retries.is_pausing

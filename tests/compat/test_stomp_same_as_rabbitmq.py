"""STOMP beside RabbitMQ's own plugin: a client sees the same, except for what stomp_differences.py names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import leveret
from leveret import Settings
from tests.compat import stomp_scenarios, stomp_settling_scenarios
from tests.compat.rabbitmq_with_stomp import RabbitMQWithStomp
from tests.compat.stomp_differences import DIFFERENCES, Difference
from tests.compat.stomp_stage import Scenario, lived_through

SCENARIOS = stomp_scenarios.SCENARIOS + stomp_settling_scenarios.SCENARIOS
QUIET = Settings(amqp_port=0, http_port=None, stomp_port=0, shutdown_timeout=0.5, login_failure_delay=0.0)
Urls = tuple[str, str]


@pytest.fixture
def rabbitmq(one_rabbitmq: RabbitMQWithStomp) -> Urls:
    return one_rabbitmq.stomp_url, one_rabbitmq.amqp_url


@pytest.fixture(scope="module")
def ours() -> Iterator[Urls]:
    with leveret.Broker(QUIET) as running:
        yield running.stomp_url, running.amqp_url


@pytest.mark.parametrize("play", SCENARIOS, ids=lambda play: play.__name__)
@pytest.mark.feature("S3-10", "S3-16", "S3-18", "S4-40", "S4-45", "S4-52", "S4-55", "S4-74")
def test_a_client_sees_the_same(play: Scenario, rabbitmq: Urls, ours: Urls) -> None:
    """As RabbitMQ's plugin does it."""
    assert lived_through(play, *ours) == lived_through(play, *rabbitmq)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.play.__name__)
def test_a_difference_is_as_it_is_told(difference: Difference, rabbitmq: Urls, ours: Urls) -> None:
    """Those that docs/compat.md lists."""
    play, *told = difference
    assert [lived_through(play, *rabbitmq), lived_through(play, *ours)] == told

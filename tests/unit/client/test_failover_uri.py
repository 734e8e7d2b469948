"""failover: and fanout: addresses: their parts, their options, and errors that name them."""

from __future__ import annotations

from itertools import islice

import pytest

from leveret.client.errors import AddressError
from leveret.client.failover_uri import AUDITED, FOR_EVER, Backoff, plan_of


@pytest.mark.feature("S3-08")
def test_the_addresses_in_the_parentheses_are_read_with_their_own_options() -> None:
    """Several URIs in one."""
    plan = plan_of("failover:(amqp://a:1/v?heartbeat=5, amqps://u:p@b)")
    assert [(each.host, each.port, each.vhost, each.heartbeat) for each in plan.addresses] == [
        ("a", 1, "v", 5),
        ("b", 5671, "/", plan.addresses[1].heartbeat),
    ]
    assert plan.shown == "amqp://guest@a:1/v, amqps://u@b:5671/%2F"


def test_without_options_the_values_are_those_of_activemq() -> None:
    plan = plan_of("failover:(amqp://a)")
    assert plan.backoff == Backoff(initial=0.01, maximum=30.0, multiplier=2.0, is_exponential=True)
    assert (plan.attempts, plan.startup_attempts, plan.patience) == (FOR_EVER, FOR_EVER, None)
    assert (plan.is_shuffled, plan.is_audited, plan.audit_depth) == (True, True, AUDITED)


def test_every_option_is_taken() -> None:
    plan = plan_of(
        "failover://(amqp://a?heartbeat=7,amqp://b)?initialReconnectDelay=20&maxReconnectDelay=4000&randomize=false"
        "&useExponentialBackOff=false&backOffMultiplier=1.5&maxReconnectAttempts=3&startupMaxReconnectAttempts=9"
        "&timeout=250&checkForDuplicates=false&auditDepth=10&nested.connection_timeout=3"
    )
    assert plan.backoff == Backoff(initial=0.02, maximum=4.0, multiplier=1.5, is_exponential=False)
    assert (plan.attempts, plan.startup_attempts, plan.patience) == (3, 9, 0.25)
    assert (plan.is_shuffled, plan.is_audited, plan.audit_depth) == (False, False, 10)
    assert [(each.heartbeat, each.connection_timeout) for each in plan.addresses] == [
        (7, 3),
        (plan.addresses[1].heartbeat, 3),
    ]


def test_attempts_count_for_the_first_connection_too_unless_it_has_its_own() -> None:
    assert plan_of("failover:(amqp://a)?maxReconnectAttempts=4").startup_attempts == 4


def test_a_single_address_needs_no_parentheses() -> None:
    assert plan_of("failover:amqp://a?heartbeat=3").addresses[0].heartbeat == 3


@pytest.mark.feature("S3-07")
def test_a_fanout_says_how_many_must_confirm() -> None:
    assert plan_of("fanout:(amqp://a,amqp://b,amqp://c)").confirmations == 2
    assert plan_of("fanout:(amqp://a,amqp://b,amqp://c)?minAckCount=3").confirmations == 3
    assert plan_of("fanout:(amqp://a)").confirmations == 1


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("failover:(amqp://a)?colour=red", "failover: has an unknown option 'colour': known are initialReconnectDelay"),
        ("fanout:(amqp://a)?randomize=true", "fanout: has an unknown option 'randomize'"),
        ("failover:(amqp://a)?minAckCount=1", "unknown option 'minAckCount'"),
        ("fanout:(amqp://a)?minAckCount=2", "'minAckCount' is 2, but fanout: names 1 brokers: lower it"),
        ("failover:(amqp://a)?timeout=soon", "'timeout' of failover: must be a whole number from -1 on: 'soon'"),
        ("failover:(amqp://a)?maxReconnectAttempts=-2", "'maxReconnectAttempts' of failover: must be"),
        ("failover:(amqp://a)?initialReconnectDelay=0", "'initialReconnectDelay' of failover: must be"),
        ("failover:(amqp://a)?randomize=yes", "'randomize' of failover: must be true or false: 'yes'"),
        (
            "failover:(amqp://a)?backOffMultiplier=nan",
            "'backOffMultiplier' of failover: must be a number from 1 to 1e\\+06",
        ),
        (
            "failover:(amqp://a)?backOffMultiplier=x",
            "'backOffMultiplier' of failover: must be a number from 1 to 1e\\+06: 'x'",
        ),
        ("failover:()", r"failover: has no broker address: write failover:\(amqp://one"),
        ("failover:(amqp://a", "with both parentheses"),
        ("failover:(amqp://a)randomize", "with both parentheses"),
        ("failover:(gopher://a)", "must start with one of amqp://"),
        ("failover:(amqp://a)?nested.colour=red", "unknown option 'colour'"),
    ],
)
def test_an_error_names_the_part(uri: str, said: str) -> None:
    with pytest.raises(AddressError, match=said):
        plan_of(uri)


@pytest.mark.parametrize(
    "uri", ["failover:(amqp://u:secret@a", "failover:(amqp://u:secret@a)?x=1", "fanout:(x://u:secret@a)"]
)
def test_no_error_tells_a_password(uri: str) -> None:
    with pytest.raises(AddressError) as told:
        plan_of(uri)
    assert "secret" not in str(told.value)


def test_delays_begin_with_nothing_and_grow_to_their_bound() -> None:
    assert list(islice(Backoff(0.01, 0.05, 2.0).delays(), 6)) == [0.0, 0.01, 0.02, 0.04, 0.05, 0.05]
    assert list(islice(Backoff(0.01, 0.05, 2.0, is_exponential=False).delays(), 4)) == [0.0, 0.01, 0.01, 0.01]


def test_a_nested_option_may_have_any_character() -> None:
    (address,) = plan_of("failover:(amqp://a)?nested.name=a%26b%3Dc%25%23%2B").addresses
    assert address.name == "a&b=c%#+"


@pytest.mark.parametrize("password", ["hid,den", "5,hidden", "hid,5,den"])
def test_a_comma_in_a_password_is_not_shown_with_what_stands_around_it(password: str) -> None:
    with pytest.raises(AddressError) as caught:
        plan_of(f"failover:(amqp://u:{password}@h)")
    assert "hid" not in str(caught.value)
    assert "den" not in str(caught.value)
    assert "%2C" in str(caught.value)

"""Addresses with ActiveMQ's options: what is read, what is let pass, what is refused and how."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leveret.client.errors import AddressError
from leveret.client.failover_uri import Plan
from leveret.client.jms import ConnectionFactory, IllegalState, PrefetchPolicy, RedeliveryPolicy, Sending
from leveret.client.jms.destinations import FIXED as OF_CONSUMERS
from leveret.client.jms.uri_options import FIXED, split_uri

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "client-jms.md"
READ = [
    "clientID",
    "userName",
    "password",
    "useAsyncSend",
    "alwaysSyncSend",
    "sendTimeout",
    "disableTimeStampsByDefault",
    "nonBlockingRedelivery",
    "prefetchPolicy.all",
    "prefetchPolicy.queuePrefetch",
    "prefetchPolicy.topicPrefetch",
    "prefetchPolicy.durableTopicPrefetch",
    "prefetchPolicy.queueBrowserPrefetch",
    "redeliveryPolicy.maximumRedeliveries",
    "redeliveryPolicy.initialRedeliveryDelay",
    "redeliveryPolicy.redeliveryDelay",
    "redeliveryPolicy.useExponentialBackOff",
    "redeliveryPolicy.backOffMultiplier",
    "redeliveryPolicy.maximumRedeliveryDelay",
    "redeliveryPolicy.useCollisionAvoidance",
    "redeliveryPolicy.collisionAvoidancePercent",
]


@pytest.mark.parametrize(
    "before", ["tcp://host:1/red?heartbeat=5", "failover:(tcp://a,tcp://b?name=x)?randomize=false"]
)
@pytest.mark.feature("S3-18")
def test_the_prefetch_of_each_kind_is_in_the_address(before: str) -> None:
    rest, said = split_uri(f"{before}&jms.prefetchPolicy.all=100&jms.prefetchPolicy.topicPrefetch=7")
    assert rest == before
    assert said.prefetch == PrefetchPolicy(queue=100, topic=7, durable_topic=100)
    several = "jms.prefetchPolicy.durableTopicPrefetch=0&jms.prefetchPolicy.queueBrowserPrefetch=50"
    assert split_uri(f"{before}&{several}")[1].prefetch == PrefetchPolicy(durable_topic=0, browser=50)
    assert split_uri(before)[1].prefetch is None


def test_options_of_this_face_alone_leave_a_plain_address() -> None:
    assert split_uri("failover:(tcp://a)?jms.clientID=me")[0] == "failover:(tcp://a)"
    assert split_uri("tcp://a?jms.clientID=me&name=x")[0] == "tcp://a?name=x"
    assert split_uri("failover:tcp://a?jms.clientID=me")[0] == "failover:tcp://a"


@pytest.mark.feature("S1-20", "S3-21")
def test_the_redelivery_policy_is_in_the_address() -> None:
    """With ActiveMQ's names and milliseconds, and its defaults for what is not said."""

    def policy(**options: object) -> RedeliveryPolicy | None:
        query = "&".join(f"jms.redeliveryPolicy.{name}={value}" for name, value in options.items())
        return split_uri(f"tcp://a?{query}")[1].redelivery

    assert policy() is None
    assert policy(maximumRedeliveries=3) == RedeliveryPolicy(redelivery_delay=1, maximum_redeliveries=3)
    assert policy(maximumRedeliveries=-1).maximum_redeliveries == -1  # type: ignore[union-attr]
    growing = policy(
        initialRedeliveryDelay=500, useExponentialBackOff="true", backOffMultiplier="1.5", maximumRedeliveryDelay=9000
    )
    assert growing is not None
    assert [growing.delay(each) for each in (1, 2, 100)] == [0.5, 0.75, 9]
    at_first = policy(initialRedeliveryDelay=0, redeliveryDelay=200)
    assert at_first is not None
    assert [at_first.delay(each) for each in (1, 2, 3)] == [0, 0.2, 0.2]
    assert policy(useCollisionAvoidance="true").jitter == 0.15  # type: ignore[union-attr]
    assert policy(useCollisionAvoidance="true", collisionAvoidancePercent=40).jitter == 0.4  # type: ignore[union-attr]
    assert policy(collisionAvoidancePercent=40).jitter == 0  # type: ignore[union-attr]
    constant = policy(maximumRedeliveryDelay=10)
    assert constant is not None
    assert constant.delay(1) == 1  # ActiveMQ's maximum is for delays that grow
    assert split_uri("tcp://a?jms.nonBlockingRedelivery=true")[1].redelivery == RedeliveryPolicy(
        redelivery_delay=1, non_blocking=True
    )


def test_how_it_sends_is_in_the_address() -> None:
    def sending(query: str) -> Sending | None:
        return split_uri(f"tcp://a?{query}")[1].sending

    assert sending("name=x") is None
    assert sending("jms.useAsyncSend=true") == Sending(is_async=True)
    assert sending("jms.useAsyncSend=true&jms.alwaysSyncSend=true") == Sending()
    assert sending("jms.useAsyncSend=true&jms.sendTimeout=1500") == Sending(timeout=1.5)
    assert sending("jms.sendTimeout=0") == Sending()
    assert sending("jms.disableTimeStampsByDefault=true") == Sending(has_timestamps=False)


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("tcp://a?jms.colour=red", "unknown option 'jms.colour': known are jms.clientID, .*nonBlocking.*; remove it"),
        (
            "tcp://a?jms.useCompression=true",
            "has an unsupported setting 'jms.useCompression': .*compress them before",
        ),
        ("tcp://a?jms.prefetchPolicy.all=many", r"'jms\.prefetchPolicy\.all' of the address must be a whole number"),
        ("tcp://a?jms.prefetchPolicy.queueBrowserPrefetch=0", "from 1 to 65535: '0'"),
        ("tcp://a?jms.redeliveryPolicy.backOffMultiplier=0.5", "from 1 to"),
        ("tcp://a?jms.redeliveryPolicy.backOffMultiplier=nan", "from 1 to"),
        ("tcp://a?jms.useAsyncSend=perhaps", "must be true or false: 'perhaps'"),
        ("failover:(tcp://a?jms.clientID=me)", r"'jms\.clientID' is inside the parentheses, .* after them"),
        ("failover:(tcp://a?name=x&jms.clientID=me,tcp://b)?timeout=1", "is inside the parentheses"),
        ("failover:(tcp://a)?nested.jms.clientID=me", r"'nested\.jms\.clientID' .*: write it without nested\."),
        ("failover:(tcp://a)?jms.checkForDuplicates=true", "write checkForDuplicates without jms."),
        ("failover:(tcp://a)?colour=red", "unknown option 'colour'"),
        ("failover:(carrier-pigeon://a)", "must start with one of"),
    ],
)
def test_what_cannot_be_had_is_refused_when_the_factory_is_made(uri: str, problem: str) -> None:
    with pytest.raises(AddressError, match=problem):
        ConnectionFactory(uri)


def test_a_value_that_says_what_is_so_in_any_case_is_let_pass() -> None:
    ConnectionFactory("tcp://a?jms.useCompression=false&jms.dispatchAsync=true&jms.watchTopicAdvisories=False")


def test_a_part_that_is_given_stands_above_the_address() -> None:
    uri = "tcp://a?jms.clientID=me&jms.prefetchPolicy.all=5&jms.redeliveryPolicy.maximumRedeliveries=3"
    plain = ConnectionFactory(uri)
    assert (plain.client_id, plain.prefetch.queue, plain.redelivery.maximum_redeliveries) == ("me", 5, 3)
    other = ConnectionFactory(uri, client_id="you", prefetch=9, redelivery=RedeliveryPolicy(), sending=Sending())
    assert (other.client_id, other.prefetch.queue, other.redelivery.maximum_redeliveries) == ("you", 9, 6)


def test_a_login_goes_to_each_of_several_brokers() -> None:
    uri = "failover:(tcp://a:1/red?name=x, tls://old:secret@b)?randomize=false"
    plan = ConnectionFactory(uri, user="an@n", password="p:w/")._address()
    assert isinstance(plan, Plan)
    assert [(each.host, each.user, each.password) for each in plan.addresses] == [
        ("a", "an@n", "p:w/"),
        ("b", "an@n", "p:w/"),
    ]
    assert (plan.addresses[0].vhost, plan.addresses[0].name, plan.is_shuffled) == ("red", "x", False)
    plan = ConnectionFactory("failover:tcp://ann:old@a")._address(password="new")
    assert isinstance(plan, Plan)
    assert (plan.addresses[0].user, plan.addresses[0].password) == ("ann", "new")
    with pytest.raises(IllegalState, match="vhost cannot be combined with"):
        ConnectionFactory("failover:(tcp://a)", vhost="red")


def test_a_password_in_the_address_is_in_no_error() -> None:
    with pytest.raises(AddressError) as caught:
        ConnectionFactory("tcp://a?jms.userName=ann&jms.password=secret&colour=red")
    assert "secret" not in str(caught.value)


def test_the_guide_names_every_option_and_no_other() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:jms|consumer)\.[A-Za-z.]+)`", text))
    consumers = {"prefetchSize", "priority", "exclusive", "noLocal", "selector", *OF_CONSUMERS}
    assert named == {f"jms.{name}" for name in [*READ, *FIXED]} | {f"consumer.{name}" for name in consumers}

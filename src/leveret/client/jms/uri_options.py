"""Options of a connection in its address, in ActiveMQ's syntax.

    tcp://host?jms.prefetchPolicy.queuePrefetch=1
    failover:(tcp://a,tcp://b)?jms.redeliveryPolicy.maximumRedeliveries=3&randomize=false

Those that begin with ``jms.`` are read here, the others by the client. Times are in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_plus

from leveret.client.errors import AddressError
from leveret.client.failover_uri import MOST_MULTIPLIER, is_plan
from leveret.client.jms.destinations import LARGEST_PREFETCH
from leveret.client.jms.policies import DEFAULT_PREFETCH, NO_MAXIMUM, PrefetchPolicy, RedeliveryPolicy, Sending
from leveret.client.option_reader import Fixed, OptionReader, given

JMS = "jms."
NESTED = "nested."
DEFAULT_DELAY = 1_000  # milliseconds
DEFAULT_COLLISION_PERCENT = 15

OF_OBJECTS = Fixed((), "object messages are not supported; send text, bytes or maps")
OF_LAZY_ACKS = Fixed((), "for lazy acknowledgements, create the session with AckMode.DUPS_OK")
FIXED = {
    "alwaysSessionAsync": Fixed(("true",), "each session dispatches to its consumers by itself; remove it"),
    "auditDepth": Fixed((), "it is an option of failover: addresses: write auditDepth without jms."),
    "auditMaximumProducerNumber": Fixed((), "IDs are recorded per queue: see auditDepth of failover:"),
    "checkForDuplicates": Fixed((), "it is an option of failover: addresses: write checkForDuplicates without jms."),
    "closeTimeout": Fixed((), "a close waits at most 5 s for the broker's answer; remove it"),
    "connectResponseTimeout": Fixed((), "write connection_timeout=SECONDS in the address"),
    "consumerExpiryCheckEnabled": Fixed(("true",), "messages expired in the client are never delivered; remove it"),
    "copyMessageOnSend": Fixed(("true", "false"), "a message is encoded when it is sent; remove it"),
    "dispatchAsync": Fixed(("true",), "a consumer never delays deliveries to other consumers; remove it"),
    "exclusiveConsumer": Fixed(("false",), "write consumer.exclusive=true after the name of a queue"),
    "messagePrioritySupported": Fixed(("true",), "a queue with x-max-priority orders by priority; remove it"),
    "nestedMapAndListEnabled": Fixed(("true",), "maps are JSON and may contain maps and lists; remove it"),
    "objectMessageSerializationDefered": OF_OBJECTS,
    "optimizeAcknowledge": Fixed(("false",), OF_LAZY_ACKS.reason),
    "optimizeAcknowledgeTimeOut": OF_LAZY_ACKS,
    "optimizedAckScheduledAckInterval": OF_LAZY_ACKS,
    "optimizedMessageDispatch": Fixed((), "use jms.prefetchPolicy.durableTopicPrefetch"),
    "producerWindowSize": Fixed(("0",), "the broker applies flow control to fast producers; remove it"),
    "sendAcksAsync": Fixed(("true",), "acknowledgements are never awaited; remove it"),
    "statsEnabled": Fixed(("false",), "statistics are collected by the broker: see its metrics"),
    "trustAllPackages": OF_OBJECTS,
    "trustedPackages": OF_OBJECTS,
    "useCompression": Fixed(("false",), "bodies are sent as they are; compress them before sending"),
    "useDedicatedTaskRunner": Fixed(("true", "false"), "threads are not configurable; remove it"),
    "useRetroactiveConsumer": Fixed(("false",), "topics store nothing for later subscribers: subscribe durably"),
    "warnAboutUnstartedConnectionTimeout": Fixed(("-1",), "this warning does not exist; remove it"),
    "watchTopicAdvisories": Fixed(("false",), "advisory topics are not supported; remove it"),
    "prefetchPolicy.inputStreamPrefetch": Fixed((), "message streams are not supported; remove it"),
    "prefetchPolicy.maximumPendingMessageLimit": Fixed(("0",), "limit the queues of subscribers by a policy"),
    "prefetchPolicy.optimizeDurableTopicPrefetch": Fixed((), "write durableTopicPrefetch"),
    "redeliveryPolicy.collisionAvoidanceFactor": Fixed((), "write collisionAvoidancePercent"),
}
"""Without ``jms.``."""


@dataclass(slots=True, frozen=True)
class UriOptions:
    """The options of an address. None: not given."""

    client_id: str | None = None
    user: str | None = None
    password: str | None = None
    prefetch: PrefetchPolicy | None = None
    redelivery: RedeliveryPolicy | None = None
    sending: Sending | None = None


def split_uri(uri: str) -> tuple[str, UriOptions]:
    """The address for the client, and the options that are read here."""
    is_composite = is_plan(uri) and "(" in uri
    head, separator, query = _parted(uri) if is_composite else uri.partition("?")
    if is_composite:
        _refuse_inside(head)
    ours: dict[str, str] = {}
    others: list[str] = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name.startswith(NESTED + JMS):
            raise AddressError(f"'{name}' is for the connection as a whole: write it without {NESTED}")
        if name.startswith(JMS):
            ours[name] = unquote_plus(value)
        else:
            others.append(part)
    return head + (separator if others else "") + "&".join(others), _read(ours)


def _parted(uri: str) -> tuple[str, str, str]:
    inner, closing, behind = uri.rpartition(")")
    if not behind.startswith("?"):
        return uri, "", ""
    return inner + closing, "?", behind[1:]


def _refuse_inside(head: str) -> None:
    for sign in ("?", "&"):
        if sign + JMS in head:
            name = head.partition(sign + JMS)[2].partition("=")[0]
            raise AddressError(
                f"'{JMS}{name}' is inside the parentheses, but applies to the whole connection: write it after them"
            )


def _read(written: dict[str, str]) -> UriOptions:
    options = OptionReader(written, AddressError, "the address", prefix=JMS, fixed=FIXED)
    found = UriOptions(
        client_id=options.text("clientID"),
        user=options.text("userName"),
        password=options.text("password"),
        prefetch=_prefetch(options),
        redelivery=_redelivery(options),
        sending=_sending(options),
    )
    options.refuse_left()
    return found


def _prefetch(options: OptionReader) -> PrefetchPolicy | None:
    everywhere = options.whole("prefetchPolicy.all", 0, LARGEST_PREFETCH)
    names = ("queuePrefetch", "topicPrefetch", "durableTopicPrefetch")
    found = [options.whole(f"prefetchPolicy.{name}", 0, LARGEST_PREFETCH) for name in names]
    browser = options.whole("prefetchPolicy.queueBrowserPrefetch", 1, LARGEST_PREFETCH)
    if everywhere is None and browser is None and found == [None, None, None]:
        return None
    default = given(everywhere, DEFAULT_PREFETCH)
    queue, topic, durable = (given(number, default) for number in found)
    return PrefetchPolicy(queue, topic, durable, given(browser, DEFAULT_PREFETCH))


def _redelivery(options: OptionReader) -> RedeliveryPolicy | None:
    """With ActiveMQ's defaults. Its maximum delay applies to growing delays only."""
    policy = "redeliveryPolicy."
    maximum = options.whole(policy + "maximumRedeliveries", NO_MAXIMUM)
    first = options.whole(policy + "initialRedeliveryDelay", 0)
    next_ones = options.whole(policy + "redeliveryDelay", 0)
    grows = options.truth(policy + "useExponentialBackOff")
    multiplier = options.decimal(policy + "backOffMultiplier", 1, MOST_MULTIPLIER)
    longest = options.whole(policy + "maximumRedeliveryDelay", NO_MAXIMUM)
    spreads = options.truth(policy + "useCollisionAvoidance")
    percent = options.whole(policy + "collisionAvoidancePercent", 0, 100)
    passes = options.truth("nonBlockingRedelivery")
    values = (maximum, first, next_ones, grows, multiplier, longest, spreads, percent, passes)
    if all(value is None for value in values):
        return None
    defaults = RedeliveryPolicy()
    return RedeliveryPolicy(
        initial_delay=given(first, DEFAULT_DELAY) / 1000,
        redelivery_delay=given(next_ones, DEFAULT_DELAY) / 1000,
        use_exponential_backoff=bool(grows),
        multiplier=given(multiplier, defaults.multiplier),
        maximum_delay=longest / 1000 if grows and longest is not None and longest >= 0 else NO_MAXIMUM,
        jitter=given(percent, DEFAULT_COLLISION_PERCENT) / 100 if spreads else 0.0,
        maximum_redeliveries=given(maximum, defaults.maximum_redeliveries),
        non_blocking=bool(passes),
    )


def _sending(options: OptionReader) -> Sending | None:
    is_async = options.truth("useAsyncSend")
    is_sync = options.truth("alwaysSyncSend")
    timeout = options.whole("sendTimeout", 0)
    without_times = options.truth("disableTimeStampsByDefault")
    if all(value is None for value in (is_async, is_sync, timeout, without_times)):
        return None
    return Sending(
        is_async=bool(is_async) and not is_sync and not timeout,
        timeout=timeout / 1000 if timeout else None,
        has_timestamps=not without_times,
    )

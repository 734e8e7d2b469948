"""Options of the source and the sink, validated once on the driver."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal
from urllib.parse import urlsplit

from leveret.spark.credentials import FIRST_USER, Secret, secret_for
from leveret.spark.errors import OptionError
from leveret.spark.option_values import OptionValues, invalid_option, offsets_by_queue
from leveret.spark.timestamps import timestamps_of

EARLIEST, LATEST = -2, -1
WORDS = {"earliest": EARLIEST, "latest": LATEST}
DEFAULT_DELAY = 15 * 60.0  # seconds, as in Spark's Kafka source
DEFAULT_ENDPOINT = "http://127.0.0.1:15672"
DEFAULT_PORTS = {"http": 15672, "https": 15671}

CONNECTION = ("endpoint", "vhost", "username", "credentialsFile", "timeoutSeconds", "retrySeconds", "direct")
Parameter = Literal["queue", "super_stream", "pattern"]  # of the broker's API
PARAMETERS: dict[str, Parameter] = {"queue": "queue", "superStream": "super_stream", "subscribePattern": "pattern"}
SELECTION = tuple(PARAMETERS)
READING = (
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "minPartitions", "failOnDataLoss"),
    *("columns", "includeHeaders", "routingKeyPattern"),
)
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "pushFilters")
STREAM_ONLY = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("consumerName", "pinned"),
)
SOURCE = (*SELECTION, *READING, *BATCH_ONLY, *STREAM_ONLY)
SINK = ("exchange", "routingKey", "mandatory", "unroutable", "guarantee", "transactionId", "batchId")
ELSEWHERE = dict.fromkeys(SOURCE, "for sources only") | dict.fromkeys(SINK, "for sinks only")
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
FAIL, REPORT = "fail", "report"  # if mandatory rows are routed to no queue


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The HTTP address of a broker."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Home:
    """The cell where a queue is. ``identity``: what it calls itself, to be sent with each request."""

    endpoint: Endpoint
    identity: str


@dataclass(frozen=True, slots=True)
class Access:
    """The addresses, virtual host and credentials for a connection."""

    endpoints: tuple[Endpoint, ...]
    vhost: str
    username: str
    secret: Secret
    timeout_seconds: int
    retry_seconds: int
    direct: bool = True  # read queues from the cells where they live


@dataclass(frozen=True, slots=True)
class Selection:
    """The queues to read: a parameter of the broker's API and its value."""

    parameter: Parameter
    value: str

    def __str__(self) -> str:
        return f"{self.parameter.replace('_', ' ')} '{self.value}'"


@dataclass(frozen=True, slots=True)
class Position:
    """A start or end: one offset or time for all queues, or one for each queue. Times are milliseconds since 1970."""

    option: str
    everywhere: int | None = None
    by_queue: Mapping[str, int] | None = None
    timestamp: int | None = None
    timestamps: Mapping[str, int] | None = None  # by queue


@dataclass(frozen=True, slots=True)
class SourceOptions:
    access: Access
    selection: Selection
    starting: Position | None
    ending: Position
    max_rows: int | None
    max_bytes: int | None
    min_rows: int | None
    longest_delay: float  # seconds that a batch waits for min_rows
    min_partitions: int | None
    fail_on_data_loss: bool
    columns: tuple[str, ...]  # none: all
    include_headers: bool
    routing_key_pattern: str | None
    consumer: str | None
    pinned: bool
    push_filters: bool


@dataclass(frozen=True, slots=True)
class SinkOptions:
    access: Access
    exchange: str | None
    routing_key: str | None
    mandatory: bool
    reports_unroutable: bool
    exactly_once: bool
    transaction: str | None
    batch: int


def source_options(options: Mapping[str, str]) -> SourceOptions:
    given = OptionValues(options, (*CONNECTION, *SOURCE))
    given.refuse_unknown(ELSEWHERE)
    for which in ("starting", "ending"):
        for one, other in combinations((f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp"), 2):
            given.refuse_together(one, other)
    columns = given.words("columns")
    consumer = given.filled("consumerName")
    pinned = given.flag("pinned", False)
    if pinned and consumer is None:
        raise OptionError("option pinned is 'true' without a consumerName; name the consumer that retention waits for")
    return SourceOptions(
        access=access_of(given),
        selection=_selection(given),
        starting=_position(given, "starting", EARLIEST),
        ending=_position(given, "ending", LATEST) or Position("endingOffsets", everywhere=LATEST),
        max_rows=given.whole_number("maxOffsetsPerTrigger"),
        max_bytes=given.whole_number("maxBytesPerTrigger"),
        min_rows=_min_rows(given),
        longest_delay=given.seconds("maxTriggerDelay", DEFAULT_DELAY),
        min_partitions=given.whole_number("minPartitions"),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        columns=columns,
        include_headers=given.flag("includeHeaders", "headers" in columns),
        routing_key_pattern=given.filled("routingKeyPattern"),
        consumer=consumer,
        pinned=pinned,
        push_filters=given.flag("pushFilters", False),
    )


def _min_rows(given: OptionValues) -> int | None:
    least, most = given.whole_number("minOffsetsPerTrigger"), given.whole_number("maxOffsetsPerTrigger")
    if least is None and "maxTriggerDelay" in given:
        raise OptionError("option maxTriggerDelay is the longest wait for minOffsetsPerTrigger; set that as well")
    if least is not None and most is not None and least > most:
        raise OptionError(f"option minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger ({most}); lower it")
    return least


def refuse_options_of_streams(options: Mapping[str, str]) -> None:
    _refuse_misplaced(options, STREAM_ONLY, "for streaming reads (readStream) only")


def refuse_options_of_batches(options: Mapping[str, str]) -> None:
    _refuse_misplaced(options, BATCH_ONLY, "for batch reads (read) only")


def refuse_options_of_batch_writes(options: Mapping[str, str]) -> None:
    _refuse_misplaced(options, ("batchId",), "for batch writes (write) only, Spark numbers the batches of a query")


def _refuse_misplaced(options: Mapping[str, str], names: tuple[str, ...], why: str) -> None:
    given = OptionValues(options, names)
    for name in names:
        if name in given:
            raise OptionError(f"option {name} is {why}; remove it")


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    given = OptionValues(options, (*CONNECTION, *SINK))
    given.refuse_unknown(ELSEWHERE)
    if "batchId" in given and "transactionId" not in given:
        raise OptionError("option batchId numbers the parts of a transaction; name it by the option transactionId")
    return SinkOptions(
        access=access_of(given),
        exchange=given.text("exchange"),
        routing_key=given.text("routingKey"),
        mandatory=given.flag("mandatory", False),
        reports_unroutable=given.one_of("unroutable", (FAIL, REPORT)) == REPORT,
        exactly_once=given.one_of("guarantee", (EXACTLY_ONCE, AT_LEAST_ONCE)) == EXACTLY_ONCE,
        transaction=given.filled("transactionId"),
        batch=given.whole_number("batchId", 0) or 0,
    )


def connection_options(options: Mapping[str, str]) -> Access:
    """The options that are needed to connect to the broker."""
    given = OptionValues(options, CONNECTION)
    given.refuse_unknown(ELSEWHERE)
    return access_of(given)


def access_of(given: OptionValues) -> Access:
    endpoints = tuple(endpoint_of(part.strip()) for part in (given.text("endpoint") or DEFAULT_ENDPOINT).split(","))
    username = given.filled("username") or FIRST_USER
    loopback = all(endpoint.is_loopback for endpoint in endpoints)
    return Access(
        endpoints=endpoints,
        vhost=given.filled("vhost") or "/",
        username=username,
        secret=secret_for(username, given.filled("credentialsFile"), os.environ, loopback=loopback),
        timeout_seconds=given.whole_number("timeoutSeconds") or 60,
        retry_seconds=60 if (seconds := given.whole_number("retrySeconds", 0)) is None else seconds,
        direct=given.flag("direct", True),
    )


def endpoint_of(text: str) -> Endpoint:
    remedy = f"give URLs such as {DEFAULT_ENDPOINT}, separated by commas"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise invalid_option("endpoint", text, remedy) from error
    if parts.username is not None or parts.password is not None:
        # The error does not repeat the value: it contains a password.
        raise OptionError("option endpoint holds a user or password; use the options username and credentialsFile")
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.path not in {"", "/"} or parts.query:
        raise invalid_option("endpoint", text, remedy)
    return Endpoint(parts.scheme, parts.hostname, DEFAULT_PORTS[parts.scheme] if port is None else port)


def _selection(given: OptionValues) -> Selection:
    chosen = [name for name in SELECTION if name in given]
    if len(chosen) != 1:
        found = " and ".join(chosen) + " are given" if chosen else "none is given"
        raise OptionError(f"one of the options {', '.join(SELECTION)} is required, {found}; set exactly one")
    value = given.filled(chosen[0])
    assert value is not None
    parameter = PARAMETERS[chosen[0]]
    if parameter == "pattern":
        try:
            re.compile(value)
        except re.error as error:
            remedy = f"give a regular expression for names of queues ({error})"
            raise invalid_option("subscribePattern", value, remedy) from error
    return Selection(parameter, value)


def _position(given: OptionValues, which: str, lowest: int) -> Position | None:
    for option in (f"{which}Timestamp", f"{which}OffsetsByTimestamp"):  # the latter as in Spark's Kafka source
        if (moment := given.filled(option)) is not None:
            found = timestamps_of(option, moment)
            if isinstance(found, int):
                return Position(option, timestamp=found)
            return Position(option, timestamps=found)
    name = f"{which}Offsets"
    text = given.filled(name)
    if text is None:
        return None
    if text.lower() in WORDS:
        if WORDS[text.lower()] < lowest:
            raise invalid_option(name, text, "give latest or JSON")
        return Position(name, everywhere=WORDS[text.lower()])
    return Position(name, by_queue=offsets_by_queue(name, text, lowest))

"""What a job is: a name, options that are declared once, and a function that starts it.

A job's options are a frozen dataclass. Each field carries its default, its type and its help; the command line, the
``--help`` page and the checks all come from it. What many jobs need is declared here once and joined by inheritance::

    BrokerOptions                which broker, and as whom
    ├── SourceOptions            which queues, and from where on
    └── SinkOptions              which exchange, and with what guarantee
    QueryOptions                 where a query remembers how far it is, and whether it ends
    PassingOptions               all of these: from queues to an exchange
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from leveret.errors import ConfigError
from leveret.spark.options import CONNECTION, SINK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.spark.jobs.running import Running

SINK_NAMES = {name.lower() for name in SINK}
BROKER_NAMES = {name.lower() for name in CONNECTION}


def setting(help: str, default: Any = MISSING, *, metavar: str | None = None, choices: tuple[str, ...] = ()) -> Any:
    """A field of a job's options; without a default it must be given."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "choices": choices})


@dataclass(frozen=True)
class Job:
    """One pipeline: ``start(spark, options)`` sets it going and gives what is to be watched."""

    name: str
    options: type[Any]
    start: Callable[[SparkSession, Any], Running]


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    endpoint: str | None = setting("HTTP URLs of the broker, with commas between  [http://127.0.0.1:15672]", None)
    vhost: str | None = setting("the virtual host  [/]", None)
    username: str | None = setting("the user; the password is in LEVERET_PASSWORD or --credentials-file  [guest]", None)
    credentials_file: str | None = setting("a file with the password", None, metavar="FILE")
    option: Mapping[str, str] = setting(
        "any further option of the source or the sink, as maxOffsetsPerTrigger=100000", None, metavar="NAME=VALUE"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "option", dict(self.option or {}))
        for declared in fields(self):
            choices = declared.metadata["choices"]
            value = getattr(self, declared.name)
            if choices and value not in choices:
                raise ConfigError(f"{flag_of(declared.name)} is {value!r}: it can be {' or '.join(choices)}")
        self.check()

    def check(self) -> None:
        """Refuse what does not fit together."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions(BrokerOptions):
    queue: str | None = setting("read this queue or stream", None)
    super_stream: str | None = setting("read all shards of this exchange", None, metavar="EXCHANGE")
    pattern: str | None = setting("read every queue whose name matches", None, metavar="REGEX")
    starting_offsets: str | None = setting("where a new query begins: earliest, latest or JSON  [earliest]", None)
    consumer_name: str | None = setting("the name under which the broker knows this reader", None, metavar="NAME")
    max_per_batch: int | None = setting("at most so many messages in one batch", None, metavar="N")

    def check(self) -> None:
        super().check()
        if self.needs_queues() and sum(name is not None for name in self.chosen()) != 1:
            raise ConfigError("say what to read by exactly one of --queue, --super-stream and --pattern")

    def needs_queues(self) -> bool:
        return True

    def chosen(self) -> tuple[str | None, ...]:
        return self.queue, self.super_stream, self.pattern


@dataclass(frozen=True, kw_only=True)
class SinkOptions(BrokerOptions):
    exchange: str | None = setting("publish the results to this exchange", None)
    routing_key: str | None = setting("publish with this routing key  [the message's own]", None, metavar="KEY")
    guarantee: str = setting(
        "how often a message arrives", "exactly-once", choices=("exactly-once", "at-least-once"), metavar="WORD"
    )
    transaction_id: str | None = setting("the name of this writer's batches; a new checkpoint can go on with it", None)


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    checkpoint: str | None = setting("the folder in which the query remembers how far it is", None, metavar="FOLDER")
    continuous: bool = setting("go on until stopped; otherwise work through what is there, and end", False)
    interval: str = setting("with --continuous: how often a batch begins", "1 second", metavar="TIME")


@dataclass(frozen=True, kw_only=True)
class PassingOptions(SourceOptions, SinkOptions, QueryOptions):
    """For jobs that take messages from queues and publish to an exchange."""


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def required(value: str | None, name: str, why: str) -> str:
    """The value of an option that this kind of run cannot do without."""
    if not value:
        raise ConfigError(f"{flag_of(name)} is missing: {why}")
    return value


def broker_settings(options: BrokerOptions) -> dict[str, str]:
    """The options of ``format("leveret")`` that say which broker, and as whom."""
    given = {
        "endpoint": options.endpoint,
        "vhost": options.vhost,
        "username": options.username,
        "credentialsFile": options.credentials_file,
    }
    passed = {name: value for name, value in options.option.items() if name.lower() in BROKER_NAMES}
    return {name: value for name, value in given.items() if value is not None} | passed


def source_settings(options: SourceOptions) -> dict[str, str]:
    given = {
        "queue": options.queue,
        "superStream": options.super_stream,
        "subscribePattern": options.pattern,
        "startingOffsets": options.starting_offsets,
        "consumerName": options.consumer_name,
        "maxOffsetsPerTrigger": None if options.max_per_batch is None else str(options.max_per_batch),
    }
    passed = {name: value for name, value in options.option.items() if name.lower() not in SINK_NAMES}
    return broker_settings(options) | {name: value for name, value in given.items() if value is not None} | passed


def sink_settings(options: SinkOptions) -> dict[str, str]:
    given = {
        "exchange": options.exchange,
        "routingKey": options.routing_key,
        "guarantee": options.guarantee,
        "transactionId": options.transaction_id,
    }
    passed = {name: value for name, value in options.option.items() if name.lower() in SINK_NAMES}
    return broker_settings(options) | {name: value for name, value in given.items() if value is not None} | passed

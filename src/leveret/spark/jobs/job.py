"""A job: a name, declared options, and a function that starts it.

The options of a job are a frozen dataclass. Each field has a type, a default and a help text, from which the command
line, ``--help`` and the checks are generated. Options shared by several jobs are declared here::

    BrokerOptions                the broker and the user
    ├── SourceOptions            the queues to read, and the position to start from
    └── SinkOptions              the exchange to publish to, and the delivery guarantee
    QueryOptions                 the checkpoint of a query, and whether it runs continuously
    PassingOptions               all of these: from queues to an exchange
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from leveret.errors import ConfigError
from leveret.spark.options import CONNECTION, FAIL, REPORT, SINK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.spark.jobs.running_job import Running

SINK_NAMES = {name.lower() for name in SINK}
OTHER_NAMES = {"pattern": "subscribePattern", "max_per_batch": "maxOffsetsPerTrigger"}
BROKER_NAMES = {name.lower() for name in CONNECTION}
MANDATORY = "mandatory"


def setting(help: str, default: Any = MISSING, *, metavar: str | None = None, choices: tuple[str, ...] = ()) -> Any:
    """A field of a job's options; required if it has no default."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "choices": choices})


@dataclass(frozen=True)
class Job:
    """One pipeline: ``start(spark, options)`` starts it and returns an object to watch it."""

    name: str
    options: type[Any]
    start: Callable[[SparkSession, Any], Running]


@dataclass(frozen=True, kw_only=True)
class BrokerOptions:
    endpoint: str | None = setting("Comma-separated HTTP URLs of the broker.  [default: http://127.0.0.1:15672]", None)
    vhost: str | None = setting("Virtual host.  [default: /]", None)
    username: str | None = setting("User name; see LEVERET_PASSWORD, --credentials-file.  [default: guest]", None)
    credentials_file: str | None = setting("File with the password.", None, metavar="FILE")
    option: Mapping[str, str] = setting(
        "Another option of the source or sink, such as maxOffsetsPerTrigger=100000; repeatable.",
        None,
        metavar="NAME=VALUE",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "option", dict(self.option or {}))
        for declared in fields(self):
            choices = declared.metadata["choices"]
            value = getattr(self, declared.name)
            if choices and value not in choices:
                raise ConfigError(f"invalid {flag_of(declared.name)} {value!r}: choose one of {', '.join(choices)}")
        self.check()

    def check(self) -> None:
        """Refuse options that exclude each other."""


@dataclass(frozen=True, kw_only=True)
class SourceOptions(BrokerOptions):
    queue: str | None = setting("Queue or stream to read.", None)
    super_stream: str | None = setting("Super stream or sharded exchange to read.", None, metavar="EXCHANGE")
    pattern: str | None = setting("Read every queue whose name matches.", None, metavar="REGEX")
    starting_offsets: str | None = setting(
        "Where a new query starts: earliest, latest or JSON.  [default: earliest]", None
    )
    consumer_name: str | None = setting("Consumer name of this reader at the broker.", None, metavar="NAME")
    max_per_batch: int | None = setting("Maximum number of messages per batch.", None, metavar="N")

    def check(self) -> None:
        super().check()
        if self.needs_queues() and sum(name is not None for name in self.chosen()) != 1:
            raise ConfigError("specify what to read with exactly one of --queue, --super-stream and --pattern")

    def needs_queues(self) -> bool:
        return True

    def chosen(self) -> tuple[str | None, ...]:
        return self.queue, self.super_stream, self.pattern


@dataclass(frozen=True, kw_only=True)
class SinkOptions(BrokerOptions):
    exchange: str | None = setting("Exchange to publish the results to.", None)
    routing_key: str | None = setting("Routing key.  [default: that of the message]", None, metavar="KEY")
    guarantee: str = setting(
        "Delivery guarantee: exactly-once or at-least-once.",
        "exactly-once",
        choices=("exactly-once", "at-least-once"),
        metavar="WORD",
    )
    transaction_id: str | None = setting("Transaction name of this writer.  [default: the ID of the query]", None)
    unroutable: str = setting(
        "Messages that are routed to no queue: fail the pipeline, or report (drop them with a warning).",
        FAIL,
        choices=(FAIL, REPORT),
        metavar="WORD",
    )


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    checkpoint: str | None = setting("Checkpoint directory of the query.", None, metavar="FOLDER")
    continuous: bool = setting("Run until stopped; otherwise process the available messages and exit.", False)
    interval: str = setting("With --continuous: interval between batches.", "1 second", metavar="TIME")


@dataclass(frozen=True, kw_only=True)
class PassingOptions(SourceOptions, SinkOptions, QueryOptions):
    """For jobs that read queues and publish to an exchange."""


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def required(value: str | None, name: str, why: str) -> str:
    """The value of an option that is required in this case; ``why`` is part of the error."""
    if not value:
        raise ConfigError(f"{flag_of(name)} is missing: {why}")
    return value


def broker_settings(options: BrokerOptions) -> dict[str, str]:
    """The options of ``format("leveret")`` for the connection to the broker."""
    return _settings(options, BrokerOptions, lambda name: name in BROKER_NAMES)


def source_settings(options: SourceOptions) -> dict[str, str]:
    return _settings(options, SourceOptions, lambda name: name not in SINK_NAMES)


def sink_settings(options: SinkOptions) -> dict[str, str]:
    """Messages that are routed to no queue are lost, so they fail the write unless an option allows them."""
    given = _settings(options, SinkOptions, lambda name: name in SINK_NAMES or name in BROKER_NAMES)
    return given if MANDATORY in map(str.lower, given) else given | {MANDATORY: "true"}


def _settings(options: BrokerOptions, group: type[BrokerOptions], takes: Callable[[str], bool]) -> dict[str, str]:
    """The given options of this group, and those of ``--option`` that it takes."""
    given = {_name_in_spark(each.name): getattr(options, each.name) for each in fields(group) if each.name != "option"}
    passed = {name: value for name, value in options.option.items() if takes(name.lower())}
    return {option: str(value) for option, value in given.items() if value is not None} | passed


def _name_in_spark(name: str) -> str:
    """The name of the option in ``format("leveret")``: the same in camel case, with two exceptions."""
    first, *others = name.split("_")
    return OTHER_NAMES.get(name, first + "".join(map(str.capitalize, others)))

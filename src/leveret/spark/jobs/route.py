"""route: publishes each message with a routing key computed by SQL rules.

``--rule "amount > 100 => big.{country}"``: an SQL condition, and the routing key, with SQL expressions in braces. The
first matching rule applies. A message that matches no rule keeps its routing key, gets that of ``--otherwise``, or is
dropped (``--drop``).

Rules can use the columns of the message and, with ``--schema``, the fields of its JSON body; a field with the name of a
column is ``value.NAME``. With ``--table`` they can also use the columns of a file, joined by ``--on``. The file has at
most one row for each key: a second one is refused when the job starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import counted
from leveret.spark.jobs.job import Job, PassingOptions, setting
from leveret.spark.jobs.messages import outgoing, publish, read_stream, text_of_body
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.running_job import Queries

ARROW = "=>"
MOST_KEYS = 5  # named in an error
READERS = {"csv": {"header": "true", "inferSchema": "true"}, "json": {}, "parquet": {}, "orc": {}}


class Rule(NamedTuple):
    condition: str
    key: str


@dataclass(frozen=True, kw_only=True)
class RouteOptions(PassingOptions):
    rule: tuple[str, ...] = setting(
        "SQL condition and the routing key for matching messages; repeatable.", (), metavar="'SQL => KEY'"
    )
    schema: str | None = setting("Fields of a JSON body, such as amount DOUBLE, country STRING.", None, metavar="DDL")
    table: str | None = setting("CSV, JSON, Parquet or ORC file with columns for the rules.", None, metavar="FILE")
    on: str | None = setting("With --table: the columns to join messages and table on.", None, metavar="COLUMNS")
    otherwise: str | None = setting(
        "Routing key if no rule matches.  [default: that of the message]", None, metavar="KEY"
    )
    drop: bool = setting("Drop messages that match no rule.", False)

    def check(self) -> None:
        super().check()
        if not self.rule:
            raise ConfigError('--rule is missing: give at least one, as --rule "amount > 100 => big"')
        for text in self.rule:
            rule_of(text)
        if self.routing_key is not None:
            raise ConfigError("--routing-key would replace what the rules compute: use --otherwise for the rest")
        if (self.table is None) != (self.on is None):
            raise ConfigError("--table and --on belong together: --table customers.csv --on customer")


def start(spark: SparkSession, options: RouteOptions) -> Queries:
    sent = counted(outgoing(routed(spark, read_stream(spark, options, "route"), options)))
    return Queries(publish(sent, options, "route"), now=lambda: queues_of(options))


def routed(spark: SparkSession, messages: DataFrame, options: RouteOptions) -> DataFrame:
    """The messages with their new routing keys."""
    rows = with_fields(messages, options.schema)
    if options.table is not None and options.on is not None:
        on = [name.strip() for name in options.on.split(",")]
        rows = rows.join(unambiguous(table_of(spark, options.table), on, options.table), on, "left")
    rows = rows.withColumn("new_key", key_of([rule_of(text) for text in options.rule]))
    if options.drop:
        rows = counted(rows, filtered=F.col("new_key").isNull()).where("new_key IS NOT NULL")
    own = F.col("routing_key") if options.otherwise is None else F.lit(options.otherwise)
    return rows.withColumn("routing_key", F.coalesce("new_key", own))


def with_fields(messages: DataFrame, schema: str | None) -> DataFrame:
    if schema is None:
        return messages
    parsed = messages.withColumn("value", F.from_json(text_of_body(), schema))
    fields = parsed.select("value.*").columns
    return parsed.select("*", *(F.col("value")[name].alias(name) for name in fields if name not in parsed.columns))


def table_of(spark: SparkSession, path: str) -> DataFrame:
    kind = path.rstrip("/").rpartition(".")[2].lower()
    if kind not in READERS:
        raise ConfigError(f"--table is {path!r}: its name must end in {', '.join('.' + name for name in READERS)}")
    return spark.read.format(kind).options(**READERS[kind]).load(path)


def unambiguous(table: DataFrame, on: list[str], path: str) -> DataFrame:
    """Refuse a table with several rows for one key: a message that matches would be published several times."""
    unknown = [name for name in on if name not in table.columns]
    if unknown:
        raise ConfigError(f"--on is {','.join(on)!r}, but {path} has the columns {', '.join(table.columns)}")
    double = table.dropna(subset=on).groupBy(*on).count().where("count > 1").orderBy(F.desc("count"), *on)
    rows = double.limit(MOST_KEYS).collect()
    if rows:
        keys = ", ".join(f"{', '.join(f'{name} {row[name]}' for name in on)} ({row['count']} rows)" for row in rows)
        raise ConfigError(
            f"--table {path} has several rows for the same {', '.join(on)}: {keys}. "
            "Each message can match one row only: remove the others, or name more columns in --on"
        )
    return table


def rule_of(text: str) -> Rule:
    condition, arrow, key = text.rpartition(ARROW)
    if not arrow or not condition.strip() or not key.strip():
        raise ConfigError(f'--rule is {text!r}: write a condition, {ARROW} and a key, as "amount > 100 => big"')
    return Rule(condition.strip(), key.strip())


def key_of(rules: list[Rule]) -> Column:
    """The key of the first matching rule; null if none matches, or if a part of the key is null."""
    nothing = F.lit(None).cast("string")
    return reduce(
        lambda rest, rule: F.when(F.expr(rule.condition), filled(rule.key)).otherwise(rest), rules[::-1], nothing
    )


def filled(template: str) -> Column:
    """The template with its ``{SQL}`` parts computed."""
    parts = re.split(r"\{([^{}]*)\}", template)
    return F.concat(*(F.expr(part).cast("string") if at % 2 else F.lit(part) for at, part in enumerate(parts)))


JOB = Job("route", RouteOptions, start)

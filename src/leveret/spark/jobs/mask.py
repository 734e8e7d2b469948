"""mask: hashes, redacts or removes personal data in JSON bodies, by path.

A hash is HMAC-SHA256 with a secret key: equal values have equal hashes in all runs with this key, and without the key a
value cannot be found by hashing guesses. A message that cannot be masked is never forwarded: it goes to the
dead-letter exchange with the reason in the header ``x-mask-error``, or fails the pipeline. See mask_rules.py for what
that is. Masked and refused messages are published in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.errors import ConfigError
from leveret.spark.jobs.accounting import counted
from leveret.spark.jobs.bodies import of_body
from leveret.spark.jobs.job import Job, PassingOptions, setting
from leveret.spark.jobs.mask_rules import Mask, NotMasked
from leveret.spark.jobs.messages import outgoing, own_headers, publish, read_stream, with_header
from leveret.spark.jobs.queues import queues_of
from leveret.spark.jobs.refusals import HELP, refusal
from leveret.spark.jobs.running_job import Queries

REASON = "x-mask-error"
KEY_VARIABLE = "LEVERET_MASK_KEY"
LEAST_KEY = 16  # bytes
RESULT = pa.struct([("body", pa.binary()), ("reason", pa.string())])


@dataclass(frozen=True, kw_only=True)
class MaskOptions(PassingOptions):
    hash: tuple[str, ...] = setting("Path of a value to hash; repeatable.", (), metavar="PATH")
    remove: tuple[str, ...] = setting("Path of a field to remove; repeatable.", (), metavar="PATH")
    redact: tuple[str, ...] = setting('Path of a value to replace by "***"; repeatable.', (), metavar="PATH")
    header_remove: tuple[str, ...] = setting("Header to remove; repeatable.", (), metavar="NAME")
    key_file: str | None = setting(
        f"File with the key of --hash, at least {LEAST_KEY} bytes.  [default: {KEY_VARIABLE}]", None, metavar="FILE"
    )
    dead_letter_exchange: str | None = setting(HELP, None, metavar="EXCHANGE")

    def check(self) -> None:
        super().check()
        if not (self.rules() or self.header_remove):
            raise ConfigError("nothing to mask: give at least one --hash, --remove, --redact or --header-remove")
        Mask(self.rules(), b"")

    def rules(self) -> list[tuple[str, str]]:
        return [(action, path) for action in ("hash", "remove", "redact") for path in getattr(self, action)]


def start(spark: SparkSession, options: MaskOptions) -> Queries:
    key = key_of(options.key_file, os.environ) if options.hash else b""
    sent = divided(read_stream(spark, options, "mask"), options, key)
    return Queries(publish(sent, options, "mask"), now=lambda: queues_of(options))


def divided(messages: DataFrame, options: MaskOptions, key: bytes) -> DataFrame:
    """Adds the exchange of each message; bodies are masked, or unchanged with the reason as a header."""
    rows = messages.withColumn("masked", masked(Mask(options.rules(), key)))
    rows = rows.withColumn("reason", refusal("mask", options.dead_letter_exchange, F.col("masked.reason")))
    bad = F.col("reason").isNotNull()
    rows = counted(rows, out=~bad, refused=bad)
    rows = rows.withColumn("body", F.when(bad, F.col("body")).otherwise(F.col("masked.body")))
    kept = F.map_filter(own_headers(), lambda name, _: ~name.isin(*options.header_remove))
    headers = F.when(bad, with_header(own_headers(), REASON, F.col("reason"))).otherwise(kept)
    exchange = F.when(bad, F.lit(options.dead_letter_exchange)).otherwise(F.lit(options.exchange))
    return outgoing(rows, exchange, headers)


def masked(mask: Mask) -> Column:
    """The masked body, or null and the reason. The key is in the pickled function, not in Spark's plan."""
    return of_body(partial(masked_body, mask), RESULT, "body BINARY, reason STRING")


def masked_body(mask: Mask, body: bytes) -> dict[str, bytes | str]:
    try:
        return {"body": mask.masked(body)}
    except NotMasked as problem:
        return {"reason": str(problem)}


def key_of(file: str | None, environ: Mapping[str, str]) -> bytes:
    """The key of ``--hash``. It is no option: others on the machine can read command lines."""
    if file is None:
        key, source = environ.get(KEY_VARIABLE, "").encode(), KEY_VARIABLE
    else:
        try:
            key, source = Path(file).read_bytes().rstrip(b"\r\n"), file
        except OSError as error:
            raise ConfigError(f"--key-file {file} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY:
        raise ConfigError(
            f"the key of --hash in {source} has {len(key)} bytes, and {LEAST_KEY} are the least: create one with "
            "openssl rand -hex 32, keep it secret, and give its file as --key-file"
        )
    return key


JOB = Job("mask", MaskOptions, start)

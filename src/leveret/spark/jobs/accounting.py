"""The rows of a pipeline add up: each row that was read is in the results, or it is counted where it went instead.

    read = out + duplicates + filtered + refused + late + held

=============  ========================================================================================================
``read``       rows read by the source, as Spark's scan counts them
``out``        rows written or published as results; for aggregates, rows that are part of a result
``duplicates`` rows dropped because an equal one was there before; Spark's deduplication counts them itself
``filtered``   rows left out by a rule or condition of the user
``refused``    rows that are invalid, and went to a dead-letter exchange or table
``late``       rows that came after their time, whatever the job does with them
``held``       rows added to the state of the query, minus rows that left it; negative when more leave than enter
=============  ========================================================================================================

No term is computed from another one: each is counted at its own place, so a lost row is a sum that does not add up.
Each batch is checked, and a batch that does not add up fails the job (``JobFailed``, with the numbers).

In a new job:

1. Read with one scan: ``messages = read_stream(...)``. ``read`` needs nothing more. A source that is used twice in one
   query, or a batch in ``foreachBatch`` that is computed twice, is counted twice: ``persist()`` it.
2. Just before the sink, ``rows = counted(rows)``: all of these rows are out. If rows of several terms go into the sink,
   name a condition for each: ``counted(rows, out=~F.col("bad"), refused=F.col("bad"))``.
3. Just before a filter, count what it drops: ``counted(rows, filtered=~F.col("kept")).where("kept")``. A condition that
   is null counts as false. Each term is counted at one place of a query, and names a set of rows of its own.
4. Return ``Queries(query, ...)``: it reads the counts of every batch, checks them, and puts them into its report.
5. With ``foreachBatch``, pass ``Queries(query, recorded={"name of the query": counts})`` and call
   ``record(counts, spark, batch_id, Counts(out=..., refused=...))`` in the function, from what was written. This can be
   combined with ``counted``; terms of both are added. Without Spark Streaming, ``checked(name, Counts(read=...,
   out=...))``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.spark.jobs.failure import JobFailed
from leveret.spark.progress import COUNTS
from leveret.spark.recorded_counts import RECORDED

QUERY_ID = "sql.streaming.queryId"  # a local property of Spark in functions of foreachBatch
RARE = ("held",)  # shown only if they are not 0


@dataclass(frozen=True)
class Counts:
    read: int = 0
    out: int = 0
    duplicates: int = 0
    filtered: int = 0
    refused: int = 0
    late: int = 0
    held: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in ("read", *TERMS)))

    @property
    def adds_up(self) -> bool:
        return self.read == self.out + self.duplicates + self.filtered + self.refused + self.late + self.held

    def __str__(self) -> str:
        shown = [name for name in TERMS if name not in RARE or getattr(self, name)]
        return f"{self.read} in = " + " + ".join(f"{getattr(self, name)} {name}" for name in shown)


TERMS = tuple(field.name for field in fields(Counts) if field.name != "read")


@dataclass(frozen=True)
class Account:
    """The rows of one query, since this run started."""

    name: str
    counts: Counts

    def __str__(self) -> str:
        return f"rows of {self.name}: {self.counts}"


def counted(rows: DataFrame, **terms: Column) -> DataFrame:
    """The same rows, which are counted on their way: those that match the condition of each term, or all as ``out``."""
    chosen = terms or {"out": F.lit(True)}
    unknown = chosen.keys() - {*TERMS}
    assert not unknown, f"{unknown} are no terms of the sum: choose among {', '.join(TERMS)}"
    return rows.observe(COUNTS + " ".join(chosen), *(F.count_if(when).alias(name) for name, when in chosen.items()))


def summed(rows: DataFrame, **terms: Column) -> DataFrame:
    """The same rows. Each column is the number of read rows that this one stands for, which may be negative."""
    total = {name: F.coalesce(F.sum(number), F.lit(0)).alias(name) for name, number in terms.items()}
    return rows.observe(COUNTS + " ".join(total), *total.values())


def record(recorded: dict[int, Counts], spark: SparkSession, batch: int, counts: Counts) -> None:
    """The rows that a function of ``foreachBatch`` has written, for the report of the job and for the listener."""
    recorded[batch] = counts
    query = spark.sparkContext.getLocalProperty(QUERY_ID)
    if query is not None:
        terms = {name: getattr(counts, name) for name in TERMS}
        RECORDED.note(query, batch, {name: rows for name, rows in terms.items() if rows or name == "out"})


def checked(name: str, counts: Counts, behind_watermark: int = 0) -> Counts:
    """The same counts, if they add up. ``behind_watermark``: rows that Spark has dropped."""
    if counts.adds_up:
        return counts
    cause = "Rows were lost, or counted twice because Spark computed a stage again after it lost an executor"
    if behind_watermark:
        cause = f"Spark dropped {behind_watermark} rows that were older than its watermark"
    raise JobFailed(f"rows of {name} do not add up: {counts}. {cause}: do not rely on the results of this batch")

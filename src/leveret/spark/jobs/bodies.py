"""Columns that Python computes from the body of a message."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from leveret.spark.jobs.json_spans import NotJson, parsed


def of_body(function: Callable[[bytes], object], kind: pa.DataType, ddl: str) -> Column:
    """The result of this function; ``kind`` and ``ddl`` are its type."""

    def results(bodies: pa.Array) -> pa.Array:
        return pa.array(map(function, bodies.to_pylist()), kind)

    return arrow_udf(results, ddl)(F.col("body"))  # type: ignore[call-overload,no-any-return]


def json_problem() -> Column:
    """Why the body is not JSON; null if it is."""
    return of_body(problem_of, pa.string(), "string")


def problem_of(body: bytes) -> str | None:
    try:
        parsed(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"the body is not UTF-8, at byte {error.start}"
    except NotJson as error:
        return f"the body is not JSON: {error}"
    return None

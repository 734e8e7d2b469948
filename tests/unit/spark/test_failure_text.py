"""The error of a failed query: the cause and a remedy in one line."""

from __future__ import annotations

import pytest

from leveret.spark.failure_text import LONGEST, REMEDY, failure_text

OURS = """org.apache.spark.sql.AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "broker_client.py", line 134, in _success
ConnectionRefusedError: [Errno 111] Connection refused

Traceback (most recent call last):
leveret.spark.errors.BrokerUnreachable: no answer from http://b:1 for 1 seconds: set retrySeconds
 SQLSTATE: 38000
\tat org.apache.spark.sql.Some.scala(Some.scala:1)
"""
UDF = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown: Traceback:
  File "job.py", line 18, in bad
ValueError: row is bad
second line
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1097)
"""
SQL = """org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`. SQLSTATE: 22012
== SQL (line 1, position 1) ==
"""
WRAPPED = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [SOME] It broke. SQLSTATE: XX000\n\tat x"
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OURS, "no answer from http://b:1 for 1 seconds: set retrySeconds"),
        (UDF, f"ValueError: row is bad{REMEDY}"),
        (SQL, f"[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`{REMEDY}"),
        (WRAPPED, f"[SOME] It broke{REMEDY}"),
        ("java.lang.OutOfMemoryError: Java heap space", f"Java heap space{REMEDY}"),
    ],
)
def test_the_cause_is_found_in_the_stack_traces(error: str, text: str) -> None:
    assert failure_text(error) == text


def test_a_long_cause_is_cut_to_the_limit_of_the_broker() -> None:
    assert len(failure_text("leveret.spark.errors.DataLoss: " + "x" * 5_000)) == LONGEST

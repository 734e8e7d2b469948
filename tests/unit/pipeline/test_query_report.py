"""Reports of queries: every field has a type and a limit."""

from __future__ import annotations

import pytest

from leveret.http.errors import BadRequest
from leveret.pipeline import query_report as limits
from leveret.pipeline.query_report import refuse_invalid

FULL = {
    "id": "q",
    "steps": ["x" * limits.LONGEST_STEP] * limits.MOST_STEPS,
    "duration_ms": {f"part {number}": number for number in range(limits.MOST_DURATIONS)},
    "state_operators": [{"name": "dedupe", "rows": 1, "memory_bytes": 2, "late_rows": 0}] * limits.MOST_OPERATORS,
    "counts": {f"count {number}": limits.LARGEST for number in range(limits.MOST_COUNTS)},
    "error": "x" * limits.LONGEST_ERROR,
    "spark_ui": "https://spark.example:4040/proxy/app-1?x=1",
}


def test_a_report_may_have_as_much_as_the_limits_allow() -> None:
    refuse_invalid(FULL)
    refuse_invalid({"id": "q", "counts": {"held": -limits.LARGEST}})
    refuse_invalid({"id": "q", **dict.fromkeys(limits.CHECKS)})


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("steps", "dedup", "list of at most 20"),
        ("steps", ["x"] * 21, "list of at most 20"),
        ("steps", ["x" * 501], "string of 1 to 500"),
        ("steps", [None], "string of 1 to 500"),
        ("duration_ms", [1], "object with at most 20 numbers"),
        ("duration_ms", {str(number): 1 for number in range(21)}, "object with at most 20 numbers"),
        ("duration_ms", {"x" * 101: 1}, "string of 1 to 100"),
        ("duration_ms", {"addBatch": -1}, "'addBatch' in 'duration_ms' must be a whole number"),
        ("counts", {str(number): 1 for number in range(11)}, "object with at most 10 numbers"),
        ("counts", {"late": "1"}, "'late' in 'counts' must be a whole number"),
        ("counts", {"late": True}, "must be a whole number"),
        ("counts", {"late": 1.5}, "must be a whole number"),
        ("counts", {"late": 10**15 + 1}, "must be a whole number"),
        ("counts", {"held": -(10**15) - 1}, "from -1000000000000000 to 1000000000000000"),
        ("state_operators", [{"name": "x"}] * 21, "list of at most 20"),
        ("state_operators", ["x"], "an object with name, rows"),
        ("state_operators", [{"name": "x", "more": 1}], "an object with name, rows"),
        ("state_operators", [{"rows": 1}], "'name' in 'state_operators'"),
        ("state_operators", [{"name": "x", "rows": None}], "'rows' in 'state_operators'"),
        ("error", "x" * 2_001, "string of 1 to 2000"),
        ("error", {"text": "x"}, "string of 1 to 2000"),
        ("spark_ui", "javascript:alert(1)", "starts with http:// or https://"),
        ("spark_ui", "data:text/html,x", "starts with http:// or https://"),
        ("spark_ui", "//host", "starts with http:// or https://"),
        ("spark_ui", "http://", "starts with http:// or https://"),
        ("spark_ui", "http://[x", "starts with http:// or https://"),
        ("spark_ui", "http://me:secret@host/", "without a password"),
        ("spark_ui", "http://host/ x", "starts with http:// or https://"),
        ("spark_ui", "http://host/\u202e", "starts with http:// or https://"),
        ("spark_ui", "http://" + "x" * 500, "string of 1 to 500"),
        ("spark_ui", 7, "string of 1 to 500"),
        ("strange", 1, "is not a field of a report"),
    ],
)
def test_a_wrong_value_is_refused_with_its_field(field: str, value: object, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        refuse_invalid({"id": "q", field: value})
    assert reason in str(caught.value), caught.value
    assert field in str(caught.value)

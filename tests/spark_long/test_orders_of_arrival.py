"""dedup and traffic give the same results in any order of arrival: partitions, priorities, batch sizes, restarts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.arrivals import assert_same_results

ORDERS = int(os.environ.get("LEVERET_SPARK_ORDERS", "10"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 100 + ORDERS))
def test_any_order_gives_the_same_results(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    assert_same_results(spark, seed, tmp_path)

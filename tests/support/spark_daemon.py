"""Spark's daemon, which forks a Python process for each task and each plan, with their imports done before the fork.

Spark's own daemon leaves the imports to each process, since some of them start threads. Those of tests start none in
the environment of `tests/support/spark_environment.py`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from pyspark import daemon

PRELOADED = ("pyspark.sql.pandas.serializers", "leveret.spark.source")


def main() -> None:
    for name in (sys.argv[1], *PRELOADED):
        import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lose the other threads"
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()

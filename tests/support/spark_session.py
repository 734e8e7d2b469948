"""The Spark session that tests share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.programs import require_java
from tests.support.spark_environment import CHECKPOINTS, SETTINGS, python_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def shared_session(folder: Path) -> Iterator[SparkSession]:
    require_java()
    os.environ.update(python_environment(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("leveret-tests")
        settings = {**SETTINGS, **CHECKPOINTS, "spark.sql.warehouse.dir": str(folder / "warehouse")}
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()

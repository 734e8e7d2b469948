"""How tests start Spark: quickly rather than for long runs.

Most of the time of a short run goes into starting: Spark's JVM compiles code that runs once, and Spark's many Python
processes import PySpark as text from a zip file, each for itself.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from pathlib import Path

from tests.support.broker_process import SRC

REPOSITORY = SRC.parent
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": QUICK_JVM,
}
# Spark's usual one starts a program for each question about a link. Tests that kill drivers at failpoints use that one.
CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager"
}
# Imports of numpy and pyarrow start threads otherwise, which a fork would lose.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


def spark_environment(folder: Path) -> dict[str, str]:
    """The tests and the package can be imported by every process of Spark; temporary files go into the folder."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LEVERET_", "SPARK_", "PYSPARK_"))
    }
    return kept | python_environment(temporary) | {"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(temporary)}


def python_environment(folder: Path) -> dict[str, str]:
    """For tasks (PYSPARK_PYTHON) and for sources that Spark finds by itself (PYSPARK_DRIVER_PYTHON)."""
    python = str(quick_python(folder))
    return {
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(SRC)]),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        **ONE_THREAD,
    }


def quick_python(folder: Path) -> Path:
    """Python whose daemon has imported what the forked processes need (tests/support/spark_daemon.py)."""
    return python_script(
        folder,
        'if [ "$1 $2" = "-m pyspark.daemon" ]; then shift 2; set -- -m tests.support.spark_daemon "$@"; fi',
    )


def python_script(folder: Path, *lines: str, flags: tuple[str, ...] = ()) -> Path:
    """Python that finds PySpark compiled, not as text in the zip file that Spark names first."""
    script = folder / "python"
    packages = sysconfig.get_paths()["purelib"]
    start = f'PYTHONPATH={shlex.quote(packages)}:"$PYTHONPATH" exec {shlex.join([sys.executable, *flags])} "$@"'
    script.write_text("\n".join(["#!/bin/sh", *lines, start, ""]))
    script.chmod(0o755)
    return script

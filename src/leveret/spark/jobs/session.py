"""The Spark session of a job: local unless another master is given. A missing Java is reported with a remedy."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA = 17
INSTALL_JAVA = (
    "install it (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install "
    "java-17-openjdk-headless; macOS: brew install openjdk@17) or set JAVA_HOME"
)


def open_session(
    name: str, master: str, conf: Mapping[str, str], note: Callable[[str], None] = lambda text: None
) -> SparkSession:
    """``note`` receives lines for the user: it takes seconds until Spark has started."""
    from pyspark.sql import SparkSession

    require_java(os.environ)
    note(f"starting Spark on {master}; the first batch takes some seconds, until Python has started as well")
    builder = SparkSession.builder.appName(f"leveret {name}").master(master)
    for key, value in {**quiet_settings(master), **conf}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Logs the stack trace of every error in a function of foreachBatch; the job reports the error itself.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if master.startswith("local"):
        threading.Thread(target=_warm_up_if_possible, args=(session,), daemon=True).start()
    return session


def _warm_up_if_possible(session: SparkSession) -> None:
    with suppress(Exception):  # the session may have been stopped
        warm_up(session)


def warm_up(session: SparkSession) -> None:
    """Start the Python workers that run tasks, while the job is planned. PySpark starts them when they are first
    needed."""
    tasks = session.sparkContext.defaultParallelism
    passed = session.range(0, tasks, 1, tasks).mapInArrow(lambda batches: batches, "id bigint")
    passed.write.format("noop").mode("append").save()


def quiet_settings(master: str) -> dict[str, str]:
    """The time zone is UTC. A local session has no web UI, and as many partitions as cores."""
    settings = {"spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
    return settings


def require_java(environ: Mapping[str, str]) -> None:
    """Fail with a remedy: Spark itself would only report that its gateway process exited."""
    home = environ.get("JAVA_HOME")
    java = shutil.which("java", path=environ.get("PATH", "")) if not home else str(Path(home) / "bin" / "java")
    if java is None or not os.access(java, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "java is not on PATH"
        raise ConfigError(f"Spark needs Java {LEAST_JAVA} or newer, but {where}: {INSTALL_JAVA}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r'version "(\d+)', output)
    if found is not None and int(found[1]) < LEAST_JAVA:
        raise ConfigError(f"Spark needs Java {LEAST_JAVA} or newer, but {java} is {found[1]}: {INSTALL_JAVA}")

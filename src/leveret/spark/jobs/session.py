"""The Spark session of a job: local unless another master is given. A missing Java is reported with a remedy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
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


def open_session(name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    require_java(os.environ)
    builder = SparkSession.builder.appName(f"leveret {name}").master(master)
    for key, value in {**quiet_settings(master), **conf}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


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

"""A Spark session for a job: on this machine unless another master is named. Says what is missing before Spark does."""

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
    "java-17-openjdk-headless; macOS: brew install openjdk@17) or let JAVA_HOME name its folder"
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
    """Times are UTC everywhere; on one machine there is no web page, and no more tasks than cores."""
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
    """Refuse with the remedy, where Spark would only say that its gateway ended."""
    home = environ.get("JAVA_HOME")
    java = shutil.which("java", path=environ.get("PATH", "")) if not home else str(Path(home) / "bin" / "java")
    if java is None or not os.access(java, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on PATH"
        raise ConfigError(f"Spark needs Java {LEAST_JAVA} or newer, and there is {where}: {INSTALL_JAVA}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found is not None and int(found[1]) < LEAST_JAVA:
        raise ConfigError(f"Spark needs Java {LEAST_JAVA} or newer, and {java} is {found[1]}: {INSTALL_JAVA}")

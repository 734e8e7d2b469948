"""A cluster whose nodes have Spark and pyarrow but not this package: its code comes with the job.

The workers' Python leaves out the `.pth` files of its packages, by which a checkout is installed. Every row tells where
the process that carried it could import the package from.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import SRC
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_cluster import SETTINGS, SPARK_HOME, Cluster
from tests.support.spark_environment import python_script
from tests.support.spark_kills import Driver
from tests.support.spark_pipelines import Pipeline

DRIVER = Path(__file__).parents[1] / "support" / "spark_driver.py"
ABSENT = "absent"


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """Python without what is installed by `.pth` files."""
    script = python_script(tmp_path, flags=("-S",))
    command, environ = [str(script), "-c", "import leveret"], os.environ | {"PYTHONPATH": ""}
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ)
    assert "No module named 'leveret'" in found.stderr, "the package is installed by more than a .pth file"
    return script


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """For --py-files."""
    path = tmp_path / "package.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sources():
            archive.write(file, file.relative_to(SRC))
    return path


def sources() -> Iterator[Path]:
    for name in ("leveret", "pyspark_leveret"):
        yield from (SRC / name).rglob("*.py")


def carried_over(tmp_path: Path, python: Path, *command: str, **more: str) -> set[str]:
    """Where the processes of the workers found the package."""
    pipeline = Pipeline("travel", tmp_path / "checkpoint", rows_in_batch=500, body_bytes=100, signed=True)
    environ = {"PYSPARK_PYTHON": str(python), "PYTHONPATH": "", **more}
    with RestartableBroker(tmp_path) as broker, Cluster(tmp_path / "cluster", environ) as cluster:
        pipeline.declare(broker)
        pipeline.publish(broker, 1000)
        with Driver(
            tmp_path / "driver",
            broker,
            [pipeline],
            master=cluster.url,
            settings=SETTINGS,
            environ=environ,
            command=[*command, str(DRIVER)],
            carried=True,
        ) as driver:
            driver.await_end()
        rows = pipeline.received(broker)
        pipeline.assert_nothing_left_over(broker)
    pipeline.assert_once(rows)
    ways = [{int(pid) for pid in row.headers["read"].split()} for row in rows]
    assert all(way & cluster.worker_pids for way in ways)
    return {row.headers[place] for row in rows for place in ("package-read", "package-written")}


@pytest.mark.timeout(900)
def test_code_that_is_pickled_by_value_needs_no_package_on_the_workers(tmp_path: Path, bare_python: Path) -> None:
    assert carried_over(tmp_path, bare_python, sys.executable) == {ABSENT}


@pytest.mark.timeout(900)
def test_a_package_that_is_given_by_py_files_is_installed_nowhere(
    tmp_path: Path, bare_python: Path, package: Path
) -> None:
    """The driver finds it in the zip file, as do the tasks; the processes in which Spark plans do not."""
    submit = (str(SPARK_HOME / "bin" / "spark-submit"), "--py-files", str(package))
    places = carried_over(tmp_path, bare_python, *submit, PYSPARK_DRIVER_PYTHON=str(bare_python))
    assert places
    assert all(package.name in place for place in places), places

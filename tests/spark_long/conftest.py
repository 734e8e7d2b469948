"""The long tier of the pipeline: `make spark-long`, or pytest with this folder as path. `make test` leaves it out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from tests.spark.conftest import spark as spark
from tests.support.broker_process import BrokerProcess
from tests.support.spark_broker import SparkBroker

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect these tests only if this folder is named."""
    asked = (Path(config.invocation_params.dir, argument.partition("::")[0]) for argument in config.args)
    return None if any(path == HERE or HERE in path.parents for path in asked) else True


@pytest.fixture
def seed() -> int:
    """LEVERET_SPARK_SEED, or a fresh one; every failure names it."""
    given = os.environ.get("LEVERET_SPARK_SEED")
    return int(given) if given else SystemRandom().randrange(1 << 32)


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkBroker]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), "--http-port", "0") as serving:
        with SparkBroker(serving.url("amqp"), serving.url("http")) as known:
            yield known

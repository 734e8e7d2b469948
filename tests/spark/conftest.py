"""One Spark session and one broker for all tests of this folder; each test has queues and checkpoints of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leveret.spark.reader_registration import ReaderRegistration
from tests.support.broker_process import BrokerProcess
from tests.support.spark_broker import SparkBroker
from tests.support.spark_session import shared_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Importing Spark, starting its JVM and the first query take long on a busy machine.
SECONDS = 400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(autouse=True)
def ended_registrations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Readers that a test has not stopped would keep their threads."""
    held: list[ReaderRegistration] = []
    hold = ReaderRegistration.hold

    def hold_noting(registration: ReaderRegistration, queues: Iterable[str]) -> None:
        held.append(registration)
        hold(registration, queues)

    monkeypatch.setattr(ReaderRegistration, "hold", hold_noting)
    yield
    for registration in held:
        registration.release()


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), "--http-port", "0") as running:
        yield running


@pytest.fixture(scope="session")
def broker(serving: BrokerProcess) -> Iterator[SparkBroker]:
    with SparkBroker(serving.url("amqp"), serving.url("http")) as known:
        yield known


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with shared_session(tmp_path_factory.mktemp("spark")) as session:
        yield session

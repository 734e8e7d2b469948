"""The tasks run in a real worker at a real broker, both in the process of the tests."""

import pytest
from celery.contrib.testing.worker import start_worker
from shop import app, pack, reserve


@pytest.fixture(scope="session", autouse=True)
def worker(leveret_broker_session):
    app.conf.update(
        broker_url=leveret_broker_session.amqp_url,
        result_backend="rpc://",
        worker_enable_remote_control=False,
        broker_heartbeat=0,  # else the worker may take ten seconds to notice a retry, or the end of the tests
    )
    with start_worker(app, perform_ping_check=False):
        yield


def test_an_order_is_packed():
    assert pack.delay(7).get(timeout=10) == "order 7 packed"


def test_a_reservation_is_tried_again():
    assert reserve.delay("tea", fails=2).get(timeout=10) == "tea reserved at attempt 3"

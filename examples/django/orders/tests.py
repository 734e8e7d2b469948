"""The task runs in a real worker at a real broker, both in the process of the tests: ``python manage.py test``."""

import time

from celery.contrib.testing.worker import start_worker
from django.test import TransactionTestCase
from shop.celery import app

import leveret
from orders.services import place_order


class OrderTests(TransactionTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        broker = cls.enterClassContext(leveret.Broker())
        app.conf.update(broker_url=broker.amqp_url, worker_enable_remote_control=False, broker_heartbeat=0)
        cls.enterClassContext(start_worker(app, perform_ping_check=False))

    def test_an_order_is_packed(self):
        order = place_order("tea")
        deadline = time.monotonic() + 10
        while order.state != "packed":
            assert time.monotonic() < deadline, order.state
            time.sleep(0.05)
            order.refresh_from_db()

"""The Celery application of tests with a cell: `celery -A tests.support.cell_celery worker`."""

from __future__ import annotations

import os

from celery import Celery

from tests.compat.celery_app import make_app


def make_cell_app(broker: str) -> Celery:
    """``broker``: the URLs of all nodes, with semicolons in between."""
    made = make_app(broker, "rpc://")
    made.conf.update(
        broker_heartbeat=2,
        task_ignore_result=True,
        task_publish_retry_policy={"max_retries": 100, "interval_start": 0.1, "interval_max": 0.3},
    )
    return made


app = make_cell_app(os.environ.get("CELL_BROKER", "memory://"))

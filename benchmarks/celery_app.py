"""The Celery application of celeryload.py: `celery -A benchmarks.celery_app worker`."""

from __future__ import annotations

import os

from celery import Celery  # type: ignore[import-untyped]

URL = "LEVERET_BENCH_BROKER"  # environment variable

app = Celery("celeryload", broker=os.environ.get(URL, "amqp://"), backend="rpc://")
app.conf.update(
    task_default_queue="celeryload",
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=4,
    broker_heartbeat=10,
    broker_connection_retry_on_startup=True,
)
ran: list[None] = []


@app.task(name="celeryload.nothing")  # type: ignore[untyped-decorator]
def nothing() -> None:
    ran.append(None)


@app.task(name="celeryload.number", ignore_result=False)  # type: ignore[untyped-decorator]
def number() -> int:
    """How many tasks have run."""
    return len(ran)

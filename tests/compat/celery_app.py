"""The Celery application that the tests' workers run: `celery -A tests.compat.celery_app worker`."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from celery import Celery, Task
from kombu import Queue

LIMIT = 60.0  # seconds that a task waits for a test at most


def make_app(broker: str, backend: str) -> Celery:
    app = Celery("compat", broker=broker, backend=backend, set_as_current=False)
    app.conf.update(
        task_queues=[Queue("plain"), Queue("ranked", queue_arguments={"x-max-priority": 10})],
        task_default_queue="plain",
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"confirm_publish": True},  # else a test would not know when the task is there
        result_expires=3600,
    )
    _register(app)
    return app


def _register(app: Celery) -> None:
    task = partial(app.task, shared=False)  # Celery gives a shared task to every other application, too

    @task(name="add")
    def add(x: int, y: int) -> int:
        return x + y

    @task(name="total")
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @task(name="divide")
    def divide(x: int, y: int) -> float:
        return x / y

    @task(name="stubborn", bind=True, max_retries=3)
    def stubborn(self: Task, fails: int) -> int:
        """Succeeds after so many failures; gives the number of tries."""
        if self.request.retries < fails:
            raise self.retry(countdown=0.1)
        return int(self.request.retries) + 1

    @task(name="note")
    def note(path: str, line: str) -> None:
        with Path(path).open("a") as file:
            file.write(line + "\n")

    @task(name="hold")
    def hold(started: str, until: str) -> None:
        """Keeps the worker busy until a file appears."""
        Path(started).touch()
        end = time.monotonic() + LIMIT
        while not Path(until).exists() and time.monotonic() < end:
            time.sleep(0.01)

    @task(name="where", bind=True)
    def where(self: Task) -> dict[str, Any]:
        return {"key": self.request.delivery_info["routing_key"], "again": self.request.delivery_info["redelivered"]}


app = make_app(os.environ.get("COMPAT_BROKER", "memory://"), os.environ.get("COMPAT_BACKEND", "rpc://"))

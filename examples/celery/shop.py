"""Tasks of a shop. Start a worker with ``celery -A shop worker``, then run ``python shop.py``."""

import os

from celery import Celery, chord
from celery.exceptions import Reject

app = Celery(
    "shop",
    broker=os.environ.get("BROKER_URL", "amqp://guest:guest@127.0.0.1:5672/"),
    backend=os.environ.get("RESULT_BACKEND", "db+sqlite:///results.sqlite3"),  # chords need a database, not rpc://
)
app.conf.update(
    task_acks_late=True,  # a task is acknowledged after it ran, so that another worker runs it if this one is lost
    worker_prefetch_multiplier=1,
    broker_transport_options={"confirm_publish": True},  # delay() returns when the broker has stored the task
    broker_connection_retry_on_startup=True,
)


@app.task
def pack(order):
    return f"order {order} packed"


@app.task(bind=True, max_retries=3)
def reserve(self, item, fails=0):
    """Is tried again as long as the stock does not answer: here, for as many times as ``fails``."""
    if self.request.retries < fails:
        raise self.retry(countdown=0.1)
    return f"{item} reserved at attempt {self.request.retries + 1}"


@app.task
def report(lines):
    return f"{len(lines)} orders packed"


@app.task
def refuse(order):
    """Goes to the dead-letter queue, if the queue has one."""
    raise Reject(f"order {order} is invalid", requeue=False)


def main():
    print(pack.delay(7).get(timeout=30))
    print(reserve.delay("tea", fails=2).get(timeout=30))
    print(pack.apply_async((8,), countdown=1).get(timeout=30))
    print(chord([pack.s(number) for number in range(5)])(report.s()).get(timeout=30))


if __name__ == "__main__":
    main()

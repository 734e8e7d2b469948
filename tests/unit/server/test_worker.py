"""A thread for jobs: one after the other, and the answers on the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from leveret.server.flusher import Worker

SECONDS = 5


def make() -> tuple[Worker, SimpleQueue[Callable[[], None]]]:
    told: SimpleQueue[Callable[[], None]] = SimpleQueue()
    worker = Worker("test-worker", told.put)
    worker.start()
    return worker, told


def test_jobs_are_done_in_their_order_and_told_on_the_loop() -> None:
    worker, told = make()
    done: list[object] = []
    for number in range(5):
        worker.do(lambda number=number: number, done.append)  # type: ignore[misc]
    worker.stop()
    worker.thread.join(SECONDS)
    assert done == [], "nobody but the loop calls back"
    while not told.empty():
        told.get()()
    assert done == [0, 1, 2, 3, 4]


def test_whoever_asked_gets_the_exception() -> None:
    worker, told = make()
    done: list[object] = []
    worker.do(lambda: 1 // 0, done.append)
    worker.do(lambda: "and on", done.append)
    worker.stop()
    for _ in range(2):
        told.get(timeout=SECONDS)()
    assert isinstance(done[0], ZeroDivisionError)
    assert done[1] == "and on"


def test_after_a_job_that_hung_an_abandoned_worker_does_no_other() -> None:
    worker, _ = make()
    began, let = threading.Event(), threading.Event()
    done: list[object] = []
    worker.do(lambda: began.set() or let.wait(SECONDS), lambda result: None)
    worker.do(lambda: done.append("late"), lambda result: None)
    assert began.wait(SECONDS)
    worker.abandon()
    let.set()
    worker.stop()
    worker.thread.join(SECONDS)
    assert not worker.thread.is_alive()
    assert done == []

"""Real Celery workers: one that answers over AMQP (rpc://), one that keeps results in SQLite."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import MaxRetriesExceededError, TaskRevokedError

import leveret
from tests.compat.celery_app import make_app
from tests.compat.waiting import until
from tests.support.celery_worker import Worker

REPOSITORY = Path(__file__).resolve().parents[2]
WAIT = 60.0  # seconds for a result


def started(app: Celery, log: Path, *options: str) -> Worker:
    environ = {"COMPAT_BROKER": app.conf.broker_url, "COMPAT_BACKEND": app.conf.result_backend}
    return Worker(app, "tests.compat.celery_app", REPOSITORY, log, environ, *options)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Worker]]:
    """Both are started at once, and stopped at once: a worker takes a second or two for either."""
    folder = tmp_path_factory.mktemp("celery")
    with leveret.Broker() as one, leveret.Broker() as other:
        rpc = make_app(one.amqp_url, "rpc://")
        database = make_app(other.amqp_url, f"db+sqlite:///{folder / 'results.db'}")
        running = {
            "rpc": started(rpc, folder / "rpc.log", "-P", "prefork", "-c", "1", "-n", "one@test"),
            "database": started(database, folder / "db.log", "-P", "prefork", "-c", "2", "-n", "two@test"),
        }
        try:
            for worker in running.values():
                worker.await_ready()
            yield running
        finally:
            for worker in running.values():
                worker.ask_to_stop()
            rpc.backend.result_consumer.stop()
            for worker in running.values():
                worker.app.close()
                worker.await_end()


@pytest.fixture
def rpc(workers: dict[str, Worker]) -> Celery:
    return workers["rpc"].app


@pytest.fixture
def database(workers: dict[str, Worker]) -> Celery:
    return workers["database"].app


def test_a_task_gives_its_result_over_amqp(rpc: Celery) -> None:
    results = [rpc.tasks["add"].delay(number, 1) for number in range(20)]
    assert [result.get(timeout=WAIT) for result in results] == list(range(1, 21))


def test_an_exception_of_a_task_travels_back(rpc: Celery) -> None:
    with pytest.raises(ZeroDivisionError):
        rpc.tasks["divide"].delay(1, 0).get(timeout=WAIT)


def test_a_task_retries_with_a_countdown(rpc: Celery) -> None:
    assert rpc.tasks["stubborn"].delay(2).get(timeout=WAIT) == 3


def test_a_task_gives_up_after_its_last_retry(rpc: Celery) -> None:
    with pytest.raises(MaxRetriesExceededError):
        rpc.tasks["stubborn"].delay(10).get(timeout=WAIT)


def test_a_countdown_delays_a_task_and_lets_others_pass(rpc: Celery, tmp_path: Path) -> None:
    """The worker raises its prefetch while it holds a task that is not due."""
    notes = tmp_path / "notes"
    start = time.monotonic()
    late = rpc.tasks["note"].apply_async((str(notes), "late"), countdown=3)
    rpc.tasks["note"].delay(str(notes), "now").get(timeout=WAIT)
    late.get(timeout=WAIT)
    assert time.monotonic() - start >= 2.9
    assert notes.read_text().split() == ["now", "late"]


def test_a_revoked_task_does_not_run(rpc: Celery, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    doomed = rpc.tasks["note"].apply_async((str(notes), "ran"), countdown=3)
    assert rpc.control.revoke(doomed.id, reply=True, timeout=WAIT, limit=1)
    with pytest.raises(TaskRevokedError):
        doomed.get(timeout=WAIT)
    assert not notes.exists()


def test_tasks_of_higher_priority_run_first(rpc: Celery, tmp_path: Path) -> None:
    notes, started, release = tmp_path / "notes", tmp_path / "started", tmp_path / "release"
    rpc.tasks["hold"].apply_async((str(started), str(release)), queue="ranked")
    until(started.exists)
    results = [
        rpc.tasks["note"].apply_async((str(notes), str(priority)), queue="ranked", priority=priority)
        for priority in (1, 9, 5)
    ]
    release.touch()
    for result in results:
        result.get(timeout=WAIT)
    assert notes.read_text().split() == ["9", "5", "1"]


def test_an_expired_task_leaves_the_queue_without_a_worker(rpc: Celery, tmp_path: Path) -> None:
    """Celery gives the message an expiration, too: the broker drops it while the worker is busy."""
    notes, started, release = tmp_path / "notes", tmp_path / "started", tmp_path / "release"
    rpc.tasks["hold"].delay(str(started), str(release))
    until(started.exists)
    rpc.tasks["note"].apply_async((str(notes), "ran"), expires=0.1)
    with rpc.connection_for_read() as connection:
        until(lambda: rpc.amqp.queues["plain"](connection).queue_declare(passive=True).message_count == 0)
    release.touch()
    assert rpc.tasks["add"].delay(1, 1).get(timeout=WAIT) == 2
    assert not notes.exists()


def test_chains_and_groups_run_through(rpc: Celery) -> None:
    add = rpc.tasks["add"]
    assert chain(add.s(1, 2), add.s(3), add.s(4)).apply_async().get(timeout=WAIT) == 10
    assert group(add.s(number, number) for number in range(5)).apply_async().get(timeout=WAIT) == [0, 2, 4, 6, 8]


def test_a_task_sees_where_it_came_from(rpc: Celery) -> None:
    assert rpc.tasks["where"].delay().get(timeout=WAIT) == {"key": "plain", "again": False}


def test_workers_answer_ping_and_inspection(rpc: Celery) -> None:
    """Broadcast over a fanout exchange, answers in a queue that expires."""
    assert rpc.control.ping(timeout=WAIT, limit=1) == [{"one@test": {"ok": "pong"}}]
    inspect = rpc.control.inspect(destination=["one@test"], timeout=WAIT, limit=1)
    assert "add" in inspect.registered()["one@test"]
    assert {queue["name"] for queue in inspect.active_queues()["one@test"]} == {"plain", "ranked"}
    assert inspect.stats()["one@test"]["broker"]["transport"] == "amqp"


def test_a_consumer_can_be_added_and_cancelled_while_the_worker_runs(rpc: Celery) -> None:
    assert rpc.control.add_consumer("extra", reply=True, timeout=WAIT, limit=1)
    assert rpc.tasks["where"].apply_async(queue="extra").get(timeout=WAIT)["key"] == "extra"
    assert rpc.control.cancel_consumer("extra", reply=True, timeout=WAIT, limit=1)


def test_events_of_tasks_reach_a_listener(rpc: Celery) -> None:
    listening, succeeded = threading.Event(), threading.Event()
    seen: dict[str, object] = {}

    def heard(event: dict[str, object]) -> None:
        seen.update(event)
        succeeded.set()

    assert rpc.control.enable_events(reply=True, timeout=WAIT, limit=1)
    with rpc.connection_for_read() as connection:
        handlers = {"worker-heartbeat": lambda _: listening.set(), "task-succeeded": heard}
        receiver = rpc.events.Receiver(connection, handlers=handlers)
        thread = threading.Thread(target=lambda: receiver.capture(limit=None, timeout=None, wakeup=True))
        thread.start()
        try:
            assert listening.wait(WAIT)
            result = rpc.tasks["add"].delay(3, 4)
            assert succeeded.wait(WAIT)
            assert (seen["uuid"], seen["result"]) == (result.id, "7")
            result.forget()
        finally:
            receiver.should_stop = True
            thread.join(WAIT)
            rpc.control.disable_events(reply=True, timeout=WAIT, limit=1)
    assert not thread.is_alive()


def test_a_chord_collects_results_from_the_database(database: Celery) -> None:
    add, total = database.tasks["add"], database.tasks["total"]
    result = chord([add.s(number, number) for number in range(10)], app=database)(total.s())
    assert result.get(timeout=WAIT) == 90


def test_results_are_kept_in_the_database(database: Celery) -> None:
    result = database.tasks["add"].delay(20, 22)
    assert result.get(timeout=WAIT) == 42
    assert database.AsyncResult(result.id).state == "SUCCESS"


@pytest.mark.feature("S4-01")
def test_two_processes_of_a_worker_share_the_queue(database: Celery, tmp_path: Path) -> None:
    """One is held while the other goes on."""
    started, release = tmp_path / "started", tmp_path / "release"
    held = database.tasks["hold"].delay(str(started), str(release))
    until(started.exists)
    assert database.tasks["add"].delay(1, 2).get(timeout=WAIT) == 3
    release.touch()
    assert held.get(timeout=WAIT) is None

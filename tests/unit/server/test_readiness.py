"""What a supervisor hears, and that nothing is said or harmed where there is none."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.server.readiness import Readiness
from tests.support.supervisor import Supervisor


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path) as listening:
        yield listening


def test_ready_and_stopping_are_told_with_a_line_for_people(supervisor: Supervisor) -> None:
    readiness = Readiness(supervisor.environ)
    readiness.ready("listening on amqp://127.0.0.1:5672")
    readiness.stopping()
    assert supervisor.told() == {"READY": "1", "STATUS": "listening on amqp://127.0.0.1:5672"}
    assert supervisor.told() == {"STOPPING": "1", "STATUS": "stopping"}


def test_a_reload_is_told_with_its_moment_in_microseconds(supervisor: Supervisor) -> None:
    Readiness(supervisor.environ, monotonic_ns=lambda: 12_345_678_999).reloading()
    assert supervisor.told() == {"RELOADING": "1", "MONOTONIC_USEC": "12345678", "STATUS": "reloading"}


def test_the_moment_is_of_the_clock_that_the_supervisor_compares_it_with(supervisor: Supervisor) -> None:
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    Readiness(supervisor.environ).reloading()
    assert before <= int(supervisor.told()["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def test_a_line_break_in_the_status_cannot_fake_a_field(supervisor: Supervisor) -> None:
    Readiness(supervisor.environ).status("recovering\nREADY=1")
    assert supervisor.told() == {"STATUS": "recovering READY=1"}


def test_an_abstract_socket_is_named_by_an_at_sign() -> None:
    name = f"leveret-test-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + name)
        listening.settimeout(5)
        Readiness({"NOTIFY_SOCKET": "@" + name}).status("here")
        assert listening.recv(100) == b"STATUS=here"


def test_the_watchdog_is_fed_twice_in_its_time_until_the_end(supervisor: Supervisor) -> None:
    fed: list[float] = []

    class Loop:
        """Remembers the one call that was asked for."""

        def call_later(self, seconds: float, call: object, *given: object) -> asyncio.TimerHandle:
            fed.append(seconds)
            return loop.call_later(seconds, lambda: None)

    loop = asyncio.new_event_loop()
    try:
        readiness = Readiness(supervisor.environ | {"WATCHDOG_USEC": "30000000"})
        readiness.feed_watchdog(Loop())  # type: ignore[arg-type]
        assert supervisor.told() == {"WATCHDOG": "1"}
        assert fed == [15.0]
        readiness.leave()
    finally:
        loop.close()


def test_the_watchdog_is_fed_again_and_again_by_the_loop(supervisor: Supervisor) -> None:
    async def live() -> list[dict[str, str]]:
        loop = asyncio.get_running_loop()
        readiness = Readiness(supervisor.environ | {"WATCHDOG_USEC": "2000"})
        readiness.feed_watchdog(loop)
        heard = [await loop.run_in_executor(None, supervisor.told) for _ in range(3)]
        readiness.leave()
        return heard

    assert asyncio.run(live()) == [{"WATCHDOG": "1"}] * 3


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "1500000"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "42"}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_a_watchdog_that_is_not_ours_or_not_set_is_not_fed(environ: dict[str, str], seconds: float | None) -> None:
    assert Readiness(environ, pid=42).watchdog == seconds


def test_without_a_supervisor_nothing_is_said() -> None:
    readiness = Readiness({"WATCHDOG_USEC": "1000"})
    for say in (readiness.reloading, readiness.stopping, readiness.leave):
        say()
    readiness.ready("to nobody")
    loop = asyncio.new_event_loop()
    readiness.feed_watchdog(loop)
    loop.close()


@pytest.mark.parametrize("address", ["vsock:2:1234", "relative/path"])
def test_an_address_of_another_kind_is_named_in_the_log(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "leveret"):
        Readiness({"NOTIFY_SOCKET": address}).ready("to nobody")
    assert address in caplog.text
    assert "expected a path or @name" in caplog.text


def test_a_supervisor_that_is_gone_is_logged_and_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "leveret"):
        Readiness({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("to nobody")
    [record] = caplog.records
    assert 'service manager cannot be notified notification="READY=1"' in record.getMessage()


def test_a_supervisor_that_does_not_read_does_not_hold_the_broker(supervisor: Supervisor) -> None:
    readiness = Readiness(supervisor.environ)
    for _ in range(1000):  # far more than its socket takes; a blocking send would never return
        readiness.status("again")

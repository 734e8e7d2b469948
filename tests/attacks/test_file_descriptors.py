"""CWE-774, allocation of file descriptors without limits: a broker whose descriptors are used up by others keeps
confirmed messages, confirms the rest once there are descriptors again, and needs no restart for that."""

from __future__ import annotations

import contextlib
import resource
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.attack_target import AttackTarget
from tests.support.descriptors import no_descriptors
from tests.support.publishing import Publishing, bodies_of, declare_at
from tests.support.raw_client import eventually

DESCRIPTORS = 256
SIZE = 20_000


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def bodies(first: int, number: int) -> list[bytes]:
    return [b"%08d" % each * (SIZE // 8) for each in range(first, first + number)]


def all_confirmed(publisher: Publishing) -> bool:
    return publisher.hear(lambda: not publisher.pending) and not publisher.nacked


@pytest.mark.quiet
def test_persistent_messages_are_confirmed_while_other_clients_use_up_the_descriptors(tmp_path: Path) -> None:
    with (
        AttackTarget(tmp_path, "--segment-size", "64KiB", before=few_descriptors) as attacked,
        Publishing(attacked.url()) as publisher,
        contextlib.ExitStack() as strangers,
    ):
        declare_at(attacked.url(), "q")
        port = urlsplit(attacked.url("http")).port
        for _ in range(DESCRIPTORS):
            strangers.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        for first in range(0, 200, 10):  # several segments
            publisher.publish("q", bodies(first, 10))
        publisher.hear(lambda: not publisher.pending or publisher.blocked_at, 5)
        assert not publisher.nacked, attacked.log()
        strangers.close()
        assert all_confirmed(publisher), attacked.log()
        attacked.check()
        assert bodies_of(attacked.url(), "q") == bodies(0, 200)


@pytest.mark.parametrize("queue", ["classic", "stream"])
def test_a_store_without_any_descriptor_goes_on_by_itself_when_there_are_some(tmp_path: Path, queue: str) -> None:
    """Not even the spare ones: the limit is lowered below what is open."""
    with AttackTarget(tmp_path, "--segment-size", "64KiB", with_bystander=False) as attacked:
        declare_at(attacked.url(), "q", **{"x-queue-type": queue})
        with Publishing(attacked.url()) as publisher:
            publisher.publish("q", bodies(0, 1))
            assert all_confirmed(publisher)
            with no_descriptors(attacked.process.pid):
                for first in range(1, 101, 10):
                    publisher.publish("q", bodies(first, 10))
                eventually(lambda: "file descriptors" in attacked.log())
                publisher.publish("q", bodies(101, 1))  # the first during the alarm
                assert publisher.hear(lambda: publisher.blocked_at), attacked.log()
                assert not publisher.nacked, attacked.log()
                assert "file descriptors" in attacked.log()
            assert publisher.hear(lambda: publisher.unblocked_at), attacked.log()
            assert all_confirmed(publisher), attacked.log()
        attacked.check_health()
        if queue == "classic":
            assert bodies_of(attacked.url(), "q") == bodies(0, 102)
        assert "read-only" not in attacked.log()

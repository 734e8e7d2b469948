"""Leases over kills: acknowledged requests hold in the next run, and committed messages are gone for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.forked_broker import ForkedBroker
from tests.support.http_api import HttpApi, vhost_path
from tests.support.publishing import bodies_of, declare_at, fill

LEASES, MESSAGES, COMMIT = vhost_path("leases"), vhost_path("leases/messages"), vhost_path("leases/commit")
MINE = {"consumer": "job", "queue": "q"}
MANY = [b"%06d" % number for number in range(12_000)]

pytestmark = pytest.mark.timeout(300)


@contextmanager
def serve(folder: Path) -> Iterator[BrokerProcess]:
    with ForkedBroker(folder, "--http-port", "0", "--queue-memory", "64KiB", "--segment-size", "256KiB") as serving:
        serving.banner(60)
        yield serving


def kill(serving: BrokerProcess) -> None:
    serving.process.kill()
    serving.exit_code()


def take(api: HttpApi, after: int, most: int) -> dict[str, int]:
    status, answer = api.post(LEASES, {**MINE, "after": after, "max_messages": most})
    assert status == 200, answer
    given: dict[str, int] = answer
    return given


def bodies(api: HttpApi, lease: int) -> list[bytes]:
    found: list[bytes] = api.table(MESSAGES, **MINE, lease=lease, columns="body")["body"].to_pylist()
    return found


def commit(api: HttpApi, through: int) -> dict[str, int]:
    status, answer = api.post(COMMIT, {**MINE, "through": through})
    assert status == 200, answer
    told: dict[str, int] = answer
    return told


def test_a_kill_after_a_lease_was_given_keeps_it(tmp_path: Path) -> None:
    with serve(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", MANY)
        given = take(HttpApi(serving.url("http")), 0, 9_000)
        kill(serving)
    for _ in range(2):
        with serve(tmp_path) as serving:
            api = HttpApi(serving.url("http"))
            assert take(api, 0, 1) == given
            assert bodies(api, 1) == MANY[:9_000]
            kill(serving)
    with serve(tmp_path) as serving:
        assert bodies_of(serving.url(), "q") == MANY[9_000:]


def test_a_kill_after_a_commit_was_answered_brings_nothing_back(tmp_path: Path) -> None:
    with serve(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", MANY)
        api = HttpApi(serving.url("http"))
        take(api, 0, 5_000)
        take(api, 1, 5_000)
        told = commit(api, 1)
        kill(serving)
    assert told == {"committed": 1, "messages": 5_000}
    with serve(tmp_path) as serving:
        api = HttpApi(serving.url("http"))
        assert commit(api, 1) == told
        assert bodies(api, 2) == MANY[5_000:10_000]
        assert api.delete(LEASES, **MINE) == (200, {"released": 5_000})
        assert bodies_of(serving.url(), "q") == MANY[5_000:]


@pytest.mark.parametrize("when", [0.0, 0.01])
def test_a_kill_in_the_middle_of_a_commit_leaves_all_or_nothing(tmp_path: Path, when: float) -> None:
    """The kill comes while the request is under way; the client cannot know, and asks again."""
    with serve(tmp_path) as serving:
        declare_at(serving.url(), "q")
        fill(serving.url(), "q", MANY)
        api = HttpApi(serving.url("http"))
        take(api, 0, 10_000)
        asking = Thread(target=_try, args=(api,))
        asking.start()
        asking.join(when)
        kill(serving)
        asking.join(20)
    with serve(tmp_path) as serving:
        api = HttpApi(serving.url("http"))
        listed = api.get(LEASES)[1]
        if listed["leases"]:
            assert bodies(api, 1) == MANY[:10_000]
        assert commit(api, 1) == {"committed": 1, "messages": 10_000}
        assert bodies_of(serving.url(), "q") == MANY[10_000:]


def _try(api: HttpApi) -> None:
    with suppress(OSError, HTTPException):  # the broker may be killed before it answers
        api.post(COMMIT, {**MINE, "through": 1})


def test_a_job_that_reads_by_leases_through_many_kills_sees_each_message_once(tmp_path: Path, random: Random) -> None:
    """Its checkpoint is the last lease that it has worked on; it is written before the commit is asked for."""
    worked: dict[int, list[bytes]] = {}
    published = 0
    for life in range(4):
        with serve(tmp_path) as serving:
            if life == 0:
                declare_at(serving.url(), "q")
            api = HttpApi(serving.url("http"))
            fill(serving.url(), "q", MANY[published : published + 1_500])
            published += 1_500
            for _ in range(random.randrange(1, 4)):
                after = max(worked, default=0)
                given = take(api, after, random.choice((1, 700, 2_000)))
                if given["messages"]:
                    worked[given["lease"]] = bodies(api, given["lease"])
                    assert len(worked[given["lease"]]) == given["messages"]
                if worked and random.random() < 0.7:
                    commit(api, max(worked))
            kill(serving)
    with serve(tmp_path) as serving:
        api = HttpApi(serving.url("http"))
        commit(api, max(worked))
        last = take(api, max(worked), 100_000)
        if last["messages"]:
            worked[last["lease"]] = bodies(api, last["lease"])
            commit(api, last["lease"])
        assert bodies_of(serving.url(), "q") == []
        serving.terminate()
        assert serving.exit_code(15) == 0, serving.log()
        assert "Traceback" not in serving.log()
    assert [body for lease in sorted(worked) for body in worked[lease]] == MANY[:published]

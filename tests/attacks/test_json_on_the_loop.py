"""CWE-400, uncontrolled resource consumption: decoding and checking the JSON of one request must not hold the event
loop, on which all other connections are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.attack_target import AttackTarget
from tests.support.http_api import vhost_path

pytestmark = pytest.mark.quiet

MIB = 1 << 20
LONGEST_WAIT = 0.1  # seconds of the bystander
REPEATED = 5


def commit(size: int) -> bytes:
    ids = b",".join(b'"%032x"' % number for number in range(size // 35))
    return b'{"transaction": "t", "batch": 0, "stages": [%s]}' % ids


def filled(value: bytes, size: int = MIB - 100) -> bytes:
    """An object with as many of these values as fit."""
    return b'{"x": [%s]}' % b",".join([value] * (size // (len(value) + 1)))


ATTACKS = {
    "commit-of-many-stages": ("POST", vhost_path("commits"), commit(8 * MIB - 100)),
    "commit-of-many-lists": ("POST", vhost_path("commits"), filled(b"[]", 8 * MIB - 100)),
    "lease": ("POST", vhost_path("leases"), filled(b"[]")),
    "offset-of-a-reader": ("PUT", vhost_path("consumers"), filled(b"1.5")),
    "queue": ("PUT", "/api/queues/%2F/q", filled(b"[]")),
    "publish": ("POST", "/api/exchanges/%2F/amq.fanout/publish", filled(b"[]")),
}


def test_json_of_one_request_does_not_hold_the_loop(tmp_path: Path) -> None:
    with AttackTarget(tmp_path) as attacked:
        answers = {
            name: {attacked.api.send(*attack)[0].status for _ in range(REPEATED)} for name, attack in ATTACKS.items()
        }
        served = attacked.check()
    assert served.longest <= LONGEST_WAIT, served
    assert all(statuses <= {400, 413} for statuses in answers.values()), answers

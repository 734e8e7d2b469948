"""CWE-1333 and CWE-770: a short regular expression must not take much time or memory, be it the name of queues to read
(any user), the filter of a list (management) or a policy (policymaker)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.attack_target import AttackTarget
from tests.support.http_api import vhost_path

pytestmark = pytest.mark.quiet
BOMBS = (".{65535}" * 20, "(?:(?:a{100}){100}){100}", "(?P<a>x(?&a)(?&a))?(?&a)")


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackTarget]:
    with AttackTarget(tmp_path) as running:
        yield running


def test_short_patterns_do_not_become_large(attacked: AttackTarget) -> None:
    api = attacked.api
    answers = [api.get(f"{vhost_path('sources')}?pattern={quote(bomb)}") for bomb in BOMBS]
    answers += [api.get(f"/api/queues?page=1&use_regex=true&name={quote(bomb)}") for bomb in BOMBS]
    answers += [
        api.put("/api/policies/%2F/p", {"pattern": bomb, "definition": {"max-length": 1}, "apply-to": "queues"})
        for bomb in BOMBS
    ]
    attacked.check()
    assert [answer[0] for answer in answers] == [400] * len(answers)

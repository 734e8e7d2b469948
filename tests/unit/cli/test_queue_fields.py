"""The fields that ``leveret queues list --sort`` accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leveret.api.views.queue import QUEUE_ROWS
from leveret.backlog.counters import QueueCounters
from leveret.cli.api_client import Answer, Api, Misuse, Row
from leveret.cli.queue_commands import SORT_FIELDS
from leveret.cli.queue_fields import COUNTERS, FIELDS, PLAIN, refuse_unknown_field


class FakeApi(Api):
    def __init__(self, *rows: Row) -> None:
        self._body = json.dumps({"items": rows}).encode()

    def get(self, *path: str, query: Any = None) -> Answer:
        return Answer(200, self._body, "http://broker")


def test_all_fields_of_leveret_are_known() -> None:
    assert sorted(PLAIN) == sorted(QUEUE_ROWS.columns)
    assert sorted(COUNTERS) == sorted(QueueCounters.__slots__)
    assert SORT_FIELDS <= FIELDS


@pytest.mark.parametrize("field", ["idle_since", "message_stats.redeliver_details.rate", "arguments.x-max-length"])
def test_a_field_is_known_without_a_queue(field: str) -> None:
    refuse_unknown_field(FakeApi(), field, set())


@pytest.mark.parametrize("rows", [(), ({"name": "q", "messages": 1},)])
def test_an_unknown_field_is_refused_with_and_without_queues(rows: tuple[Row, ...]) -> None:
    with pytest.raises(Misuse, match="unknown field in --sort 'mesages': did you mean 'messages'"):
        refuse_unknown_field(FakeApi(*rows), "mesages", set(FIELDS))


def test_a_field_of_another_broker_is_known_by_any_queue_that_has_it() -> None:
    api = FakeApi({"name": "q"}, {"name": "r", "reductions": None, "backing_queue_status": {"mode": "lazy"}})
    refuse_unknown_field(api, "reductions", set())
    refuse_unknown_field(api, "backing_queue_status.mode", set())
    with pytest.raises(Misuse):
        refuse_unknown_field(api, "backing_queue_status.mode.x", {"name"})

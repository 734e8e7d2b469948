"""The commit of the sink on the driver: what the tasks of a batch did, in one place."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from leveret.spark import LeveretDataSource, sink_writer
from leveret.spark.errors import OldCheckpoint, Unroutable
from leveret.spark.written import Written

BODY = StructType([StructField("body", StringType())])


def done(*answers: dict[str, object]) -> Written:
    """The result of a task, from the broker's answers to its pieces."""
    written = Written("t")
    for answer in answers:
        written.add(answer)
    return written


def test_a_commit_logs_how_long_all_tasks_waited_for_each_reason(caplog: pytest.LogCaptureFixture) -> None:
    sink = LeveretDataSource({"exchange": "", "guarantee": "at-least-once"}).streamWriter(BODY, overwrite=False)
    first = done({"messages": 2, "waited": {"disk": 0.2}}, {"messages": 1}, {"messages": 1, "waited": {"disk": 1.0}})
    second = done({"messages": 1, "waited": {"disk": 0.5}})
    second.wait("memory alarm", 2.0)  # before the broker took the request
    sink.commit([first, None, second], 7)
    assert [record.getMessage() for record in caplog.records] == [
        "the tasks of batch 7 waited 1.7 s for the broker: its disk is slow",
        "the tasks of batch 7 waited 2.0 s for the broker: memory alarm",
    ]
    caplog.clear()
    sink.commit([done({"messages": 1})], 8)
    assert not caplog.records


class Committing:
    """A broker that gives this answer to each commit."""

    def __init__(self, answer: dict[str, object]) -> None:
        self._answer = answer

    def __call__(self, access: object) -> Committing:
        return self

    def __enter__(self) -> Committing:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def post(self, path: str, value: object) -> dict[str, object]:
        return self._answer

    def get(self, path: str, query: object) -> dict[str, object]:
        return {"last_batch": 7}


UNROUTED: dict[str, object] = {
    "duplicate": False,
    "messages": 3,
    "unroutable": 2,
    "unroutable_keys": [{"exchange": "e", "routing_key": "k", "messages": 2}],
}


@pytest.mark.parametrize("transaction", [{}, {"transactionId": "t"}])
def test_a_repeat_of_the_last_batch_may_not_have_more_rows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, transaction: dict[str, str]
) -> None:
    """The broker drops them. It may have fewer: retention may have removed messages in between."""
    sink = LeveretDataSource({"exchange": "e", **transaction}).streamWriter(BODY, overwrite=False)
    staged = [done({"stage": "1", "messages": 3}), done({"stage": "2", "messages": 2})]
    for before, text in ((5, "was committed before: dropped"), (6, "before, with 6 messages instead of 5: dropped")):
        monkeypatch.setattr(sink_writer, "BrokerClient", Committing({"duplicate": True, "messages_before": before}))
        sink.commit(staged, 7)
        assert caplog.messages[-1].endswith(text)
    monkeypatch.setattr(sink_writer, "BrokerClient", Committing({"duplicate": True, "messages_before": 4}))
    with pytest.raises(OldCheckpoint, match="it was committed with 4 messages, and has 5 now"):
        sink.commit(staged, 7)
    monkeypatch.setattr(sink_writer, "BrokerClient", Committing({"duplicate": True}))  # an earlier version
    sink.commit(staged, 7)
    assert caplog.messages[-1].endswith("was committed before: dropped")


def test_mandatory_messages_without_a_queue_at_the_commit_are_not_silent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They had a queue when they were staged."""
    monkeypatch.setattr(sink_writer, "BrokerClient", Committing(UNROUTED))
    staged = done({"stage": "1", "messages": 3})
    given = {"exchange": "e", "mandatory": "true"}
    with pytest.raises(Unroutable, match=r"2 messages were routed to no queue: 2 with routing key 'k' .* are lost"):
        LeveretDataSource(given).streamWriter(BODY, overwrite=False).commit([staged], 7)
    LeveretDataSource(given | {"unroutable": "report"}).streamWriter(BODY, overwrite=False).commit([staged], 7)
    assert "2 messages were routed to no queue" in caplog.text

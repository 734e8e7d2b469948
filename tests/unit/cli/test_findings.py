"""What the doctor finds in the JSON of queues."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.cli.findings import Finding, find_dead_letter_queues, queue_findings

Row = dict[str, Any]


def queue(name: str = "q", vhost: str = "/", **facts: Any) -> Row:
    return {"name": name, "vhost": vhost, "state": "running", "messages_ready": 0, "consumers": 0, **facts}


def binding(source: str, destination: str, kind: str = "queue", vhost: str = "/") -> Row:
    return {"vhost": vhost, "source": source, "destination": destination, "destination_type": kind}


def found(*queues: Row, bindings: tuple[Row, ...] = ()) -> list[Finding]:
    return list(queue_findings(queues, bindings))


def test_queues_that_are_well_have_nothing_to_find() -> None:
    assert found(queue(), queue("r", messages_ready=5, consumers=1)) == []


def test_a_queue_that_grows_without_consumers_is_an_alarm() -> None:
    growing = queue(messages_ready=7, messages_details={"rate": 2.0})
    [finding] = found(growing)
    assert finding.weight == "alarm"
    assert "queue 'q' in vhost '/' grows by 2.0/s and has no consumers: 7 ready" in finding.what
    assert [each.weight for each in found({**growing, "messages_ready": 4})] == ["warning"]
    assert found({**growing, "consumers": 1}) == []
    assert found({**growing, "messages_details": {"rate": -1.0}}) == []
    assert found({**growing, "message_stats": {"deliver_get_details": {"rate": 1.0}}}) == []  # taken without consumers


def test_a_stream_that_grows_unread_is_well_and_its_letters_are_not_sent_back() -> None:
    stream = queue("events", type="stream", messages_ready=1000, messages_details={"rate": 10.0})
    work = queue("work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "events"})
    assert found(stream, work) == []


def test_what_a_lease_holds_is_not_blamed_on_consumers() -> None:
    held = queue(messages_unacknowledged=7, delivery_idle_time=3600.0)
    assert list(queue_findings([held], (), {("/", "q"): 7})) == []
    [finding] = queue_findings([held], (), {("/", "q"): 4, ("other", "q"): 3})
    assert finding.what == "3 messages of queue 'q' in vhost '/' unacknowledged for 1 h 0 min, 0 ready"


def test_a_paused_queue_is_told_with_the_command_that_resumes_it() -> None:
    [finding] = found(queue("a b", "shop", state="paused", messages_ready=3))
    assert finding.remedy == "leveret queues resume 'a b' --vhost shop"


def test_dead_letters_are_found_where_they_go_by_arguments_and_by_policies() -> None:
    queues = [
        queue("work", arguments={"x-dead-letter-exchange": "dead"}),
        queue("more", effective_policy_definition={"dead-letter-exchange": "", "dead-letter-routing-key": "late"}),
        queue("graves", messages_ready=4),
        queue("late", messages_ready=1),
        queue("graves", "other", messages_ready=4),
    ]
    bindings = (binding("dead", "graves"), binding("dead", "x", "exchange"), binding("amq.topic", "work"))
    assert find_dead_letter_queues(queues, bindings) == {("/", "graves"), ("/", "late")}
    first, second = found(*queues, bindings=bindings)
    assert first == ("warning", "4 dead letters in queue 'graves' in vhost '/'", first.remedy)
    assert first.remedy == "leveret browse graves, then leveret redrive graves"
    assert second.what == "1 dead letter in queue 'late' in vhost '/'"


def test_the_arguments_of_a_queue_win_over_its_policies() -> None:
    both = queue(
        arguments={"x-dead-letter-exchange": "mine"}, effective_policy_definition={"dead-letter-exchange": "theirs"}
    )
    assert find_dead_letter_queues([both], [binding("mine", "a"), binding("theirs", "b")]) == {("/", "a")}


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"delivery_idle_time": 20.0, "messages_ready": 2}, None),  # a worker in a task of 20 s
        ({"delivery_idle_time": 80.0, "messages_ready": 2}, "5 messages of {} unacknowledged for 1 min, 2 ready"),
        (
            {"delivery_idle_time": 80.0, "messages_ready": 2, "consumers_busy": True},
            "5 messages of {} unacknowledged for 1 min, 2 ready: its consumers are busy and have reached their "
            "prefetch limit",
        ),
        ({"delivery_idle_time": 80.0}, None),
        ({"delivery_idle_time": 1900.0}, "5 messages of {} unacknowledged for 31 min, 0 ready"),
        ({"messages_ready": 2}, "5 messages of {} unacknowledged, 2 ready"),  # RabbitMQ
        ({}, None),
        ({"messages_ready": 2, "message_stats": {"ack_details": {"rate": 0.5}}}, None),
        ({"messages_ready": 2, "messages_unacknowledged": 0}, None),
    ],
)
def test_consumers_that_acknowledge_nothing_for_long_are_found(facts: Row, what: str | None) -> None:
    findings = found(queue(**{"messages_unacknowledged": 5, "consumers": 1, **facts}))
    assert [each.what for each in findings] == ([] if what is None else [what.format("queue 'q' in vhost '/'")])
    assert not any("close" in each.remedy for each in findings)

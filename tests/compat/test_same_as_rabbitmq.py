"""Limits, dead letters and delivery limits: a client of Leveret sees what a client of RabbitMQ sees.

What RabbitMQ 3.10.8 (Debian) showed in each scenario is kept in rabbitmq_3.10.8.json, so that the tests need no second
broker. With LEVERET_ASK_RABBITMQ=1 an installed RabbitMQ is started, asked again, and the file written anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.compat import long

import leveret
from benchmarks.brokers import RabbitMQ
from tests.compat import channel_scenarios
from tests.compat.both_brokers import Scenario, Stage, lived_through

SCENARIOS: list[Scenario] = []
KEPT = Path(__file__).with_name("rabbitmq_3.10.8.json")


def scenario(play: Scenario) -> Scenario:
    SCENARIOS.append(play)
    return play


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What RabbitMQ shows, by the names of the scenarios."""
    if not os.environ.get("LEVERET_ASK_RABBITMQ"):
        yield json.loads(KEPT.read_text(encoding="utf-8"))
        return
    folder: Path = tmp_path_factory.mktemp("rabbitmq")
    with RabbitMQ(folder) as running:
        url = f"amqp://guest:guest@127.0.0.1:{running.port}/%2F"
        shown = {play.__name__: repr(lived_through(play, url)) for play in (*SCENARIOS, *channel_scenarios.SCENARIOS)}
    KEPT.write_text(json.dumps(shown, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    yield shown


# ---- the story of a dead letter


@scenario
def rejected(stage: Stage) -> object:
    """S4-76."""
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    stage.publish("q", b"m", headers={"mine": "yes", "number": 7}, delivery_mode=2)
    stage.wait("q", auto_ack=False)
    stage.reject()
    return stage.wait("dead")


@scenario
def expired_with_an_expiration_of_its_own(stage: Stage) -> object:
    """S0-22, S0-25: it is told in the story and taken from the message."""
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    stage.publish("q", b"m", expiration="20")
    return stage.wait("dead"), stage.count("q")


@scenario
def expired_by_the_queue(stage: Stage) -> object:
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=20)
    stage.publish("q", b"m")
    return stage.wait("dead")


@scenario
def ttl_zero_with_a_dead_letter_exchange(stage: Stage) -> object:
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=0)
    stage.publish("q", b"m")
    return stage.wait("dead")


@scenario
def too_many(stage: Stage) -> object:
    """S0-24."""
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead", max_length=2)
    for body in (b"a", b"b", b"c", b"d"):
        stage.publish("q", body)
    first = stage.wait("dead")
    return first, stage.wait("dead"), stage.drained("q")


@scenario
def died_three_times(stage: Stage) -> object:
    """Entries by queue and reason, the latest first, counted; the first death is remembered."""
    stage.queue("one", dead_letter_exchange="", dead_letter_routing_key="two")
    stage.queue("two", dead_letter_exchange="", dead_letter_routing_key="one")
    stage.publish("one", b"m")
    stories = []
    for queue in ("one", "two", "one", "two", "one"):
        stories.append(stage.wait(queue, auto_ack=False))
        stage.reject()
    return stories, stage.wait("two")


@scenario
def another_reason_is_another_entry(stage: Stage) -> object:
    """The latest is the first; how the others are ordered differs between versions of RabbitMQ."""
    stage.queue("one", dead_letter_exchange="", dead_letter_routing_key="two", max_length=1)
    stage.queue("two", dead_letter_exchange="", dead_letter_routing_key="one")
    stage.publish("one", b"m")
    stage.wait("one", auto_ack=False)
    stage.reject()
    stage.wait("two", auto_ack=False)
    stage.reject()
    stage.counts(1, "one", "two")
    stage.publish("one", b"pushes it out")
    headers = stage.wait("two").headers
    assert isinstance(headers, dict)
    latest, *others = headers.pop("x-death")
    return latest, sorted(others, key=lambda entry: entry["queue"]), headers, stage.wait("one")


@scenario
def carbon_copies_go_with_the_key_of_the_message(stage: Stage) -> object:
    stage.queue("dead")
    stage.queue("copy")
    stage.exchange("dlx", "direct", "dead", key="q")
    stage.channel.queue_bind(stage.name("copy"), stage.name("dlx"), stage.name("cc"))
    stage.queue("q", dead_letter_exchange="dlx")
    stage.publish("q", b"m", headers={"CC": [stage.name("cc")], "BCC": [stage.name("hidden")]})
    stage.wait("q", auto_ack=False)
    stage.reject()
    return stage.wait("dead"), stage.wait("copy")


@scenario
def carbon_copies_end_with_a_key_of_the_queue(stage: Stage) -> object:
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    stage.publish("q", b"m", headers={"CC": [stage.name("cc")]})
    stage.wait("q", auto_ack=False)
    stage.reject()
    return stage.wait("dead")


@scenario
def a_client_may_write_the_headers_too(stage: Stage) -> object:
    """But for the first death: RabbitMQ keeps what the client wrote, see docs/compat.md."""
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    stage.publish("q", b"m", headers={"x-first-death-reason": "boredom", "x-death": []})
    stage.wait("q", auto_ack=False)
    stage.reject()
    seen = stage.wait("dead")
    assert isinstance(seen.headers, dict)
    return seen.body, seen.headers["x-death"]


@scenario
def types_of_headers_stay(stage: Stage) -> object:
    stage.queue("dead")
    stage.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    stage.publish(
        "q", b"m", headers={"long": 1 << 40, "bytes": b"\xff\x00", "none": None, "list": [1, "two", True], "l": long(5)}
    )
    stage.wait("q", auto_ack=False)
    stage.reject()
    return stage.wait("dead")


@scenario
def the_exchange_of_a_second_death_is_the_dead_letter_exchange(stage: Stage) -> object:
    stage.queue("end")
    stage.queue("middle", dead_letter_exchange="", dead_letter_routing_key="end", message_ttl=10)
    stage.exchange("dlx", "fanout", "middle")
    stage.exchange("front", "fanout")
    stage.queue("q", dead_letter_exchange="dlx", message_ttl=10)
    stage.channel.queue_bind(stage.name("q"), stage.name("front"), "")
    stage.publish("some key", b"m", exchange="front")
    return stage.wait("end")


# ---- where it goes


@scenario
def no_such_exchange(stage: Stage) -> object:
    stage.queue("q", dead_letter_exchange="nowhere")
    stage.publish("q", b"m")
    stage.wait("q", auto_ack=False)
    stage.reject()
    return stage.drained("q")


@scenario
def expired_to_itself_is_a_cycle(stage: Stage) -> object:
    stage.queue("q", dead_letter_exchange="", message_ttl=10)
    stage.publish("q", b"m")
    return stage.counts(0, "q")


@scenario
def rejected_to_itself_goes_round(stage: Stage) -> object:
    stage.queue("q", dead_letter_exchange="")
    stage.publish("q", b"m")
    seen = []
    for _ in range(3):
        seen.append(stage.wait("q", auto_ack=False))
        stage.reject()
    return seen, stage.wait("q")


@scenario
def expired_round_two_queues_ends_after_one_round(stage: Stage) -> object:
    stage.queue("one", dead_letter_exchange="", dead_letter_routing_key="two", message_ttl=10)
    stage.queue("two", dead_letter_exchange="", dead_letter_routing_key="one", message_ttl=10)
    stage.publish("one", b"m")
    return stage.counts(0, "one", "two")


@scenario
def a_reject_on_the_way_opens_the_round(stage: Stage) -> object:
    stage.queue("one", dead_letter_exchange="", dead_letter_routing_key="two", message_ttl=10)
    stage.queue("two", dead_letter_exchange="", dead_letter_routing_key="one")
    stage.publish("one", b"m")
    seen = []
    for _ in range(3):
        seen.append(stage.wait("two", auto_ack=False))
        stage.reject()
    return seen, stage.wait("two")


# ---- limits


@scenario
def bytes_are_those_of_bodies(stage: Stage) -> object:
    stage.queue("q", max_length_bytes=20)
    stage.publish("q", b"0123456789", headers={"not": "counted " * 20})
    stage.publish("q", b"0123456789")
    both = stage.count("q")
    stage.publish("q", b"x")
    return both, stage.count("q")


@scenario
def unacked_ones_do_not_count(stage: Stage) -> object:
    stage.queue("q", max_length=1)
    stage.publish("q", b"a")
    stage.wait("q", auto_ack=False)
    stage.publish("q", b"b")
    held = stage.count("q")
    stage.reject(requeue=True)
    return held, stage.counts(1, "q"), stage.get("q")


@scenario
def a_full_queue_refuses(stage: Stage) -> object:
    stage.queue("q", max_length=2, overflow="reject-publish")
    stage.channel.confirm_delivery()
    told = [stage.publish("q", body) for body in (b"a", b"b", b"c", b"d")]
    return told, stage.drained("q"), stage.publish("q", b"e")


@scenario
def a_full_queue_refuses_without_a_word(stage: Stage) -> object:
    stage.queue("q", max_length=1, overflow="reject-publish")
    told = [stage.publish("q", body) for body in (b"a", b"b")]
    return told, stage.drained("q")


@scenario
def bytes_that_are_full_refuse(stage: Stage) -> object:
    stage.queue("q", max_length_bytes=10, overflow="reject-publish")
    stage.channel.confirm_delivery()
    told = [stage.publish("q", body) for body in (b"123456", b"123456", b"1234", b"x", b"")]
    return told, stage.drained("q")


@scenario
def one_full_queue_of_two_is_a_refusal(stage: Stage) -> object:
    stage.queue("full", max_length=0, overflow="reject-publish")
    stage.queue("free")
    stage.exchange("both", "fanout", "full", "free")
    stage.channel.confirm_delivery()
    told = stage.publish("", b"m", exchange="both")
    return told, stage.counts(1, "full", "free")


@scenario
def refused_and_a_dead_letter(stage: Stage) -> object:
    stage.queue("dead")
    stage.queue(
        "q", max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    stage.channel.confirm_delivery()
    told = [stage.publish("q", body) for body in (b"a", b"b")]
    return told, stage.wait("dead"), stage.drained("q")


@scenario
def the_highest_priority_stands_at_the_head(stage: Stage) -> object:
    stage.queue("dead")
    stage.queue("q", max_priority=3, max_length=2, dead_letter_exchange="", dead_letter_routing_key="dead")
    for body, priority in ((b"low", 1), (b"high", 3), (b"lower", 0)):
        stage.publish("q", body, priority=priority)
    dead = stage.wait("dead")
    return dead.body, stage.drained("q")


@scenario
def a_length_of_zero_keeps_nothing(stage: Stage) -> object:
    stage.queue("q", max_length=0)
    stage.channel.confirm_delivery()
    return stage.publish("q", b"m"), stage.drained("q")


# ---- delivery limits


@scenario
def delivered_too_often(stage: Stage) -> object:
    """The first delivery has no count; after two returns the next is the end."""
    stage.queue("dead")
    stage.queue(
        "q",
        durable=True,
        queue_type="quorum",
        delivery_limit=2,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    stage.publish("q", b"m", headers={"mine": "yes"})
    first = stage.wait("q", auto_ack=False)  # RabbitMQ 3 tells a count of 0 here, later ones say nothing as we do
    stage.reject(requeue=True)
    seen = []
    for _ in range(2):
        seen.append(stage.wait("q", auto_ack=False))
        stage.reject(requeue=True)
    return first.body, seen, stage.wait("dead"), stage.count("q")


# ---- arguments

WRONG: list[dict[str, object]] = [
    {"max_length": -1},
    {"max_length": "1"},
    {"max_length_bytes": -1},
    {"overflow": "sideways"},
    {"message_ttl": -1},
    {"message_ttl": "1"},
    {"dead_letter_exchange": 5},
    {"dead_letter_routing_key": "alone"},
    {"expires": 0},
    {"max_priority": 256},
    {"max_priority": -1},
]


@scenario
def what_is_refused(stage: Stage) -> object:
    return [stage.refusal(lambda wrong=wrong: stage.queue("q", **wrong)) for wrong in WRONG]  # type: ignore[misc]


@scenario
def another_limit_is_another_queue(stage: Stage) -> object:
    stage.queue("q", max_length=1, overflow="reject-publish", dead_letter_exchange="")
    others: list[dict[str, object]] = [
        {"max_length": 2, "overflow": "reject-publish", "dead_letter_exchange": ""},
        {"max_length": 1, "overflow": "drop-head", "dead_letter_exchange": ""},
        {"max_length": 1, "overflow": "reject-publish"},
        {"max_length": 1, "overflow": "reject-publish", "dead_letter_exchange": ""},
    ]
    return [stage.refusal(lambda other=other: stage.queue("q", **other)) for other in others]  # type: ignore[misc]


@scenario
def who_says_classic_says_nothing(stage: Stage) -> object:
    """Of a queue with the type, of one without, and of one of another type."""
    kinds: dict[str, dict[str, object]] = {"c": {"queue_type": "classic"}, "n": {}, "q": {"queue_type": "quorum"}}
    for name, kind in kinds.items():
        stage.queue(name, durable=True, **kind)
    again = [(name, kind) for name in kinds for kind in kinds.values()]
    return [stage.refusal(lambda name=a[0], kind=a[1]: stage.queue(name, durable=True, **kind)) for a in again]  # type: ignore[misc]


@pytest.mark.parametrize("play", [*SCENARIOS, *channel_scenarios.SCENARIOS], ids=lambda play: play.__name__)
@pytest.mark.feature("S0-21", "S0-22", "S0-24", "S0-25", "S4-76")
def test_a_client_sees_the_same(play: Scenario, rabbitmq: dict[str, str], broker: leveret.Broker) -> None:
    """As RabbitMQ does it."""
    assert repr(lived_through(play, broker.amqp_url)) == rabbitmq[play.__name__]

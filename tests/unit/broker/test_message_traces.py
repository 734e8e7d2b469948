"""The stories of messages: bounded, found by any of their names, and told of what there was. S4-77."""

from __future__ import annotations

import pytest

from leveret.broker.firehose import LONGEST_KEY, cut
from leveret.broker.message_traces import (
    FIRST_EVENTS,
    LAST_EVENTS,
    MOST_HEADER_BYTES,
    MessageTrace,
    MessageTraces,
    binding_steps,
    message_facts,
)
from leveret.broker.publish_rules import readable_properties
from leveret.delivery.selector import selectable
from leveret.message import TRANSIENT, Address, Message
from leveret.routing.bindings import Binding, Destination
from leveret.wire.content import make_content
from leveret.wire.fields import Table
from leveret.wire.properties import Properties
from tests.support.peer_pair import Harness


def begun(book: MessageTraces, message_id: str | None = None, size: int = 0) -> MessageTrace:
    story = book.begin({"message_id": message_id}, size)
    book.tell(story, 0.0, "received", {})
    return story


# ---- bounds


@pytest.mark.feature("S4-77")
def test_the_oldest_story_is_forgotten_first() -> None:
    book = MessageTraces(most=2)
    stories = [begun(book, name) for name in ("a", "b", "c")]
    book.put(stories[0], (1, 0, 1), "q")
    assert list(book.newest_first()) == [stories[2], stories[1]]
    assert (book.find("a"), book.at((1, 0, 1)), book.discarded) == (None, None, 1)
    book.tell(stories[0], 1.0, "acked", {})  # somebody still held it: no harm is done
    assert book.bytes == stories[1].size + stories[2].size


@pytest.mark.feature("S4-77")
def test_stories_are_forgotten_by_their_weight_too() -> None:
    book = MessageTraces(most_bytes=10_000)
    for number in range(20):
        begun(book, str(number), 1_500)
    assert 0 < len(book) < 8
    assert book.bytes <= 10_000
    assert book.forget_all() > 0
    assert (len(book), book.bytes) == (0, 0)


def test_a_long_story_keeps_how_it_began_and_how_it_goes_on() -> None:
    book = MessageTraces()
    story = book.begin({"message_id": None}, 0)
    for number in range(1_000):
        book.tell(story, float(number), "requeued", {"number": number})
    numbers = [event.facts["number"] for event in story.events]
    assert len(numbers) == FIRST_EVENTS + LAST_EVENTS
    assert (numbers[:FIRST_EVENTS], numbers[-1]) == (list(range(FIRST_EVENTS)), 999)
    assert story.left_out == 1_000 - len(numbers)
    assert book.bytes == story.size


def test_a_message_that_goes_round_for_ever_has_its_latest_places() -> None:
    book = MessageTraces()
    story = begun(book)
    for number in range(1, 1_001):
        book.put(story, (1, 0, number), "q")
        book.leave((1, 0, number))
    assert (book.find("1-0-1000"), book.find("1-0-1"), len(story.past)) == (story, None, LAST_EVENTS)
    book.forget(story)
    assert book.find("1-0-1000") is None


# ---- names


@pytest.mark.parametrize("name", ["m1", "7-0-12", "mine"])
def test_a_story_is_found_by_any_of_its_names(name: str) -> None:
    book = MessageTraces()
    story = begun(book, "mine")
    book.put(story, (7, 0, 12), "q")
    assert book.find(name) is story
    book.leave((7, 0, 12))
    assert book.find(name) is story
    assert story.places == {}


@pytest.mark.parametrize("name", ["", "m", "m2", "m٣", "7-0", "7-0-13", "7-0-x", "m" + "9" * 5000, "9" * 5000 + "-1-1"])
def test_what_is_no_name_finds_nothing(name: str) -> None:
    book = MessageTraces()
    book.put(begun(book, "mine"), (7, 0, 12), "q")
    assert book.find(name) is None


def test_the_latest_of_two_with_one_message_id_is_found() -> None:
    book = MessageTraces()
    first, second = begun(book, "same"), begun(book, "same")
    assert book.find("same") is second
    book.forget(first)
    assert book.find("same") is second


# ---- what is said of a message


def test_long_headers_are_cut_and_unreadable_ones_left_out() -> None:
    headers: Table = {"short": "yes", "long": "x" * 100_000, **{f"n{number}": number for number in range(2_000)}}
    content = make_content(Properties(message_id="m", headers=headers), b"body")
    message: Message = (content, Address("x", "k", 1, 4096), TRANSIENT)
    facts, size = message_facts(message, readable_properties(message))
    kept = facts["properties"]["headers"]
    assert kept["short"] == "yes"
    assert "long" not in kept
    assert len(str(kept)) < 4 * MOST_HEADER_BYTES
    assert (facts["headers_cut"], facts["size"], facts["message_id"]) == (True, 4, "m")
    assert size <= 4 * MOST_HEADER_BYTES
    broken = bytearray(make_content(Properties(headers={"a": 1}), b""))
    broken[27] = 0xFF  # within the table
    assert readable_properties((bytes(broken), *message[1:])) == Properties(delivery_mode=1)


def test_the_key_of_a_copy_fits_a_key() -> None:
    assert len(cut("deliver." + "ä" * 127).encode()) <= LONGEST_KEY
    assert cut("publish.x") == "publish.x"


# ---- by which bindings


def steps(
    harness: Harness, exchange: str, key: str, *queues: str, **headers: object
) -> list[tuple[str, str, str, str]]:
    fields = selectable(Properties(headers=dict(headers)))  # type: ignore[arg-type]
    found, _ = binding_steps(harness.vhost, harness.vhost.exchange(exchange), (key,), fields, queues)
    return [(step["source"], step["destination"], step["routing_key"], step["by"]) for step in found]


@pytest.mark.feature("S4-77")
def test_the_bindings_that_took_a_message_are_named() -> None:
    harness = Harness()
    vhost = harness.vhost
    vhost.declare_queue("q")
    vhost.declare_queue("spare")
    vhost.declare_exchange("first", "topic", arguments={"alternate-exchange": "lost"})
    vhost.declare_exchange("second", "headers")
    vhost.declare_exchange("lost", "fanout")
    vhost.bind(Binding("first", Destination("exchange", "second"), "eu.*", {}))
    vhost.bind(Binding("first", Destination("queue", "q"), "us.*", {}))
    vhost.bind(Binding("second", Destination("queue", "q"), "", {"colour": "red"}))
    vhost.bind(Binding("second", Destination("queue", "q"), "", {"colour": "blue"}))
    vhost.bind(Binding("lost", Destination("queue", "spare"), "", {}))
    assert steps(harness, "first", "eu.be", "q", colour="red") == [
        ("first", "second", "eu.*", "binding"),
        ("second", "q", "", "binding"),
    ]
    assert steps(harness, "first", "us.ny", "q") == [("first", "q", "us.*", "binding")]
    assert steps(harness, "first", "asia", "spare") == [
        ("first", "lost", "asia", "alternate-exchange"),
        ("lost", "spare", "", "binding"),
    ]
    assert steps(harness, "", "q", "q") == [("", "q", "q", "name")]

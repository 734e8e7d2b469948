"""What is sent on when a message dies: its story, where it goes, and what goes round (S4-76, S0-22, S0-24, S0-25)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leveret.broker.dead_letters import goes_round
from leveret.wire.fields import Table
from leveret.wire.methods import ExchangeDeclare, ExchangeDelete, QueueBind, QueueDelete
from tests.support.peer_pair import Client, Content, Harness

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def client(harness: Harness) -> Client:
    made = harness.client()
    made.declare("dead")
    return made


def reject(client: Client, queue: str = "q") -> None:
    got = client.get(queue)
    assert got is not None
    client.nack(got.tag, requeue=False)


def taken(client: Client, queue: str = "dead") -> Content:
    got = client.get(queue, no_ack=True)
    assert got is not None
    return got


def headers_of(content: Content) -> Table:
    assert content.properties.headers is not None
    return content.properties.headers


def deaths(content: Content) -> list[tuple[object, ...]]:
    """(queue, reason, count) of each entry, the latest first."""
    entries = headers_of(content)["x-death"]
    assert isinstance(entries, list)
    assert all(isinstance(entry, dict) for entry in entries)
    return [tuple(entry.get(name) for name in ("queue", "reason", "count")) for entry in entries]  # type: ignore[union-attr]


def first_death(content: Content) -> tuple[object, ...]:
    headers = headers_of(content)
    return tuple(headers[f"x-first-death-{name}"] for name in ("queue", "reason", "exchange"))


# ---- the story


@pytest.mark.feature("S4-76")
def test_a_rejected_message_tells_its_story(harness: Harness, client: Client) -> None:
    client.ask(ExchangeDeclare("ex", "topic"))
    client.declare("q", arguments=TO_DEAD)
    client.ask(QueueBind("q", "ex", "#"))
    client.feed(client.published("ex", "a.b", b"m", headers={"mine": 1}, content_type="text/plain", delivery_mode=2))
    reject(client)
    letter = taken(client)
    assert letter.properties.headers == {
        "mine": 1,
        "x-death": [
            {
                "count": 1,
                "reason": "rejected",
                "queue": "q",
                "time": datetime.fromtimestamp(int(harness.clock.wall()), UTC),
                "exchange": "ex",
                "routing-keys": ["a.b"],
            }
        ],
        "x-first-death-queue": "q",
        "x-first-death-reason": "rejected",
        "x-first-death-exchange": "ex",
    }
    assert (letter.method.exchange, letter.method.routing_key, letter.redelivered) == ("", "dead", False)
    assert (letter.properties.content_type, letter.properties.delivery_mode) == ("text/plain", 2)


@pytest.mark.feature("S0-25")
def test_an_expired_message_says_what_its_expiration_was(harness: Harness, client: Client) -> None:
    """And has none any more, or it would die in the next queue as well."""
    client.declare("q", arguments=TO_DEAD)
    client.publish("q", b"m", expiration="1000")
    harness.advance(1)
    harness.advance(1000)
    letter = taken(client)
    assert letter.properties.expiration is None
    entry = headers_of(letter)["x-death"][0]  # type: ignore[index,call-overload]
    assert entry["original-expiration"] == "1000"
    assert entry["reason"] == "expired"


def test_the_expiration_goes_whatever_the_reason(harness: Harness, client: Client) -> None:
    client.declare("q", arguments=TO_DEAD)
    client.publish("q", b"m", expiration="1000")
    reject(client)
    harness.advance(5)
    assert taken(client).properties.expiration is None


@pytest.mark.feature("S0-22")
def test_ttl_zero_is_expired(client: Client) -> None:
    client.declare("q", arguments={"x-message-ttl": 0, **TO_DEAD})
    client.publish("q", b"m")
    assert deaths(taken(client)) == [("q", "expired", 1)]


def test_the_same_death_again_is_counted_and_comes_first(client: Client) -> None:
    client.declare("one", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "two"})
    client.declare("two", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "one"})
    client.publish("one", b"m")
    for queue in ("one", "two", "one", "two", "one"):
        reject(client, queue)
    letter = taken(client, "two")
    assert deaths(letter) == [("one", "rejected", 3), ("two", "rejected", 2)]
    assert first_death(letter) == ("one", "rejected", "")


def test_another_reason_is_another_entry(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-message-ttl": 1000, **TO_DEAD})
    client.declare("back", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    client.publish("back", b"m")
    reject(client, "back")
    harness.advance(1)
    assert deaths(taken(client)) == [("q", "expired", 1), ("back", "rejected", 1)]


def test_deaths_that_a_publisher_sends_are_kept_and_do_not_grow(client: Client) -> None:
    """A program that publishes a dead letter again sends its headers with it."""
    client.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    sent: Table = {"x-death": [{"queue": f"other {number}", "reason": "rejected", "count": 1} for number in range(20)]}
    client.publish("q", b"m", headers=sent)
    for _ in range(3):
        reject(client)
    deaths = headers_of(taken(client, "q"))["x-death"]
    assert isinstance(deaths, list)
    assert isinstance(deaths[0], dict)
    assert (deaths[0]["queue"], deaths[0]["count"]) == ("q", 3)
    assert deaths[1:] == sent["x-death"]


def test_priority_and_persistence_stay(harness: Harness, client: Client) -> None:
    client.declare("ranked", arguments={"x-max-priority": 5})
    client.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ranked"})
    for priority in (1, 4):
        client.publish("q", b"%d" % priority, priority=priority, delivery_mode=2)
        reject(client)
    assert [taken(client, "ranked").properties.priority for _ in range(2)] == [4, 1]


def test_a_body_in_many_frames_stays_whole(harness: Harness, client: Client) -> None:
    client.declare("q", arguments=TO_DEAD)
    body = bytes(range(256)) * 2000
    client.publish("q", body)
    reject(client)
    other = harness.client(frame_max=4096)
    assert taken(other).body == body


# ---- keys


def test_without_a_key_of_its_own_it_keeps_the_one_it_had(client: Client) -> None:
    client.ask(ExchangeDeclare("dlx", "direct"))
    client.declare("q", arguments={"x-dead-letter-exchange": "dlx"})
    client.ask(QueueBind("dead", "dlx", "q"))
    client.publish("q", b"m")
    reject(client)
    assert taken(client).method.routing_key == "q"


def test_carbon_copies_go_on_with_the_key_of_the_message(client: Client) -> None:
    client.ask(ExchangeDeclare("dlx", "direct"))
    client.declare("copied")
    client.declare("q", arguments={"x-dead-letter-exchange": "dlx"})
    client.ask(QueueBind("dead", "dlx", "q"))
    client.ask(QueueBind("copied", "dlx", "cc"))
    client.publish("q", b"m", headers={"CC": ["cc"], "BCC": ["hidden"]})
    reject(client)
    for queue in ("dead", "copied"):
        letter = taken(client, queue)
        assert headers_of(letter)["CC"] == ["cc"]
        assert headers_of(letter)["x-death"][0]["routing-keys"] == ["q", "cc"]  # type: ignore[index,call-overload]


def test_a_key_of_the_queue_ends_carbon_copies(client: Client) -> None:
    client.declare("cc")
    client.declare("q", arguments=TO_DEAD)
    client.publish("q", b"m", headers={"CC": ["elsewhere"]})
    reject(client)
    letter = taken(client)
    assert "CC" not in headers_of(letter)
    assert client.count("cc") == 0


def test_a_headers_exchange_sees_the_story(client: Client) -> None:
    client.ask(ExchangeDeclare("dlx", "headers"))
    client.declare("q", arguments={"x-dead-letter-exchange": "dlx"})
    client.ask(QueueBind("dead", "dlx", "", arguments={"x-first-death-reason": "rejected"}))
    client.publish("q", b"m")
    reject(client)
    assert client.count("dead") == 1


def test_every_queue_behind_the_exchange_gets_one(client: Client) -> None:
    client.ask(ExchangeDeclare("dlx", "fanout"))
    client.declare("also")
    client.declare("q", arguments={"x-dead-letter-exchange": "dlx"})
    for queue in ("dead", "also"):
        client.ask(QueueBind(queue, "dlx"))
    client.publish("q", b"m")
    reject(client)
    assert [client.count(queue) for queue in ("dead", "also")] == [1, 1]


# ---- ways that end


def test_a_missing_exchange_is_the_end_of_it(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-exchange": "nowhere"})
    client.publish("q", b"m")
    reject(client)
    queue = harness.queue("q")
    assert (queue.ready, queue.unacked, queue.bytes, harness.broker.gauge.used) == (0, 0, 0, 0)


def test_an_exchange_that_comes_later_counts(client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-exchange": "dlx"})
    client.publish("q", b"lost", b"found")
    reject(client)
    client.ask(ExchangeDeclare("dlx", "fanout"))
    client.ask(QueueBind("dead", "dlx"))
    reject(client)
    client.ask(ExchangeDelete("dlx"))
    assert taken(client).body == b"found"


def test_a_queue_that_is_declared_later_gets_the_next_letter(client: Client) -> None:
    """That no queue had the name is not remembered: declaring it changes no binding."""
    client.ask(QueueDelete("dead"))
    client.declare("q", arguments=TO_DEAD)
    for body in (b"1", b"2"):
        client.publish("q", body)
        reject(client)
        client.declare("dead")
    assert taken(client).body == b"2"


def test_a_letter_that_no_queue_wants_is_gone(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone"})
    client.publish("q", b"m")
    reject(client)
    assert harness.queue("q").bytes == 0
    assert client.heard() == []


def test_an_expired_message_does_not_come_back_to_its_queue(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-exchange": "", "x-message-ttl": 1000})
    client.publish("q", b"m")
    harness.advance(10)
    assert (harness.queue("q").ready, harness.queue("q").bytes) == (0, 0)


def test_a_head_that_is_dropped_does_not_come_back_as_the_tail(harness: Harness, client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-exchange": "", "x-max-length": 1})
    client.publish("q", b"a", b"b")
    assert taken(client, "q").body == b"b"
    assert harness.queue("q").bytes == 0


def test_a_rejected_message_may_come_back_to_its_queue(client: Client) -> None:
    client.declare("q", arguments={"x-dead-letter-exchange": ""})
    client.publish("q", b"a", b"b")
    reject(client)
    assert [taken(client, "q").body for _ in range(2)] == [b"b", b"a"]


def test_a_round_without_a_reject_is_cut(harness: Harness, client: Client) -> None:
    arguments = {"x-message-ttl": 1000, "x-dead-letter-exchange": ""}
    client.declare("one", arguments={**arguments, "x-dead-letter-routing-key": "two"})
    client.declare("two", arguments={**arguments, "x-dead-letter-routing-key": "one"})
    client.publish("one", b"m")
    harness.advance(1)
    assert client.count("two") == 1
    harness.advance(1)
    assert [client.count(queue) for queue in ("one", "two")] == [0, 0]


def test_a_reject_on_the_way_opens_the_round(harness: Harness, client: Client) -> None:
    arguments = {"x-dead-letter-exchange": ""}
    client.declare("one", arguments={**arguments, "x-message-ttl": 1000, "x-dead-letter-routing-key": "two"})
    client.declare("two", arguments={**arguments, "x-dead-letter-routing-key": "one"})
    client.publish("one", b"m")
    for _ in range(3):
        harness.advance(1)
        reject(client, "two")
    assert client.count("one") == 1


def test_only_the_queue_that_closes_the_round_is_left_out(harness: Harness, client: Client) -> None:
    client.ask(ExchangeDeclare("dlx", "fanout"))
    client.declare("q", arguments={"x-dead-letter-exchange": "dlx", "x-message-ttl": 1000})
    for queue in ("q", "dead"):
        client.ask(QueueBind(queue, "dlx"))
    client.publish("q", b"m")
    harness.advance(1)
    assert [client.count(queue) for queue in ("q", "dead")] == [0, 1]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ([], False),
        ([("a", "expired")], False),
        ([("a", "expired"), ("q", "expired")], True),
        ([("q", "maxlen")], True),
        ([("q", "delivery_limit")], True),
        ([("q", "rejected")], False),
        ([("a", "rejected"), ("q", "expired")], False),
        ([("a", "expired"), ("q", "expired"), ("b", "rejected")], True),
        ([("a", "expired"), ("q", "rejected")], False),
    ],
)
def test_what_goes_round(story: list[tuple[str, str]], expected: bool) -> None:
    assert goes_round("q", [{"queue": queue, "reason": reason} for queue, reason in story]) == expected


# ---- what clients write themselves


@pytest.mark.parametrize(
    "story",
    ["a text", 5, None, [], ["a text"], [{}], [{"queue": "q"}], [{"queue": "q", "reason": "rejected", "count": "x"}]],
    ids=str,
)
def test_a_story_that_a_client_made_up_harms_nothing(client: Client, story: object) -> None:
    client.declare("q", arguments=TO_DEAD)
    client.publish("q", b"m", headers={"x-death": story})
    reject(client)
    assert deaths(taken(client))[0][:2] == ("q", "rejected")


def test_malformed_headers_do_not_keep_a_message_from_the_dead(harness: Harness, client: Client) -> None:
    """They were not looked into before; of what cannot be read only the story is left."""
    client.declare("q", arguments={"x-max-length": 1, **TO_DEAD})
    frames = client.published("", "q", b"m", headers={"a": "bbbbbbbb"})
    client.feed(frames.replace(b"\x01aS\x00\x00\x00\x08", b"\x01aS\x00\x00\x00\x99"))
    client.publish("q", b"next", b"last")
    assert [client.count("q"), client.count("dead")] == [1, 2]
    for body in (b"m", b"next"):
        letter = taken(client)
        assert (letter.body, deaths(letter)) == (body, [("q", "maxlen", 1)])


# ---- queues that come and go


def test_the_letters_of_a_burst_reach_a_queue_whose_limit_kills_them_again(harness: Harness, client: Client) -> None:
    client.declare("end")
    client.declare(
        "middle", arguments={"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "end"}
    )
    client.declare(
        "q", arguments={"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "middle"}
    )
    client.publish("q", *[b"%d" % number for number in range(600)])
    assert [client.count(queue) for queue in ("q", "middle", "end")] == [0, 1, 599]
    assert deaths(taken(client, "end")) == [("middle", "maxlen", 1), ("q", "maxlen", 1)]


def test_a_letter_to_a_queue_that_is_deleted_meanwhile(harness: Harness, client: Client) -> None:
    client.declare("q", arguments=TO_DEAD)
    client.publish("q", b"m")
    got = client.get("q")
    assert got is not None
    client.ask(QueueDelete("dead"))
    client.nack(got.tag, requeue=False)
    assert harness.queue("q").bytes == 0


def test_a_consumer_of_the_dead_gets_them_in_the_same_turn(client: Client) -> None:
    client.declare("q", arguments={"x-max-length": 1, **TO_DEAD})
    client.consume("dead", no_ack=True)
    client.publish("q", b"a", b"b", b"c")
    assert client.bodies() == [b"a", b"b"]

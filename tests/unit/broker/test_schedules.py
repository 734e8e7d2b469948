"""Messages that are routed later: by x-delay on a delayed exchange, by x-deliver-at on any."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from leveret.broker.access import in_process_access
from leveret.broker.local import LocalSession
from leveret.broker.schedules import Page, Scheduled
from leveret.wire.methods import (
    BasicAck,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from leveret.wire.properties import Properties
from tests.support.peer_pair import Client, Content, Harness

YEAR = 366 * 86_400


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    declare_delayed(client, "later", "direct")
    client.send(QueueBind("q", "later", "k"))
    client.heard()
    return client


def declare_delayed(client: Client, name: str, kind: str) -> None:
    client.ask(ExchangeDeclare(name, "x-delayed-message", arguments={"x-delayed-type": kind}))


def in_ms(harness: Harness, seconds: float) -> int:
    """The moment so many seconds from now, as x-deliver-at has it."""
    return round((harness.clock.wall() + seconds) * 1000)


def delay(client: Client, milliseconds: object, body: bytes = b"m", key: str = "k", **more: Any) -> None:
    headers = {"x-delay": milliseconds, **more.pop("headers", {})}
    client.feed(client.published("later", key, body, headers=headers, **more))


def got(client: Client, queue: str = "q") -> Content:
    content = client.get(queue, no_ack=True)
    assert content is not None
    return content


def listed(harness: Harness, limit: int = 100, after: int | None = None) -> Page:
    pages: list[Page] = []
    harness.vhost.schedules.list(limit, after, pages.append)
    harness.rest()
    return pages[0]


# ---- when


def test_a_delayed_message_is_routed_when_its_time_has_come(harness: Harness, client: Client) -> None:
    delay(client, 5_000)
    harness.advance(4.999)
    assert (client.count("q"), harness.vhost.schedules.count) == (0, 1)
    harness.advance(0.001)
    assert (client.count("q"), harness.vhost.schedules.count) == (1, 0)
    content = got(client)
    assert (content.body, content.method.exchange, content.method.routing_key) == (b"m", "later", "k")
    assert content.properties.headers == {"x-delay": -5_000}, "as RabbitMQ's plugin shows it"


def test_the_earlier_goes_first_whenever_it_was_published(harness: Harness, client: Client) -> None:
    for seconds in (3, 1, 2):
        delay(client, seconds * 1000, b"%d" % seconds)
    harness.advance(10)
    assert [got(client).body for _ in range(3)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("value", [0, -5, "0", "-7", None, "soon", 1.5, True])
def test_no_delay_means_at_once(client: Client, value: object) -> None:
    delay(client, value)
    assert got(client).properties.headers == {"x-delay": value}


def test_digits_are_a_delay_too(harness: Harness, client: Client) -> None:
    delay(client, "2000")
    harness.advance(1.999)
    assert client.count("q") == 0
    harness.advance(0.001)
    assert client.count("q") == 1


def test_a_delay_counts_on_a_delayed_exchange_only(client: Client) -> None:
    client.publish("q", b"m", headers={"x-delay": 5_000})
    assert got(client).properties.headers == {"x-delay": 5_000}


def test_a_delay_may_be_longer_than_49_days(harness: Harness, client: Client) -> None:
    delay(client, 10 * YEAR * 1000)
    harness.advance(10 * YEAR - 1)
    assert client.count("q") == 0
    harness.advance(1)
    assert client.count("q") == 1


def test_a_delay_beyond_all_numbers_is_refused(client: Client) -> None:
    delay(client, (1 << 53) + 1)
    (closed,) = client.heard()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 406
    assert "x-delay" in closed.reply_text


def test_deliver_at_works_on_any_exchange(harness: Harness, client: Client) -> None:
    client.publish("q", b"m", headers={"x-deliver-at": in_ms(harness, 60)})
    harness.advance(59.999)
    assert client.count("q") == 0
    harness.advance(0.001)
    assert got(client).properties.headers == {"x-deliver-at": round(harness.clock.wall() * 1000)}


def test_deliver_at_may_be_a_timestamp(harness: Harness, client: Client) -> None:
    moment = datetime.fromtimestamp(harness.clock.wall() + 60, UTC)
    client.publish("q", b"m", headers={"x-deliver-at": moment})
    harness.advance(59)
    assert client.count("q") == 0
    harness.advance(1)
    assert client.count("q") == 1


def test_deliver_at_may_be_digits(harness: Harness, client: Client) -> None:
    """Where headers are text: in a table, or a data frame."""
    client.publish("q", b"m", headers={"x-deliver-at": str(in_ms(harness, 60))})
    harness.advance(59)
    assert client.count("q") == 0
    harness.advance(1)
    assert client.count("q") == 1


def test_deliver_at_in_the_past_is_at_once(harness: Harness, client: Client) -> None:
    client.publish("q", b"m", headers={"x-deliver-at": in_ms(harness, -1)})
    assert client.count("q") == 1


@pytest.mark.parametrize("value", ["tomorrow", "-1", "9" * 17, 1.5, True, None, (1 << 53) + 1])
def test_a_moment_that_is_none_is_refused(client: Client, value: object) -> None:
    client.publish("q", b"m", headers={"x-deliver-at": value})
    (closed,) = client.heard()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 406
    assert "x-deliver-at" in closed.reply_text


def test_with_both_headers_the_later_moment_counts(harness: Harness, client: Client) -> None:
    delay(client, 1_000, b"a", headers={"x-deliver-at": in_ms(harness, 5)})
    delay(client, 5_000, b"b", headers={"x-deliver-at": in_ms(harness, 1)})
    harness.advance(4.9)
    assert client.count("q") == 0
    harness.advance(0.1)
    assert client.count("q") == 2


def test_expiration_counts_from_when_it_is_due(harness: Harness, client: Client) -> None:
    delay(client, 5_000, expiration="1000")
    harness.advance(5.9)
    assert client.count("q") == 1
    harness.advance(0.1)
    assert client.count("q") == 0


def test_plain_messages_beside_scheduled_ones_go_their_way(harness: Harness, client: Client) -> None:
    frames = [client.published("later", "k", b"%d" % n, headers={"x-delay": 1000 * (n % 2)}) for n in range(6)]
    client.feed(b"".join(frames))
    assert [got(client).body for _ in range(3)] == [b"0", b"2", b"4"]
    harness.advance(1)
    assert [got(client).body for _ in range(3)] == [b"1", b"3", b"5"]


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("late", range(5))
def test_a_scheduled_message_is_found_wherever_it_stands_among_others(
    harness: Harness, client: Client, late: int, size: int
) -> None:
    frames = []
    for number in range(5):
        headers: dict[str, Any] = {"number": number}
        if number == late:
            headers["x-deliver-at"] = in_ms(harness, 1)
        frames.append(client.published("", "q", b"%d" % number * size, headers=headers))
    client.feed(b"".join(frames))
    assert [got(client).body[:1] for _ in range(4)] == [b"%d" % number for number in range(5) if number != late]
    harness.advance(1)
    assert got(client).body[:1] == b"%d" % late


# ---- where to


@pytest.mark.parametrize(("kind", "binding"), [("topic", "a.*"), ("fanout", ""), ("direct", "a.b")])
def test_a_delayed_exchange_routes_as_its_inner_type(harness: Harness, client: Client, kind: str, binding: str) -> None:
    declare_delayed(client, "inner", kind)
    client.ask(QueueBind("q", "inner", binding))
    client.feed(client.published("inner", "a.b", b"now"))
    client.feed(client.published("inner", "a.b", b"later", headers={"x-delay": 1}))
    harness.advance(1)
    assert [got(client).body for _ in range(2)] == [b"now", b"later"]


def test_a_delayed_headers_exchange_looks_at_headers(harness: Harness, client: Client) -> None:
    declare_delayed(client, "inner", "headers")
    client.ask(QueueBind("q", "inner", arguments={"colour": "red"}))
    for colour in ("red", "blue"):
        client.feed(client.published("inner", "", colour.encode(), headers={"colour": colour, "x-delay": 1}))
        client.feed(client.published("inner", "", colour.encode(), headers={"colour": colour}))
    harness.advance(1)
    assert [got(client).body for _ in range(2)] == [b"red", b"red"]
    assert client.count("q") == 0


def test_a_binding_of_a_delayed_exchange_may_have_a_selector(harness: Harness, client: Client) -> None:
    client.ask(QueueBind("q", "later", "chosen", arguments={"x-selector": "colour = 'red'"}))
    for colour in ("red", "blue"):
        delay(client, 1, colour.encode(), "chosen", headers={"colour": colour})
    harness.advance(1)
    assert got(client).body == b"red"
    assert client.count("q") == 0


@pytest.mark.parametrize("kind", [None, 7, "x-nothing", "x-delayed-message"])
def test_an_unknown_inner_type_is_refused(client: Client, kind: object) -> None:
    arguments: Any = {} if kind is None else {"x-delayed-type": kind}
    closed = client.ask(ExchangeDeclare("bad", "x-delayed-message", arguments=arguments))
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 406
    assert "x-delayed-type" in closed.reply_text


def test_another_inner_type_is_another_exchange(client: Client) -> None:
    closed = client.ask(ExchangeDeclare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    assert isinstance(closed, ChannelClose)
    assert "inequivalent arg 'x-delayed-type'" in closed.reply_text


def test_bindings_count_as_they_are_when_it_is_due(harness: Harness, client: Client) -> None:
    client.declare("new")
    delay(client, 1_000)
    client.ask(QueueBind("new", "later", "k"))
    harness.advance(1)
    assert (client.count("q"), client.count("new")) == (1, 1)


def test_a_message_whose_exchange_is_gone_is_dropped_and_counted(harness: Harness, client: Client) -> None:
    delay(client, 1_000)
    client.ask(ExchangeDelete("later"))
    harness.advance(1)
    schedules = harness.vhost.schedules
    assert (schedules.count, schedules.dropped, schedules.sent) == (0, 1, 0)


def test_an_unroutable_one_goes_to_the_alternate_exchange_or_is_dropped(harness: Harness, client: Client) -> None:
    client.declare("rest")
    client.ask(QueueBind("rest", "amq.fanout"))
    arguments = {"x-delayed-type": "direct", "alternate-exchange": "amq.fanout"}
    client.ask(ExchangeDeclare("kept", "x-delayed-message", arguments=arguments))
    client.feed(client.published("kept", "nowhere", b"kept", headers={"x-delay": 1}))
    delay(client, 1, b"dropped", "nowhere")
    harness.advance(1)
    assert got(client, "rest").body == b"kept"
    assert (harness.vhost.schedules.dropped, harness.vhost.counters_of("later").unroutable) == (1, 1)


def test_copies_are_made_when_it_is_due_and_blind_ones_stay_unseen(harness: Harness, client: Client) -> None:
    client.declare("cc")
    client.declare("bcc")
    headers = {"CC": ["cc"], "BCC": ["bcc"], "x-deliver-at": in_ms(harness, 1)}
    client.publish("q", b"m", headers=headers)
    assert [client.count(name) for name in ("q", "cc", "bcc")] == [0, 0, 0]
    harness.advance(1)
    for name in ("q", "cc", "bcc"):
        assert "BCC" not in (got(client, name).properties.headers or {})


# ---- publishers


def test_mandatory_counts_as_routed(harness: Harness, client: Client) -> None:
    client.feed(client.published("later", "nowhere", b"m", mandatory=True, headers={"x-delay": 1000}))
    harness.advance(1)
    assert not [what for what in client.heard() if isinstance(what, Content) and isinstance(what.method, BasicReturn)]


def test_a_transaction_schedules_at_its_commit(harness: Harness, client: Client) -> None:
    client.ask(TxSelect())
    delay(client, 1_000)
    assert harness.vhost.schedules.count == 0
    client.ask(TxRollback())
    delay(client, 1_000)
    client.ask(TxCommit())
    assert harness.vhost.schedules.count == 1
    harness.advance(1)
    assert client.count("q") == 1


def test_a_scheduled_message_is_confirmed(client: Client) -> None:
    client.ask(ConfirmSelect())
    delay(client, 1_000)
    assert client.heard() == [BasicAck(1)]


def test_callers_in_the_process_schedule_too(harness: Harness, client: Client) -> None:
    session = LocalSession(in_process_access(harness.vhost), lambda tag, delivered: None)
    at_wall = in_ms(harness, 1)
    assert session.publish("", "q", b"m", Properties(headers={"x-deliver-at": at_wall, "BCC": ["q"]}))
    assert session.publish("later", "k", b"n", Properties(headers={"x-delay": 1000}))
    harness.turn()
    assert client.count("q") == 0
    harness.advance(1)
    assert sorted(got(client).body for _ in range(2)) == [b"m", b"n"]


# ---- unseen


def test_nobody_can_reach_the_schedule_by_its_name(harness: Harness, client: Client) -> None:
    delay(client, 1_000)
    (name,) = harness.vhost.internal.queues
    assert name not in harness.vhost.queues
    client.feed(client.published("", name, b"m", mandatory=True))
    (returned,) = client.heard()
    assert isinstance(returned, Content)
    closed = client.ask(QueueBind(name, "amq.fanout"))
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 404


# ---- list and cancel


def test_the_list_is_in_order_of_time_and_comes_in_pages(harness: Harness, client: Client) -> None:
    for seconds in (3, 1, 2):
        delay(client, seconds * 1000, b"%d" % seconds)
    first = listed(harness, 2)
    assert [round(each.due - harness.clock.wall(), 3) for each in first.messages] == [1, 2]
    assert {(each.exchange, each.routing_key) for each in first.messages} == {("later", "k")}
    second = listed(harness, 2, first.next)
    assert [round(each.due - harness.clock.wall(), 3) for each in second.messages] == [3]
    assert second.next is None
    assert listed(harness, 3, listed(harness, 3).next).messages == []


def test_the_list_of_nothing_is_empty(harness: Harness) -> None:
    assert listed(harness) == Page([], None)


def test_a_cancelled_message_is_never_delivered(harness: Harness, client: Client) -> None:
    delay(client, 1_000, b"a")
    delay(client, 2_000, b"b")
    first: Scheduled = listed(harness).messages[0]
    assert harness.vhost.schedules.cancel(first.id) is True
    assert harness.vhost.schedules.cancel(first.id) is False
    assert [each.id == first.id for each in listed(harness).messages] == [False]
    harness.advance(2)
    assert got(client).body == b"b"
    assert (client.count("q"), harness.vhost.schedules.count) == (0, 0)


@pytest.mark.parametrize("id_", ["", "x", "1-0-1", "999-0-1", "1-0-99999999999999999999999", "²-0-1"])
def test_cancelling_what_is_not_there_says_so(harness: Harness, client: Client, id_: str) -> None:
    delay(client, 1_000)
    assert harness.vhost.schedules.cancel(id_) is False
    assert harness.vhost.schedules.count == 1


def test_what_was_due_cannot_be_cancelled(harness: Harness, client: Client) -> None:
    delay(client, 1_000)
    (waiting,) = listed(harness).messages
    harness.advance(1)
    assert harness.vhost.schedules.cancel(waiting.id) is False
    assert client.count("q") == 1

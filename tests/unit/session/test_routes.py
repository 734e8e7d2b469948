"""What a channel remembers of where its publishes go, and when it forgets (S0-01, S0-08, S0-10)."""

from __future__ import annotations

import pytest

from leveret.session.routes import MOST_REMEMBERED, Routes
from leveret.wire.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDelete,
    QueueUnbind,
)
from tests.support.peer_pair import Client, Content, Harness


class Resolutions:
    """Counts how often a channel had to route anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        make = Routes._make

        def counted(routes: Routes, method: object) -> object:
            self.number += 1
            return make(routes, method)  # type: ignore[arg-type]

        monkeypatch.setattr(Routes, "_make", counted)


@pytest.fixture
def resolutions(monkeypatch: pytest.MonkeyPatch) -> Resolutions:
    return Resolutions(monkeypatch)


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client


@pytest.mark.feature("S0-01")
def test_a_route_is_remembered_for_the_same_publish_frame(client: Client, resolutions: Resolutions) -> None:
    for _ in range(3):
        client.publish("q", b"a", b"b")
    assert resolutions.number == 1
    assert client.count("q") == 6


def test_only_so_many_routes_are_remembered(client: Client) -> None:
    client.ask(ExchangeDeclare("x", "topic"))
    client.feed(b"".join(client.published("x", f"k{number}", b"") for number in range(MOST_REMEMBERED + 1)))
    assert len(client.session.channels[1].routes.known) == 1


@pytest.mark.parametrize(
    "change",
    [QueueBind("q", "x", "k"), QueueUnbind("p", "x", "k"), ExchangeDelete("y"), ExchangeBind("x", "y", "k")],
    ids=lambda change: change.NAME,
)
def test_any_change_of_bindings_or_exchanges_ends_it(client: Client, resolutions: Resolutions, change: object) -> None:
    client.declare("p")
    client.ask(ExchangeDeclare("x"))
    client.ask(ExchangeDeclare("y"))
    client.ask(QueueBind("p", "x", "k"))
    client.feed(client.published("x", "k", b"before"))
    client.ask(change)  # type: ignore[arg-type]
    client.feed(client.published("x", "k", b"after"))
    assert resolutions.number == 2


def test_a_binding_takes_effect_with_the_next_message_of_the_same_write(client: Client) -> None:
    client.ask(ExchangeDeclare("x"))
    publish = client.published("x", "k", b"m")
    client.feed(publish)
    client.send(QueueBind("q", "x", "k", nowait=True))
    client.feed(publish + publish)
    assert client.count("q") == 2


def test_a_temporary_queue_that_comes_and_goes_empties_no_cache(client: Client, resolutions: Resolutions) -> None:
    """RPC clients declare one reply queue each; the routes of busy publishers must survive that."""
    client.publish("q", b"a")
    client.declare("temporary")
    client.publish("temporary", b"x")
    client.ask(QueueDelete("temporary"))
    client.publish("q", b"b")
    assert resolutions.number == 2


@pytest.mark.feature("S0-01", "S0-08")
def test_a_deleted_queue_is_noticed(client: Client) -> None:
    """A mandatory message to it comes back."""
    publish = client.published("", "q", b"m", mandatory=True)
    client.feed(publish)
    client.ask(QueueDelete("q"))
    client.feed(publish)
    (returned,) = client.heard()
    assert isinstance(returned, Content)
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")  # type: ignore[union-attr]


def test_a_queue_deleted_and_declared_again_gets_what_follows(client: Client) -> None:
    client.publish("q", b"lost")
    client.ask(QueueDelete("q"))
    client.declare("q")
    client.publish("q", b"kept")
    assert client.get("q").body == b"kept"  # type: ignore[union-attr]


@pytest.mark.feature("S0-10")
def test_a_miss_on_the_default_exchange_ends_with_the_declaration(client: Client) -> None:
    client.publish("later", b"dropped")
    client.declare("later")
    client.publish("later", b"kept")
    assert client.count("later") == 1


@pytest.mark.feature("S4-38")
def test_a_miss_by_implicit_binding_ends_with_the_declaration(client: Client) -> None:
    client.ask(ExchangeDeclare("x", arguments={"x-implicit-bindings": True}))
    client.feed(client.published("x", "later", b"dropped"))
    client.declare("later")
    client.feed(client.published("x", "later", b"kept"))
    assert client.count("later") == 1


def test_a_miss_by_alternate_default_exchange_ends_with_the_declaration(client: Client) -> None:
    client.ask(ExchangeDeclare("x", arguments={"alternate-exchange": ""}))
    client.feed(client.published("x", "later", b"dropped"))
    client.declare("later")
    client.feed(client.published("x", "later", b"kept"))
    assert client.count("later") == 1


def test_a_permission_that_is_taken_away_counts_from_the_next_message(harness: Harness, client: Client) -> None:
    client.publish("q", b"a")
    harness.broker.permissions.set("guest", "/", ".*", "^$", ".*")
    client.publish("q", b"b")
    code, text = client.error()
    assert code == 403
    assert text.startswith(
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'guest'"
    )
    assert harness.queue("q").ready == 1


def test_a_topic_permission_counts_from_the_next_message(harness: Harness, client: Client) -> None:
    client.feed(client.published("amq.topic", "a.b", b"x"))
    harness.broker.permissions.set_topic("guest", "/", "amq.topic", "^c", ".*")
    client.feed(client.published("amq.topic", "a.b", b"x"))
    assert client.error()[0] == 403


def test_a_route_by_headers_is_never_remembered(client: Client) -> None:
    client.declare("p")
    for queue, value in (("q", 1), ("p", 2)):
        client.ask(QueueBind(queue, "amq.headers", "", arguments={"x-match": "all", "n": value}))
    for value in (1, 2, 2, 3):
        client.feed(client.published("amq.headers", "", b"m", headers={"n": value}))
    assert (client.count("q"), client.count("p")) == (1, 2)


@pytest.mark.feature("S0-01")
def test_a_queue_that_dies_before_the_whole_content_came_is_skipped(harness: Harness, client: Client) -> None:
    """And nothing of the message stays in memory."""
    other = harness.client()
    data = client.published("", "q", b"x" * 1000)
    client.feed(data[:200])
    other.ask(QueueDelete("q"))
    client.feed(data[200:])
    harness.turn()
    assert harness.broker.gauge.used == 0
    client.declare("q")
    assert client.count("q") == 0


@pytest.mark.feature("S0-08")
def test_a_mandatory_message_whose_queue_dies_before_its_content_came_is_returned(
    harness: Harness, client: Client
) -> None:
    """It is routed once it is whole, as with RabbitMQ."""
    other = harness.client()
    data = client.published("", "q", b"x" * 1000, mandatory=True)
    client.feed(data[:200])
    other.ask(QueueDelete("q"))
    client.feed(data[200:])
    assert client.bodies() == [b"x" * 1000]

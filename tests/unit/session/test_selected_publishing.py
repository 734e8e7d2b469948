"""Publishes through bindings with selectors, and through exchanges that choose one queue (S1-16, S2-05, S2-10)."""

from __future__ import annotations

import pytest

from leveret.broker.access import in_process_access
from leveret.broker.local import LocalSession
from leveret.routing.bindings import Binding, Destination
from leveret.wire.methods import (
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueUnbind,
    TxCommit,
    TxSelect,
)
from leveret.wire.properties import Properties
from tests.support.peer_pair import Client, Content, Harness
from tests.support.stored_harness import StoredHarness

RED = {"x-selector": "colour = 'red'"}


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("q")
    return client


def bodies(client: Client, queue: str = "q") -> list[bytes]:
    found = []
    while (got := client.get(queue, no_ack=True)) is not None:
        found.append(got.body)
    return found


@pytest.mark.feature("S1-16")
def test_non_match_is_never_stored(harness: Harness, client: Client) -> None:
    """It is not in the queue, in no count, and as unroutable as if there were no binding."""
    client.ask(QueueBind("q", "amq.fanout", "", arguments=RED))
    for body, colour in ((b"1", "red"), (b"2", "blue"), (b"3", "red")):
        client.feed(client.published("amq.fanout", "", body, headers={"colour": colour}))
    client.feed(client.published("amq.fanout", "", b"4"))
    queue = harness.queue("q")
    assert (queue.ready, queue.counters.received) == (2, 2)
    assert harness.vhost.counters_of("amq.fanout").unroutable == 2
    assert bodies(client) == [b"1", b"3"]


@pytest.mark.feature("S1-16")
def test_non_match_of_a_persistent_message_reaches_no_disk() -> None:
    """Nothing of it comes back after a restart, and what was bound still selects."""
    harness = StoredHarness()
    client = harness.client()
    client.declare("q", durable=True)
    client.ask(QueueBind("q", "amq.topic", "#", arguments=RED))
    for body, colour in ((b"kept", "red"), (b"never", "blue")):
        client.feed(client.published("amq.topic", "k", body, headers={"colour": colour}, delivery_mode=2))
    harness = harness.stopped().again()
    assert harness.restored == 1
    client = harness.client()
    client.feed(client.published("amq.topic", "k", b"never", headers={"colour": "blue"}))
    client.feed(client.published("amq.topic", "k", b"later", headers={"colour": "red"}))
    assert bodies(client) == [b"kept", b"later"]


@pytest.mark.feature("S1-16")
def test_mandatory_message_that_no_selector_takes_comes_back_and_is_confirmed(client: Client) -> None:
    client.ask(ConfirmSelect())
    client.ask(QueueBind("q", "amq.direct", "k", arguments=RED))
    client.feed(client.published("amq.direct", "k", b"m", mandatory=True, headers={"colour": "blue"}))
    returned, confirmed = client.heard()
    assert isinstance(returned, Content)
    assert returned.method.reply_code == 312  # type: ignore[union-attr]
    assert confirmed.NAME == "basic.ack"  # type: ignore[union-attr]


def test_route_remembered_before_the_first_selector_is_not_used_afterwards(client: Client) -> None:
    client.declare("p")
    client.ask(QueueBind("p", "amq.direct", "k"))
    blue = client.published("amq.direct", "k", b"blue", headers={"colour": "blue"})
    red = client.published("amq.direct", "k", b"red", headers={"colour": "red"})
    client.feed(blue * 2)
    client.ask(QueueBind("q", "amq.direct", "k", arguments=RED))
    client.feed(blue + red)
    assert (client.count("p"), client.count("q")) == (4, 1)
    client.ask(QueueUnbind("q", "amq.direct", "k", arguments=RED))
    client.feed(red)
    assert (client.count("p"), client.count("q")) == (5, 1)
    client.ask(QueueBind("q", "amq.direct", "k"))
    client.feed(blue)
    assert client.count("q") == 2


def test_routes_are_remembered_again_when_the_last_selector_is_gone(client: Client) -> None:
    client.ask(QueueBind("q", "amq.direct", "k"))
    client.ask(QueueBind("q", "amq.direct", "k", arguments=RED))
    client.feed(client.published("amq.direct", "k", b""))
    routes = client.session.channels[1].routes.known
    assert [route.special for route in routes.values()] == [True]
    client.ask(QueueUnbind("q", "amq.direct", "k", arguments=RED))
    client.feed(client.published("amq.direct", "k", b""))
    assert [route.special for route in routes.values()] == [False]


def test_queue_with_and_without_a_selector_gets_a_message_once(client: Client) -> None:
    client.ask(QueueBind("q", "amq.topic", "#", arguments=RED))
    client.ask(QueueBind("q", "amq.topic", "a.*"))
    client.feed(client.published("amq.topic", "a.b", b"1", headers={"colour": "red"}))
    client.feed(client.published("amq.topic", "a.b", b"2", headers={"colour": "blue"}))
    client.feed(client.published("amq.topic", "b", b"3", headers={"colour": "red"}))
    assert bodies(client) == [b"1", b"2", b"3"]


@pytest.mark.feature("S1-16")
def test_selector_between_exchanges_and_by_properties(client: Client) -> None:
    client.ask(ExchangeDeclare("y", "fanout"))
    client.ask(ExchangeBind("y", "amq.direct", "k", arguments={"x-selector": "JMSPriority > 4 AND JMSType = 'news'"}))
    client.ask(QueueBind("q", "y", ""))
    for body, priority in ((b"1", 4), (b"2", 5)):
        client.feed(client.published("amq.direct", "k", body, priority=priority, type="news"))
    assert bodies(client) == [b"2"]


def test_selector_sees_what_copies_and_transactions_carry(client: Client) -> None:
    client.ask(TxSelect())
    client.ask(QueueBind("q", "amq.direct", "copy", arguments=RED))
    for body, colour in ((b"1", "red"), (b"2", "blue")):
        client.feed(client.published("amq.direct", "k", body, headers={"colour": colour, "CC": ["copy"]}))
    client.ask(TxCommit())
    assert bodies(client) == [b"1"]


def test_bad_selector_is_refused_and_binds_nothing(harness: Harness, client: Client) -> None:
    client.send(QueueBind("q", "amq.direct", "k", arguments={"x-selector": "colour = "}))
    code, text = client.error()
    assert code == 406
    assert text == (
        "PRECONDITION_FAILED - invalid arg 'x-selector': expected a name, a literal or '(', "
        "found the end at position 10"
    )
    assert not harness.vhost.bindings.of_source("amq.direct")


def test_calls_in_the_process_are_selected_alike(harness: Harness, client: Client) -> None:
    harness.vhost.bind(Binding("amq.fanout", Destination("queue", "q"), "", {"x-selector": "JMSMessageID LIKE 'a%'"}))
    session = LocalSession(in_process_access(harness.vhost), lambda tag, delivered: None)
    assert session.publish("amq.fanout", "", b"1", Properties(message_id="ab"))
    assert not session.publish("amq.fanout", "", b"2", Properties(message_id="ba"))
    assert bodies(client) == [b"1"]


# ---- exchanges that choose


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("x-modulus-hash", {}),
        ("x-consistent-hash", {}),
        ("x-consistent-hash", {"hash-header": "h"}),
        ("x-consistent-hash", {"hash-property": "message_id"}),
        ("x-random", {}),
        ("x-local-random", {}),
    ],
)
@pytest.mark.feature("S2-05", "S2-10")
def test_each_publish_reaches_one_queue(client: Client, kind: str, arguments: dict[str, object]) -> None:
    queues = [f"q{number}" for number in range(4)]
    client.ask(ExchangeDeclare("x", kind, arguments=arguments))  # type: ignore[arg-type]
    for queue in queues:
        client.declare(queue)
        client.ask(QueueBind(queue, "x", "" if kind == "x-local-random" else "1"))
    for number in range(80):
        name = str(number)
        client.feed(client.published("x", name, b"", headers={"h": name}, message_id=name))
    counts = [client.count(queue) for queue in queues]
    assert sum(counts) == 80
    assert min(counts) >= 5


@pytest.mark.parametrize("kind", ["x-modulus-hash", "x-consistent-hash"])
@pytest.mark.feature("S2-08")
def test_same_key_is_at_the_same_queue_after_a_restart(kind: str) -> None:
    harness = StoredHarness()
    client = harness.client()
    client.ask(ExchangeDeclare("x", kind, durable=True))
    for number in range(4):
        client.declare(f"q{number}", durable=True)
        client.ask(QueueBind(f"q{number}", "x", "1"))

    def spread(client: Client) -> list[list[bytes]]:
        client.feed(b"".join(client.published("x", f"k{n}", b"%d" % n) for n in range(40)))
        return [bodies(client, f"q{number}") for number in range(4)]

    before = spread(client)
    assert spread(harness.stopped().again().client()) == before

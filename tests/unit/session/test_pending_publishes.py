"""Publishing to queues that answer later: flow control, mandatory and confirms (S0-02..S0-09, S0-26, S0-27, S0-30)."""

from __future__ import annotations

import pytest

from leveret.session.pending_publishes import MOST_UNRECEIVED
from leveret.wire.methods import BasicAck, BasicNack, ChannelClose, ConfirmSelect, Method, QueueBind, QueueDelete
from tests.support.peer_pair import Client, Content, Harness
from tests.support.remote_queues import ManualLog, make_remote
from tests.support.spies import SpyLog


@pytest.fixture
def client(harness: Harness) -> Client:
    client = harness.client()
    client.declare("slow")
    return client


@pytest.fixture
def log(harness: Harness, client: Client) -> ManualLog:
    return make_remote(harness.vhost, "slow")


def heard(client: Client) -> list[Method | Content]:
    """Answers of a log arrive outside of any client's input: the broker has a tick first."""
    client.harness.rest()
    return client.heard()


@pytest.mark.feature("S0-04")
def test_a_slow_queue_stalls_its_publisher_and_memory_stays_bounded(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    """Reading is paused, what was sent waits on the wire, and goes on when half of it has been received."""
    for _ in range(MOST_UNRECEIVED + 500):
        client.publish("slow", b"m")
    assert len(log.waiting) == MOST_UNRECEIVED
    assert not client.socket.reading
    assert len(client.socket.held) == 500
    log.let_in(MOST_UNRECEIVED // 2 - 1)
    harness.rest()
    assert not client.socket.reading
    log.let_in(1)
    harness.rest()
    assert client.socket.reading
    assert client.socket.held == []
    log.let_in()
    harness.rest()
    assert client.count("slow") == MOST_UNRECEIVED + 500


def test_a_stalled_publisher_hinders_no_other_connection(harness: Harness, client: Client, log: ManualLog) -> None:
    client.publish("slow", *[b"m"] * MOST_UNRECEIVED)
    assert not client.socket.reading
    other = harness.client()
    other.declare("quick")
    other.publish("quick", b"m")
    assert other.count("quick") == 1


@pytest.mark.feature("S0-02", "S0-03")
def test_a_message_costs_a_credit_for_each_copy_until_it_is_received(harness: Harness, client: Client) -> None:
    """The credit comes back on receipt, before the message is safe."""
    log = make_remote(harness.vhost, "slow", copies=3)
    client.ask(ConfirmSelect())
    client.publish("slow", b"a", b"b")
    publishes = client.session.channels[1].unanswered
    assert publishes is not None
    assert publishes.unreceived == 6
    log.receive()
    assert publishes.unreceived == 0
    assert heard(client) == []
    log.grant()
    assert heard(client) == [BasicAck(2, multiple=True)]


@pytest.mark.feature("S0-26")
@pytest.mark.parametrize("end", ["deleted", "lost"])
def test_a_queue_that_is_gone_blocks_no_publisher(harness: Harness, client: Client, log: ManualLog, end: str) -> None:
    client.publish("slow", *[b"m"] * MOST_UNRECEIVED)
    assert not client.socket.reading
    if end == "deleted":
        harness.client().ask(QueueDelete("slow"))
    else:
        log.lose()
    assert client.socket.reading
    client.open_channel(2)


@pytest.mark.feature("S0-12")
def test_a_confirm_waits_until_the_queue_has_it(client: Client, log: ManualLog) -> None:
    """Later publishes to ordinary queues overtake it."""
    client.declare("quick")
    client.ask(ConfirmSelect())
    client.publish("slow", b"1", b"2")
    client.publish("quick", b"3", b"4")
    assert heard(client) == [BasicAck(3), BasicAck(4)]
    log.let_in()
    assert heard(client) == [BasicAck(2, multiple=True)]


@pytest.mark.feature("S0-14")
def test_a_confirm_waits_for_every_queue(harness: Harness, client: Client, log: ManualLog) -> None:
    client.declare("other")
    client.declare("quick")
    other = make_remote(harness.vhost, "other")
    for name in ("slow", "other", "quick"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.ask(ConfirmSelect())
    client.feed(client.published("amq.fanout", "", b"m"))
    assert harness.queue("quick").ready == 1
    log.let_in()
    assert heard(client) == []
    other.let_in()
    assert heard(client) == [BasicAck(1)]


@pytest.mark.feature("S0-30")
def test_a_confirm_waits_for_every_copy(harness: Harness, client: Client) -> None:
    """The queue opens a receipt for itself and for its replica: the confirm hangs on both."""
    log = make_remote(harness.vhost, "slow", copies=2)
    client.ask(ConfirmSelect())
    client.publish("slow", b"1")
    log.receive()
    log.grant(copy=0)
    assert heard(client) == []
    log.grant(copy=1)
    assert heard(client) == [BasicAck(1)]


def test_a_message_that_a_queue_refuses_is_nacked(client: Client, log: ManualLog) -> None:
    """And not returned, mandatory or not: it has found its queue."""
    client.ask(ConfirmSelect())
    client.feed(client.published("", "slow", b"m", mandatory=True))
    log.refuse()
    assert heard(client) == [BasicNack(1, requeue=False)]


def test_one_refusal_among_several_queues_is_a_nack(harness: Harness, client: Client, log: ManualLog) -> None:
    client.declare("quick")
    for name in ("slow", "quick"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.ask(ConfirmSelect())
    client.feed(client.published("amq.fanout", "", b"m"))
    log.refuse()
    assert heard(client) == [BasicNack(1, requeue=False)]
    assert client.count("quick") == 1


@pytest.mark.feature("S0-27", "S4-75")
@pytest.mark.parametrize("is_received", [False, True])
def test_a_log_that_is_lost_has_its_messages_nacked(client: Client, log: ManualLog, is_received: bool) -> None:
    """Received is not enough: only what is granted is safe."""
    client.ask(ConfirmSelect())
    client.publish("slow", b"1", b"2")
    if is_received:
        log.receive()
    log.lose()
    assert heard(client) == [BasicNack(2, multiple=True, requeue=False)]


@pytest.mark.feature("S0-27")
def test_a_deleted_queue_has_what_it_owed_nacked_and_what_it_granted_confirmed(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    client.ask(ConfirmSelect())
    client.publish("slow", b"1")
    log.let_in()
    client.publish("slow", b"2")
    harness.client().ask(QueueDelete("slow"))
    assert heard(client) == [BasicAck(1), BasicNack(2, requeue=False)]


@pytest.mark.feature("S0-07")
def test_a_mandatory_message_that_was_received_is_not_returned(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    client.feed(client.published("", "slow", b"m", mandatory=True))
    log.receive()
    harness.client().ask(QueueDelete("slow"))
    assert heard(client) == []


@pytest.mark.feature("S0-09", "S0-13")
def test_a_mandatory_message_is_returned_when_all_its_queues_are_deleted_first(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    """The return first, then the confirm: nothing is owed any more."""
    client.declare("other")
    make_remote(harness.vhost, "other")
    for name in ("slow", "other"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.ask(ConfirmSelect())
    client.feed(client.published("amq.fanout", "", b"m", mandatory=True))
    other = harness.client()
    other.ask(QueueDelete("slow"))
    assert heard(client) == []
    other.ask(QueueDelete("other"))
    returned, confirm = heard(client)
    assert isinstance(returned, Content)
    assert (returned.body, returned.method.reply_code) == (b"m", 312)  # type: ignore[union-attr]
    assert confirm == BasicAck(1)


@pytest.mark.feature("S0-09")
def test_a_mandatory_message_that_an_ordinary_queue_has_is_not_returned(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    client.declare("quick")
    for name in ("slow", "quick"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.feed(client.published("amq.fanout", "", b"m", mandatory=True))
    harness.client().ask(QueueDelete("slow"))
    assert heard(client) == []
    assert client.count("quick") == 1


@pytest.mark.parametrize("end", ["close", "vanish", "error"])
@pytest.mark.feature("S0-06")
def test_what_a_closed_channel_published_still_arrives(
    harness: Harness, client: Client, log: ManualLog, end: str
) -> None:
    """No confirm is sent for it, and the connection is read again."""
    client.ask(ConfirmSelect())
    client.publish("slow", *[b"m"] * MOST_UNRECEIVED)
    if end == "vanish":
        client.vanish()
    else:
        client.socket.resume_reading()  # as the peer's close finds its way, whatever else is held back
        client.send(ChannelClose(200, "") if end == "close" else BasicAck(99))
        heard(client)
        assert not client.session.is_paused
    log.let_in()
    assert harness.queue("slow").ready == MOST_UNRECEIVED
    assert heard(client) == []


@pytest.mark.feature("S0-28")
def test_counters_count_pending_publishes_too(harness: Harness, client: Client, log: ManualLog) -> None:
    client.publish("slow", b"1", b"2")
    log.let_in()
    harness.rest()
    assert harness.vhost.counters_of("").routed == 2
    assert harness.queue("slow").counters.received == 2


def test_messages_that_the_broker_sends_by_itself_reach_such_a_queue(
    harness: Harness, client: Client, log: ManualLog
) -> None:
    """Scheduled ones that are due, and dead letters: no client waits for them."""
    due = int((harness.clock.wall() + 1) * 1000)
    client.feed(client.published("", "slow", b"later", headers={"x-deliver-at": due}))
    arguments = {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "slow"}
    client.declare("dying", arguments=arguments)
    client.publish("dying", b"dead")
    harness.advance(1)
    log.let_in()
    harness.turn()
    assert sorted([client.get("slow").body, client.get("slow").body]) == [b"dead", b"later"]


# ---- beside the broker's own log


@pytest.fixture
def own_log() -> SpyLog:
    return SpyLog(grants=False)


@pytest.fixture
def both(own_log: SpyLog) -> tuple[Harness, Client, ManualLog]:
    """A route to a durable queue of this broker and to one that answers later."""
    harness = Harness(log=own_log)
    client = harness.client()
    client.declare("slow")
    client.declare("durable", durable=True)
    log = make_remote(harness.vhost, "slow")
    for name in ("slow", "durable"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.ask(ConfirmSelect())
    client.feed(client.published("amq.fanout", "", b"m", delivery_mode=2))
    return harness, client, log


@pytest.mark.parametrize("remote_first", [True, False])
def test_a_confirm_waits_for_both_logs_in_any_order(
    both: tuple[Harness, Client, ManualLog], own_log: SpyLog, remote_first: bool
) -> None:
    """The numbers of the two logs have nothing to do with each other."""
    _, client, log = both
    assert [bodies for bodies, _ in own_log.appended] == [[b"m"]]
    steps = [log.let_in, lambda: own_log.listener.granted(own_log.issued)]
    for step in steps if remote_first else reversed(steps):
        assert heard(client) == []
        step()
    assert heard(client) == [BasicAck(1)]


def test_a_failure_of_the_brokers_log_is_a_nack(both: tuple[Harness, Client, ManualLog], own_log: SpyLog) -> None:
    _, client, log = both
    log.let_in()
    own_log.listener.lost()
    assert heard(client) == [BasicNack(1, requeue=False)]

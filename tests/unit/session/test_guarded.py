"""Publishing to queues that take their time: credit, mandatory and confirms (S0-02..S0-09, S0-26, S0-27)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.delivery.credit import DEBT_LIMIT
from leveret.queues.guard import Guard, Mirror
from leveret.wire.methods import BasicAck, BasicNack, ChannelClose, ConfirmSelect, QueueBind, QueueDelete
from tests.support.peer_pair import Client, Content, House
from tests.support.spies import SpyLog


class Gate:
    def __init__(self, house: House) -> None:
        self._house = house
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, handle: Callable[[], None]) -> None:
        self.waiting.append(handle)

    def open(self, number: int = 1) -> None:
        for _ in range(number):
            self.waiting.pop(0)()
        self._house.turn()


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def client(house: House) -> Client:
    client = house.client()
    client.declare("slow")
    return client


def guard(house: House, name: str = "slow") -> tuple[Guard, Gate]:
    gate = Gate(house)
    return house.vhost.guard_queue(house.queue(name), gate), gate


@pytest.mark.feature("S0-04")
def test_a_slow_queue_stalls_its_publisher_and_memory_stays_bounded(house: House, client: Client) -> None:
    """Reading is paused, what was sent waits on the wire, and goes on when credit comes back."""
    _, gate = guard(house)
    for _ in range(DEBT_LIMIT + 500):
        client.publish("slow", b"m")
    assert len(gate.waiting) == DEBT_LIMIT
    assert not client.socket.reading
    assert len(client.socket.held) == 500
    gate.open(DEBT_LIMIT // 2 - 1)
    assert not client.socket.reading
    gate.open()
    assert client.socket.reading
    assert client.socket.held == []
    while gate.waiting:
        gate.open(len(gate.waiting))
    assert client.count("slow") == DEBT_LIMIT + 500


def test_a_stalled_publisher_hinders_no_other_connection(house: House, client: Client) -> None:
    guard(house)
    client.publish("slow", *[b"m"] * DEBT_LIMIT)
    assert not client.socket.reading
    other = house.client()
    other.declare("quick")
    other.publish("quick", b"m")
    assert other.count("quick") == 1


@pytest.mark.feature("S0-02", "S0-03")
def test_credit_is_spent_per_queue_and_replica_and_comes_back_on_handling(house: House, client: Client) -> None:
    guarded, gate = guard(house)
    guarded.replicas += [Mirror(), Mirror()]
    client.publish("slow", b"a", b"b")
    ledger = client.session.channels[1].guarded_sender().ledger
    assert ledger.owed(house.queue("slow")) == 6
    gate.open()
    assert ledger.owed(house.queue("slow")) == 0


def test_guarding_takes_effect_on_a_route_that_is_remembered(house: House, client: Client) -> None:
    client.publish("slow", b"before")
    _, gate = guard(house)
    client.publish("slow", b"after")
    assert len(gate.waiting) == 1
    assert house.queue("slow").ready == 1


@pytest.mark.feature("S0-26")
def test_a_dying_queue_releases_its_credit(house: House, client: Client) -> None:
    """The publisher does not stay blocked for ever."""
    guard(house)
    client.publish("slow", *[b"m"] * DEBT_LIMIT)
    assert not client.socket.reading
    house.client().ask(QueueDelete("slow"))
    assert client.socket.reading
    client.open_channel(2)


@pytest.mark.feature("S0-12")
def test_a_confirm_waits_until_the_queue_has_it(house: House, client: Client) -> None:
    """Later publishes to quick queues overtake it."""
    _, gate = guard(house)
    client.declare("quick")
    client.ask(ConfirmSelect())
    client.publish("slow", b"1", b"2")
    client.publish("quick", b"3", b"4")
    assert client.heard() == [BasicAck(3), BasicAck(4)]
    gate.open()
    assert client.heard() == [BasicAck(1), BasicAck(2)]


def test_a_confirm_waits_for_every_queue(house: House, client: Client) -> None:
    client.declare("other")
    client.declare("quick")
    gates = [guard(house, name)[1] for name in ("slow", "other")]
    for name in ("slow", "other", "quick"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.ask(ConfirmSelect())
    client.feed(client.published("amq.fanout", "", b"m"))
    assert house.queue("quick").ready == 1
    gates[0].open()
    assert client.heard() == []
    gates[1].open()
    assert client.heard() == [BasicAck(1)]


@pytest.mark.feature("S0-27", "S4-75")
def test_a_queue_that_dies_owing_a_message_has_it_nacked(house: House, client: Client) -> None:
    guard(house)
    client.ask(ConfirmSelect())
    client.publish("slow", b"1", b"2")
    house.client().ask(QueueDelete("slow"))
    assert client.heard() == [BasicNack(1, requeue=False), BasicNack(2, requeue=False)]


@pytest.mark.feature("S0-27")
def test_a_queue_that_dies_after_it_had_the_message_confirms_it(house: House, client: Client) -> None:
    """Not owed there any more, only a replica had not said so."""
    guarded, gate = guard(house)
    client.ask(ConfirmSelect())

    class Silent(Mirror):
        def receive(self, envelope: object, handled: Callable[[], None]) -> None: ...

    guarded.replicas.append(Silent())
    client.publish("slow", b"1")
    gate.open()
    assert client.heard() == []
    house.client().ask(QueueDelete("slow"))
    assert client.heard() == [BasicAck(1)]


@pytest.mark.feature("S0-07")
def test_a_mandatory_message_is_forgotten_once_a_queue_received_it(house: House, client: Client) -> None:
    """The death of the queue then returns nothing."""
    _, gate = guard(house)
    client.feed(client.published("", "slow", b"m", mandatory=True))
    gate.open()
    house.client().ask(QueueDelete("slow"))
    assert client.heard() == []


@pytest.mark.feature("S0-09", "S0-13")
def test_a_mandatory_message_is_returned_when_all_its_queues_die_first(house: House, client: Client) -> None:
    """The return first, then the confirm: nothing is owed any more."""
    client.declare("other")
    for name in ("slow", "other"):
        guard(house, name)
        client.ask(QueueBind(name, "amq.fanout"))
    client.ask(ConfirmSelect())
    client.feed(client.published("amq.fanout", "", b"m", mandatory=True))
    killer = house.client()
    killer.ask(QueueDelete("slow"))
    assert client.heard() == []
    killer.ask(QueueDelete("other"))
    returned, confirm = client.heard()
    assert isinstance(returned, Content)
    assert (returned.body, returned.method.reply_code) == (b"m", 312)  # type: ignore[union-attr]
    assert confirm == BasicAck(1)


@pytest.mark.feature("S0-09")
def test_a_mandatory_message_that_one_queue_has_is_not_returned(house: House, client: Client) -> None:
    client.declare("quick")
    guard(house)
    for name in ("slow", "quick"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.feed(client.published("amq.fanout", "", b"m", mandatory=True))
    house.client().ask(QueueDelete("slow"))
    assert client.heard() == []
    assert client.count("quick") == 1


@pytest.mark.parametrize("end", ["close", "vanish", "error"])
@pytest.mark.feature("S0-06")
def test_a_channel_that_dies_leaves_no_entries_with_the_queue(house: House, client: Client, end: str) -> None:
    """What it published still arrives, and nobody is confirmed."""
    guarded, gate = guard(house)
    client.ask(ConfirmSelect())
    client.publish("slow", *[b"m"] * DEBT_LIMIT)
    assert len(guarded.pending) == 1
    if end == "vanish":
        client.vanish()
    else:
        client.socket.resume_reading()  # as the peer's close finds its way, whatever else is held back
        client.send(ChannelClose(200, "") if end == "close" else BasicAck(99))
        client.heard()
        assert not client.session.is_paused
    assert guarded.pending == {}
    gate.open(len(gate.waiting))
    assert house.queue("slow").ready == DEBT_LIMIT
    assert client.heard() == []


@pytest.mark.feature("S0-30")
def test_a_replica_that_leaves_lets_the_confirm_go(house: House, client: Client) -> None:
    guarded, gate = guard(house)
    mirror = Mirror()
    guarded.replicas.append(mirror)
    client.ask(ConfirmSelect())
    client.publish("slow", b"1")
    guarded.remove_replica(mirror)
    gate.open()
    assert client.heard() == [BasicAck(1)]


@pytest.mark.feature("S0-28")
def test_counters_count_guarded_publishes_too(house: House, client: Client) -> None:
    _, gate = guard(house)
    client.publish("slow", b"1", b"2")
    gate.open()
    assert house.vhost.counters_of("").routed == 2
    assert house.queue("slow").counters.received == 2


def test_a_durable_queue_beside_a_guarded_one_is_written_to_the_log() -> None:
    """Else a persistent message is confirmed by the word of the guarded queue alone."""
    log = SpyLog()
    house = House(log=log)
    client = house.client()
    client.declare("slow")
    client.declare("durable", durable=True)
    _, gate = guard(house)
    for name in ("slow", "durable"):
        client.ask(QueueBind(name, "amq.fanout"))
    client.feed(client.published("amq.fanout", "", b"m", delivery_mode=2))
    gate.open()
    assert [bodies for bodies, _ in log.appended] == [[b"m"]]

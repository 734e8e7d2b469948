"""How a channel consumed, for the next connection: in order, and no longer than it has to be."""

from __future__ import annotations

from leveret.client.address import parsed
from leveret.client.recovering_connection import BrokerIdentity
from leveret.client.subscriptions import Subscriptions
from leveret.client.topology_record import TopologyRecord
from leveret.wire import methods as m

BROKER = BrokerIdentity.of(parsed("amqp://one"), {})


def qos(count: int, *, is_global: bool = False) -> m.BasicQos:
    return m.BasicQos(0, count, is_global)


def noted(*entries: m.BasicQos | str) -> Subscriptions:
    """Consumers are named by their tags."""
    subscriptions = Subscriptions(TopologyRecord())
    for entry in entries:
        if isinstance(entry, str):
            subscriptions.began(m.BasicConsume("q", "", False, False, False, False, {}), entry)
        else:
            subscriptions.note_qos(entry)
    return subscriptions


def told(subscriptions: Subscriptions) -> list[object]:
    return [
        each.consumer_tag if isinstance(each, m.BasicConsume) else each.prefetch_count
        for each in subscriptions.again(BROKER)
    ]


def test_a_prefetch_counts_for_the_consumers_behind_it() -> None:
    assert told(noted(qos(1), "a", qos(2), qos(3), "b")) == [1, "a", 3, "b"]


def test_who_consumes_no_more_is_forgotten() -> None:
    subscriptions = noted(qos(1), "a", qos(2), "b")
    subscriptions.ended("b")
    subscriptions.note_qos(qos(4))
    assert told(subscriptions) == [1, "a", 4]


def test_the_two_kinds_of_prefetch_stand_beside_each_other_once() -> None:
    """However often they are set: who pulls sets one for each message."""
    changes = [qos(number, is_global=bool(number % 2)) for number in range(100)]
    assert told(noted(*changes)) == [98, 99]

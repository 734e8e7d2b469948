"""Exchanges, dead letters and transactions whose queues are in several cells."""

from __future__ import annotations

import pytest

from leveret.wire.methods import (
    BasicAck,
    BasicReturn,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeUnbind,
    Method,
    QueueBind,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)
from tests.support.cell_cluster import CellCluster
from tests.support.peer_pair import Client, Content

PERSISTENT = 2


@pytest.fixture
def cells() -> CellCluster:
    """Each cell has a queue of its name."""
    cells = CellCluster(2)
    for cell in cells.cells:
        cell.client().declare(cell.cell, durable=True)
    return cells


def ask(client: Client, *methods: Method) -> None:
    for method in methods:
        assert f"{method.NAME}-ok" == client.ask(method).NAME


def publish(client: Client, exchange: str, key: str, body: bytes, *, mandatory: bool = False) -> None:
    client.feed(client.published(exchange, key, body, mandatory=mandatory))


def taken(cells: CellCluster, queue: str, place: int = 0) -> list[bytes]:
    """All messages of a queue, which are removed, as a client of one of the cells gets them."""
    client, found = cells[place].client(), []
    while (got := client.get(queue, no_ack=True)) is not None:
        found.append(got.body)
    return found


def ready(cells: CellCluster, queue: str) -> int:
    """At its home cell."""
    return next(cell.queue(queue).ready for cell in cells.cells if cell.vhost.queues[queue].home is None)


# ---- exchanges


@pytest.mark.parametrize(("publisher", "queue"), [(0, "c2"), (1, "c1")])
def test_an_alternate_exchange_leads_to_another_cell(cells: CellCluster, publisher: int, queue: str) -> None:
    client = cells[publisher].client()
    arguments = {"alternate-exchange": "unrouted"}
    ask(
        client,
        ExchangeDeclare("unrouted", "fanout"),
        ExchangeDeclare("main", "direct", arguments=arguments),  # type: ignore[arg-type]
        QueueBind(queue, "unrouted", ""),
        ConfirmSelect(),
    )
    publish(client, "main", "nowhere", b"1", mandatory=True)
    assert client.heard() == [BasicAck(1)]  # and not returned
    cells[1 - publisher].client().feed(client.published("main", "nowhere", b"2"))
    assert taken(cells, queue) == [b"1", b"2"]


def test_a_mandatory_message_without_a_route_is_returned_where_it_was_published(cells: CellCluster) -> None:
    client = cells[1].client()
    ask(client, ExchangeDeclare("main", "direct"), QueueBind("c1", "main", "key"))
    publish(client, "main", "key", b"routed", mandatory=True)
    publish(client, "main", "other", b"returned", mandatory=True)
    (returned,) = client.heard()
    assert isinstance(returned, Content)
    assert isinstance(returned.method, BasicReturn)
    assert returned.body == b"returned"
    assert taken(cells, "c1") == [b"routed"]


@pytest.mark.parametrize("publisher", [0, 1])
def test_bindings_between_exchanges_lead_to_queues_of_all_cells(cells: CellCluster, publisher: int) -> None:
    client = cells[0].client()
    ask(
        client,
        ExchangeDeclare("source", "topic"),
        ExchangeDeclare("middle", "fanout"),
        ExchangeBind("middle", "source", "eu.#"),
        QueueBind("c1", "middle", ""),
        QueueBind("c2", "middle", ""),
        QueueBind("c2", "source", "eu.*"),  # two ways to the same queue: one copy
    )
    sender = cells[publisher].client()
    publish(sender, "source", "eu.1", b"1")
    publish(sender, "source", "us.1", b"2")
    assert (taken(cells, "c1", publisher), taken(cells, "c2", publisher)) == ([b"1"], [b"1"])
    ask(cells[1].client(), ExchangeUnbind("middle", "source", "eu.#"))
    publish(sender, "source", "eu.1", b"3")
    assert (taken(cells, "c1"), taken(cells, "c2")) == ([], [b"3"])


# ---- dead letters


def dead_lettering(cells: CellCluster, place: int, **arguments: object) -> Client:
    """A client of a cell that has declared ``source`` there, whose dead letters go to the queue of the other cell."""
    client = cells[place].client()
    table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    target = {"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "key"}
    ask(client, ExchangeDeclare("dead", "direct", durable=True), QueueBind(cells[1 - place].cell, "dead", "key"))
    client.declare("source", durable=True, arguments=table | target)
    return client


@pytest.mark.parametrize("place", [0, 1])
def test_a_rejected_message_goes_to_a_queue_of_another_cell(cells: CellCluster, place: int) -> None:
    client = dead_lettering(cells, place)
    client.publish("source", b"bad", delivery_mode=PERSISTENT)
    held = client.get("source")
    assert held is not None
    client.nack(held.tag, requeue=False)
    got = client.get(cells[1 - place].cell)
    assert got is not None
    headers = got.properties.headers or {}
    assert (got.body, got.method.exchange, got.method.routing_key) == (b"bad", "dead", "key")
    (death,) = headers["x-death"]  # type: ignore[misc]
    assert (death["queue"], death["reason"], death["count"]) == ("source", "rejected", 1)  # type: ignore[index,call-overload]
    assert ready(cells, "source") == 0


def test_a_consumer_of_another_cell_rejects_a_message_into_its_own_cell(cells: CellCluster) -> None:
    dead_lettering(cells, 0)
    client = cells[1].client()
    client.publish("source", b"bad")
    client.consume("source")
    (held,) = [what for what in client.heard() if isinstance(what, Content)]
    client.nack(held.tag, requeue=False)
    assert (taken(cells, "c2"), ready(cells, "source"), cells[0].queue("source").unacked) == ([b"bad"], 0, 0)


def test_expired_and_dropped_messages_go_to_a_queue_of_another_cell(cells: CellCluster) -> None:
    client = dead_lettering(cells, 0, max_length=1, message_ttl=1000)
    client.publish("source", b"dropped", b"expired")
    assert taken(cells, "c2") == [b"dropped"]
    cells.advance(2)
    assert taken(cells, "c2") == [b"expired"]


def test_a_dead_letter_waits_for_a_cell_that_is_away(cells: CellCluster) -> None:
    client = dead_lettering(cells, 0)
    client.publish("source", b"bad")
    held = client.get("source")
    assert held is not None
    cells.cut(cells[0], cells[1])
    client.nack(held.tag, requeue=False)
    cells.advance(30)
    cells.connect_definitions(cells[1])
    cells.connect_queues(cells[0], cells[1])
    cells.advance(60)  # it is repeated at growing intervals
    assert taken(cells, "c2", 1) == [b"bad"]
    assert cells[0].queue("source").unacked == 0


# ---- transactions


@pytest.fixture
def transaction(cells: CellCluster) -> Client:
    client = cells[0].client()
    ask(client, TxSelect())
    return client


def test_a_transaction_publishes_to_queues_of_all_cells_when_it_is_committed(
    cells: CellCluster, transaction: Client
) -> None:
    for queue in ("c1", "c2"):
        transaction.publish(queue, b"1", b"2")
    assert (ready(cells, "c1"), ready(cells, "c2")) == (0, 0)
    ask(transaction, TxCommit())
    assert (ready(cells, "c1"), ready(cells, "c2")) == (2, 2)
    transaction.publish("c2", b"3")
    ask(transaction, TxRollback(), TxCommit())
    assert taken(cells, "c2") == [b"1", b"2"]


def test_acknowledgements_of_a_transaction_reach_the_home_cell_with_the_commit(
    cells: CellCluster, transaction: Client
) -> None:
    home = cells[1].queue("c2")
    cells[1].client().publish("c2", b"1", b"2")
    transaction.consume("c2")
    held = [what for what in transaction.heard() if isinstance(what, Content)]
    transaction.ack(held[0].tag)
    ask(transaction, TxRollback())
    assert home.unacked == 2
    transaction.ack(held[0].tag)
    transaction.nack(held[1].tag, requeue=False)
    assert home.unacked == 2
    ask(transaction, TxCommit())
    assert (home.unacked, home.ready) == (0, 0)


def test_commit_ok_waits_for_the_home_cell(cells: CellCluster, transaction: Client) -> None:
    transaction.publish("c2", b"1")
    cells.cut(cells[0], cells[1])
    transaction.send(TxCommit())
    cells.advance(5)
    assert transaction.heard() == []
    cells.connect_definitions(cells[1])
    cells.connect_queues(cells[0], cells[1])
    cells.rest()
    assert transaction.heard() == [TxCommitOk()]
    assert ready(cells, "c2") == 1


def test_a_commit_whose_cell_stays_away_is_refused_and_nothing_is_acknowledged(
    cells: CellCluster, transaction: Client
) -> None:
    transaction.publish("c1", b"held")
    ask(transaction, TxCommit())
    held = transaction.get("c1")
    assert held is not None
    transaction.ack(held.tag)
    transaction.publish("c2", b"1")
    cells.cut(cells[0], cells[1])
    transaction.send(TxCommit())
    cells.advance(11)
    code, text = transaction.error()
    assert code == 406
    assert "partial tx completion" in text
    assert taken(cells, "c1") == [b"held"]


def test_a_commit_that_a_full_queue_of_another_cell_refuses_acknowledges_nothing(
    cells: CellCluster, transaction: Client
) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    cells[1].client().declare("full", durable=True, arguments=arguments)
    cells[1].client().publish("full", b"first")
    cells[0].client().publish("c1", b"held")
    held = transaction.get("c1")
    assert held is not None
    transaction.ack(held.tag)
    transaction.publish("full", b"second")
    transaction.send(TxCommit())
    assert transaction.error()[0] == 406
    assert (taken(cells, "full"), taken(cells, "c1")) == ([b"first"], [b"held"])


def test_messages_of_several_keys_keep_their_keys_after_a_crash_of_the_home_cell() -> None:
    """They arrive in one frame of the link."""
    cells = CellCluster(2, has_disks=True)
    home = cells[1].client()
    home.declare("q", durable=True)
    ask(home, QueueBind("q", "amq.fanout", ""))
    publisher = cells[0].client()
    keys = ["a", "b", "a", "c"]
    publisher.feed(b"".join([publisher.published("amq.fanout", key, b"hello", delivery_mode=2) for key in keys]))
    cells.crash(1)
    consumer = cells[1].client()
    found = [consumer.get("q") for _ in keys]
    assert [each.method.routing_key for each in found if each is not None] == keys

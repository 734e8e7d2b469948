"""Auto-delete exchanges that span cells: the first cell deletes them."""

from __future__ import annotations

import pytest

from leveret.wire.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)
from tests.support.cell_cluster import CellCluster
from tests.support.peer_pair import Client


@pytest.fixture
def cells() -> CellCluster:
    return CellCluster(3)


def bind_to_auto_delete(client: Client, queue: str) -> None:
    assert client.ask(ExchangeDeclare("x", "fanout", auto_delete=True)) == ExchangeDeclareOk()
    client.declare(queue)
    assert client.ask(QueueBind(queue, "x")) == QueueBindOk()


def bound_to(cells: CellCluster) -> list[list[str] | None]:
    """The queues that are bound to the exchange, in each cell; None if it does not exist there."""
    return [
        [binding.destination.name for binding in cell.vhost.bindings.of_source("x")]
        if "x" in cell.vhost.exchanges
        else None
        for cell in cells.cells
    ]


@pytest.mark.parametrize("place", [0, 1])
def test_auto_delete_exchanges_go_with_their_last_binding_in_all_cells(cells: CellCluster, place: int) -> None:
    client = cells[place].client()
    bind_to_auto_delete(client, "q")
    assert bound_to(cells) == [["q"]] * 3
    assert client.ask(QueueUnbind("q", "x")) == QueueUnbindOk()
    assert bound_to(cells) == [None] * 3
    bind_to_auto_delete(client, "q")
    assert client.ask(QueueDelete("q")) == QueueDeleteOk(0)
    assert bound_to(cells) == [None] * 3


def test_an_auto_delete_exchange_that_is_declared_again_stays(cells: CellCluster) -> None:
    client = cells[0].client()
    bind_to_auto_delete(client, "q")
    with cells.definitions_held(1):
        client.ask(QueueUnbind("q", "x"))
        bind_to_auto_delete(client, "q")
    assert bound_to(cells) == [["q"]] * 3


def test_an_auto_delete_exchange_stays_with_a_binding_of_another_cell(cells: CellCluster) -> None:
    there, here = cells[1].client(), cells[0].client()
    bind_to_auto_delete(there, "old")
    with cells.definitions_held(1):
        assert there.ask(QueueDelete("old")) == QueueDeleteOk(0)
        bind_to_auto_delete(here, "new")
    assert bound_to(cells) == [["new"]] * 3


def test_an_auto_delete_exchange_is_declared_again_before_other_cells_have_deleted_it(cells: CellCluster) -> None:
    client = cells[1].client()
    bind_to_auto_delete(client, "q")
    with cells.definitions_held(1):
        client.send(QueueDelete("q"), ExchangeDeclare("x", "fanout", auto_delete=True))
    assert client.heard() == [QueueDeleteOk(0), ExchangeDeclareOk()]
    assert bound_to(cells) == [[]] * 3

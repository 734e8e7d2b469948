"""Virtual hosts that are in one cell: their definitions, and how a virtual host gets its cell."""

from __future__ import annotations

import pytest

from leveret.broker.restoration import restore_parameter
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_cells import place_vhost, refuse_cell
from leveret.cells.shared_definitions import snapshot
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.store.definitions import ParameterRow
from tests.support.cell_cluster import CellCluster, CellHarness
from tests.support.peer_pair import Harness


def vhost_of(cell: CellHarness) -> Vhost:
    return cell.broker.vhosts["v"]


def place(cells: CellCluster, home: str) -> None:
    """Create the virtual host if need be, and let it live there."""
    broker = cells[0].broker
    place_vhost(broker, broker.add_vhost("v"), home)
    cells.rest()


def topology(cell: CellHarness) -> tuple[set[str], set[str], int]:
    vhost = vhost_of(cell)
    exchanges = {name for name in vhost.exchanges if name and not name.startswith("amq.")}
    return exchanges, set(vhost.queues), len(vhost.bindings.of_source("x"))


def declare_here(cell: CellHarness) -> None:
    vhost = vhost_of(cell)
    vhost.declare_exchange("x", "topic", durable=True)
    vhost.declare_queue("q", durable=True)
    vhost.bind(Binding("x", Destination("queue", "q"), "#", {}))


NOTHING: tuple[set[str], set[str], int] = (set(), set(), 0)
ALL = ({"x"}, {"q"}, 1)


@pytest.mark.parametrize("home", [0, 1])
def test_its_definitions_exist_in_its_cell_only(home: int) -> None:
    cells = CellCluster(3)
    place(cells, cells[home].cell)
    assert [vhost_of(cell).is_here for cell in cells.cells] == [number == home for number in range(3)]
    declare_here(cells[home])
    cells.rest()
    assert [topology(cell) for cell in cells.cells] == [ALL if number == home else NOTHING for number in range(3)]
    for cell in cells.cells:
        assert not any(getattr(item, "name", "") == "q" for item in snapshot(cell.broker, cell.cell))
        assert not any(vhost == "v" for vhost, _ in cell.homes._cells)


def test_its_cell_changes_its_definitions_without_the_first_one() -> None:
    cells = CellCluster(2)
    place(cells, "c2")
    cells[1].broker.permissions.set("guest", "v", ".*", ".*", ".*")
    cells.cut(cells[0], cells[1])
    client = cells[1].stranger()
    client.log_in(vhost="v")
    client.open_channel(1)
    assert client.declare("q", durable=True).queue == "q"


def test_limits_permissions_and_policies_are_those_of_the_first_cell() -> None:
    cells = CellCluster(2)
    place(cells, "c2")
    first = cells[0].broker
    first.limit_vhost("v", max_queues=1, max_connections=5)
    first.permissions.set("guest", "v", "a", "b", "c")
    first.policies.set("v", "p", pattern="q", definition={"max-length": 3}, apply_to="queues", priority=0)
    cells.rest()
    home = vhost_of(cells[1])
    assert (home.max_queues, home.max_connections) == (1, 5)
    assert cells[1].broker.permissions.get("guest", "v") == first.permissions.get("guest", "v")
    assert home.declare_queue("q").options.max_length == 3


def test_its_message_counts_are_not_reported_to_the_first_cell() -> None:
    cells = CellCluster(2)
    place(cells, "c2")
    declare_here(cells[1])
    cells[1].vhost.declare_queue("of all cells")
    cells.rest()
    first = cells[1].first
    assert first is not None
    first.report_counts()
    assert set(first._counts._known) == {("/", "of all cells")}


def test_nothing_can_be_declared_in_another_cell() -> None:
    cells = CellCluster(2)
    place(cells, "c2")
    for cell in (cells[0], cells[1]):
        vhost = vhost_of(cell)
        for declare in (lambda: vhost.declare_queue("q"), lambda: vhost.declare_exchange("x")):  # noqa: B023
            if cell is cells[1]:
                declare()
            else:
                with pytest.raises(PreconditionFailed, match="is in cell c2; declare it over AMQP"):
                    declare()


def test_a_virtual_host_with_all_its_queues_in_one_cell_can_be_placed_there() -> None:
    cells = CellCluster(3)
    cells[0].broker.add_vhost("v")
    cells.rest()
    declare_here(cells[1])
    cells.rest()
    assert [topology(cell) for cell in cells.cells] == [ALL, ALL, ALL]
    place(cells, "c2")
    assert [topology(cell) for cell in cells.cells] == [NOTHING, ALL, NOTHING]


def test_connections_in_other_cells_are_closed_and_those_of_its_cell_stay() -> None:
    cells = CellCluster(2)
    first = cells[0].broker
    first.add_vhost("v")
    first.permissions.set("guest", "v", ".*", ".*", ".*")
    cells.rest()
    clients = []
    for cell in cells.cells:
        client = cell.stranger()
        client.log_in(vhost="v")
        clients.append(client)
    place(cells, "c2")
    code, text = clients[0].error()
    assert (code, "vhost 'v' is in cell c2 now" in text) == (320, True)
    clients[1].open_channel(1)


@pytest.mark.parametrize(
    ("queue_in", "current", "cell", "reason"),
    [
        (0, None, "c2", "it has queues in c1; delete these queues first"),
        (2, None, "c2", "it has queues in c3; delete these queues first"),
        (None, None, "c9", "the cells are c1, c2, c3"),
        (None, "c2", "c3", "is in cell c2: to place it in c3, delete it and create it again"),
        (None, "c2", "", "is in cell c2: to place it in all cells, delete it and create it again"),
    ],
)
def test_what_cannot_be_placed_is_refused(queue_in: int | None, current: str | None, cell: str, reason: str) -> None:
    cells = CellCluster(3)
    broker = cells[0].broker
    vhost = broker.add_vhost("v")
    cells.rest()
    if queue_in is not None:
        vhost_of(cells[queue_in]).declare_queue("q", durable=True)
        cells.rest()
    if current is not None:
        place_vhost(broker, vhost, current)
    with pytest.raises(PreconditionFailed, match=reason):
        place_vhost(broker, vhost, cell)
    assert vhost.cell == (current or "")


def test_a_single_broker_refuses_a_cell_and_has_everything() -> None:
    broker = Harness().broker
    with pytest.raises(PreconditionFailed, match="this broker is a single cell; start it with --cells"):
        refuse_cell(broker, "v", "c2")
    vhost = broker.add_vhost("v")
    restore_parameter(broker, ParameterRow("v", "cell", "cell", b"c2"))  # of an earlier run with cells
    assert (vhost.cell, vhost.is_here) == ("c2", True)


def test_a_cell_that_was_away_keeps_what_lives_in_it_now() -> None:
    cells = CellCluster(3)
    cells[0].broker.add_vhost("v")
    cells.rest()
    declare_here(cells[1])
    cells.rest()
    for other in (1, 2):
        cells.cut(cells[0], cells[other])
    place(cells, "c2")
    for other in (1, 2):
        cells.connect_definitions(cells[other])
    cells.rest()
    assert [topology(cell) for cell in cells.cells] == [NOTHING, ALL, NOTHING]


@pytest.mark.parametrize("home", ["c3", ""])
def test_a_cell_that_was_away_drops_a_virtual_host_that_was_created_again_elsewhere(home: str) -> None:
    cells = CellCluster(3)
    place(cells, "c2")
    declare_here(cells[1])
    cells.cut(cells[0], cells[1])
    cells[0].broker.delete_vhost("v")
    place(cells, home)
    cells.connect_definitions(cells[1])
    cells.rest()
    assert [vhost_of(cell).cell for cell in cells.cells] == [home] * 3
    assert [topology(cell) for cell in cells.cells] == [NOTHING] * 3


def test_it_is_deleted_in_all_cells() -> None:
    cells = CellCluster(2)
    place(cells, "c2")
    declare_here(cells[1])
    cells[0].broker.delete_vhost("v")
    cells.rest()
    assert not any("v" in cell.broker.vhosts for cell in cells.cells)


def test_a_sharded_exchange_has_the_shards_of_its_cell_only() -> None:
    cells = CellCluster(2)
    place(cells, "c2")
    definition = {"shards-per-node": 2, "routing-key": "1234"}
    cells[0].broker.policies.set("v", "p", pattern="^s$", definition=definition, apply_to="exchanges", priority=0)
    cells.rest()
    vhost_of(cells[1]).declare_exchange("s", "x-modulus-hash", durable=True)
    cells.rest()
    assert sorted(vhost_of(cells[1]).queues) == ["sharding: s - c2 - 0", "sharding: s - c2 - 1"]
    assert not vhost_of(cells[0]).queues

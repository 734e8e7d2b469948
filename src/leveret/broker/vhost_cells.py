"""Virtual hosts that are in one cell, of several.

By default a virtual host spans all cells. One that is in a cell has its exchanges, queues and bindings there only,
and this cell changes them itself; the other cells know its name, its limits, its policies and its permissions. Clients
that open it in another cell are relayed (docs/decisions/0062). The cell is a parameter of the virtual host, which all
cells have.
"""

from __future__ import annotations

from leveret.broker.broker import Broker
from leveret.broker.vhost import QueueRemoval, Vhost
from leveret.errors import PreconditionFailed

COMPONENT, NAME = "cell", "cell"  # of the parameter


def refuse_cell(broker: Broker, name: str, cell: str) -> None:
    """PreconditionFailed if this virtual host, which may not exist yet, cannot be in ``cell``; empty: in all."""
    names, vhost = broker.cells.names, broker.vhosts.get(name)
    current = "" if vhost is None else vhost.cell
    if cell == current:
        return
    if not names:
        raise PreconditionFailed(
            f"vhost '{name}' cannot be placed in cell '{cell}': this broker is a single cell; start it with --cells"
        )
    if cell and cell not in names:
        raise PreconditionFailed(f"vhost '{name}' cannot be placed in cell '{cell}': the cells are {', '.join(names)}")
    if current:
        raise PreconditionFailed(
            f"vhost '{name}' is in cell {current}: to place it in {cell or 'all cells'}, delete it and create it again"
        )
    if vhost is not None:
        _refuse_queues_elsewhere(broker, vhost, cell)


def _refuse_queues_elsewhere(broker: Broker, vhost: Vhost, cell: str) -> None:
    homes = {broker.cells.name if queue.home is None else queue.home.cell_name for queue in vhost.queues.values()}
    if others := sorted(homes - {cell}):
        raise PreconditionFailed(
            f"vhost '{vhost.name}' cannot be placed in cell '{cell}': it has queues in {', '.join(others)}; delete "
            "these queues first"
        )


def refuse_moves(vhost: Vhost) -> None:
    """PreconditionFailed if the queues of this virtual host have to stay in its cell."""
    if vhost.cell:
        raise PreconditionFailed(
            f"vhost '{vhost.name}' is in cell {vhost.cell}: its queues cannot be moved to other cells"
        )


def place_vhost(broker: Broker, vhost: Vhost, cell: str) -> None:
    """Called in the first cell. The other cells follow."""
    refuse_cell(broker, vhost.name, cell)
    if cell != vhost.cell:
        follow_placement(broker, vhost, cell)


def follow_placement(broker: Broker, vhost: Vhost, cell: str) -> None:
    vhost.parameters.put(COMPONENT, NAME, cell.encode())
    vhost.live_in(cell)  # first: what is removed here stays in that cell
    for connection in list(broker.registry.connections):
        if connection.vhost is vhost and (connection.is_link or not vhost.is_here):
            connection.force_close(f"vhost '{vhost.name}' is in cell {cell} now: connect again")
    if not vhost.is_here:
        for name in [name for name in vhost.exchanges if name and not name.startswith("amq.")]:
            vhost.delete_exchange(name)
        broker.background.begin(QueueRemoval(vhost, list(vhost.queues.values())))

"""The nodes that shards are declared for, by name.

The nodes of a single broker are names: all shards are queues of this process. With several cells, each one declares its
own. A cell that leaves gets no shards any more, in any cell and after any restart: the first cell keeps the nodes that
have left in a global parameter, which all cells have.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.broker.parameters import LEFT_CELLS


class Membership:
    """It starts with the node itself. ``on_change`` is called after each change.

    ``cells``: if the nodes are cells, the names of their nodes by cell. ``connected``: the cells that are.
    """

    def __init__(self, broker: Broker, on_change: Callable[[], None]) -> None:
        self.own = broker.node_name
        self.are_cells = False
        self.cells: dict[str, str] = {}
        self.connected: set[str] = set()
        self._broker = broker
        self._names: dict[str, None] = {self.own: None}
        self._on_change = on_change

    def rename(self, own: str) -> None:
        """Before the start: shards are named after the cell, which may be led by any node."""
        del self._names[self.own]
        self.own = own
        self._names[own] = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes, in the order in which they joined."""
        left = self.left
        return tuple(name for name in self._names if name not in left)

    @property
    def left(self) -> frozenset[str]:
        """Nodes of cells that have left."""
        found = self._broker.parameters.get(LEFT_CELLS) if self.are_cells else None
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    @property
    def declared_here(self) -> tuple[str, ...]:
        """The nodes whose shards are declared by this one."""
        if not self.are_cells:
            return self.names
        return () if self.own in self.left else (self.own,)

    def gone(self) -> frozenset[str]:
        """Cells that have left and are not connected: they are not waited for."""
        return frozenset(cell for cell in self.left_cells() if cell not in self.connected)

    def left_cells(self) -> list[str]:
        cells = {node: cell for cell, node in self.cells.items()}
        return sorted(cells.get(node, node) for node in self.left)

    def is_removed(self, cell: str) -> bool:
        """Whether the cluster was started without this cell."""
        return bool(self.cells) and cell not in self.cells

    def members(self) -> frozenset[str]:
        """The cells that use the shards."""
        return frozenset({*self.connected, self._broker.cells.name}) - self.gone()

    # ---- changes

    def join(self, name: str) -> None:
        """Joining twice has no effect. A cell joins each time it connects; one that has left stays away."""
        if not name:
            raise ValueError("a node without a name cannot join: give it one")
        if name not in self._names:
            self._names[name] = None
            self._on_change()

    def joined(self, cell: str) -> None:
        """The cell is connected."""
        self.connected.add(cell)
        self.join(self.cells.get(cell, cell))

    def parted(self, cell: str) -> None:
        """The cell is not connected any more; it may come back."""
        self.connected.discard(cell)
        if cell in self.gone():
            self._on_change()

    def leave(self, name: str) -> None:
        """Take the shards of a node out of the bindings, in all cells; their messages stay. Leaving twice has no
        effect. With cells, call this in the first one; ``name`` may be that of the cell."""
        name = self.cells.get(name, name)
        if name == self.own:
            raise ValueError(f"node '{name}' cannot leave itself: stop it instead")
        if self._broker.cells.changes is not None:
            raise ValueError("only the first cell can take another one out: call this there")
        if self.are_cells:
            self._put_left(self.left | {name})
        elif name in self._names:
            del self._names[name]
            self._on_change()

    def rejoin(self, name: str) -> None:
        """Undo ``leave``: the cell declares and binds its shards again."""
        self._put_left(self.left - {self.cells.get(name, name)})

    def forget_removed(self) -> None:
        """Forget cells that have left and were removed: one that is added with the same name is a new one."""
        self._put_left(self.left & {*self.cells.values()})

    def _put_left(self, left: frozenset[str]) -> None:
        if left == self.left:
            return
        if left:
            self._broker.parameters.put(LEFT_CELLS, sorted(left))
        else:
            self._broker.parameters.drop(LEFT_CELLS)
        self._on_change()

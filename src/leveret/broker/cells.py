"""A broker as one of several cells: its definitions, who follows their changes, who makes them, and which clients other
cells serve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leveret.errors import AmqpError
from leveret.queues.context import RemoteQueues
from leveret.queues.declared_queue import HERE, DeclaredQueue
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.store.definitions import Change

if TYPE_CHECKING:
    from leveret.broker.remote_writes import RoutedRun
    from leveret.broker.vhost import Vhost


class DefinitionWatcher(Protocol):
    """Called in the order of the changes. Bindings that go with a queue or an exchange are not reported."""

    def recorded(self, change: Change) -> None:
        """A durable definition of any kind was changed, also one that is reported below."""

    def exchange_added(self, vhost: Vhost, exchange: Exchange) -> None: ...

    def exchange_removed(self, vhost: Vhost, name: str) -> None: ...

    def queue_added(self, vhost: Vhost, queue: DeclaredQueue) -> None: ...

    def queue_removed(self, vhost: Vhost, queue: DeclaredQueue) -> None: ...

    def bound(self, vhost: Vhost, binding: Binding) -> None: ...

    def unbound(self, vhost: Vhost, binding: Binding) -> None: ...


Answered = Callable[[AmqpError | None], None]


class SharedChanges(Protocol):
    """Changes that the first cell makes for all. ``answered`` gets None once this cell has the change, or the error."""

    is_current: bool  # the first cell is connected, and reports all changes

    def declare_exchange(self, vhost: str, exchange: Exchange, answered: Answered) -> None: ...

    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answered: Answered) -> None: ...

    def declare_queue(
        self,
        vhost: str,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        owner: str,
        arguments: Mapping[str, object],
        answered: Answered,
    ) -> None:
        """``owner``: the name of the connection, if it is exclusive."""

    def sync(self, answered: Answered, *, waits: bool = True) -> None:
        """Answered when this cell has all changes that the first one has made until now. ``waits`` False: at once with
        an error while the first cell is away."""

    def bind(self, vhost: str, binding: Binding, answered: Answered) -> None: ...

    def unbind(self, vhost: str, binding: Binding, answered: Answered) -> None: ...

    def report_shards(self, report: list[Any]) -> None:
        """The state of a sharded exchange here. It may be lost: see SharedShards.compared."""


class SharedShards(Protocol):
    """The sharded exchanges of all cells (sharding/sharding.py)."""

    def table_changed(self, vhost: str, exchange: str) -> None:
        """The first cell has changed the slots of an ordered exchange."""

    def members_changed(self) -> None:
        """The first cell has changed which cells have left."""

    def compared(self) -> None:
        """This cell has all definitions of the first one, which may lack its reports."""

    def reported(self, report: list[Any]) -> None:
        """This is the first cell, and another one has reported."""

    def has_bound(self, vhost: str, exchange: str, shard: str) -> bool:
        """Whether this cell has bound this queue, as one of its shards."""

    def left_cells(self) -> list[str]:
        """Cells that are taken out of service, or were."""


class CommittedTransfers(Protocol):
    """Messages that arrive once, on their way to queues of other cells (pipeline/outboxes.py)."""

    def redirected(self, vhost: Vhost, run: RoutedRun, *, came_from: str) -> Iterator[RoutedRun]:
        """The same run, with outboxes instead of queues of other cells. ``came_from``: the hold that it leaves."""

    def when_passed_on(self, vhost: Vhost, came_from: str, call: Callable[[], None]) -> bool:
        """Transfer everything, and call ``call`` when what has left this hold so has arrived; False if it has."""

    def when_passed(self, vhost: Vhost, queue: str, call: Callable[[], None]) -> bool:
        """Call ``call`` when all that are on their way to this queue now have arrived; False if there are none."""


class QueuePlacement(Protocol):
    def home_of_new(self, vhost: Vhost, name: str, arguments: Mapping[str, object], asked_by: str = HERE) -> str:
        """The cell of a new queue that clients of ``asked_by`` declare."""


class ConnectionMover(Protocol):
    """Passes connections to other cells on this machine."""

    def move(self, cell: str, peer: object, state: bytes, rest: bytes) -> bool:
        """``peer``: the socket of the connection. False if it cannot be passed; then nothing has happened."""


class RelayedClient(Protocol):
    """A connection that has logged in (session/connection.py)."""

    name: str


class ClientRelay(Protocol):
    def relay(self, client: RelayedClient, cell: str) -> None:
        """Let another cell serve this connection: its virtual host is there."""


class QueueMoveState(Protocol):
    """The move of a queue to another cell, under way or over. Times are wall times."""

    id: str
    vhost: str
    queue: str
    source: str
    to: str
    state: str  # copying, committing, done or failed
    reason: str  # of a failure
    copied: int  # messages
    total: int
    began: float
    ended: float | None

    @property
    def is_over(self) -> bool: ...


class QueueMover(Protocol):
    """Moves of queues between cells; in the first cell."""

    @property
    def all(self) -> Mapping[str, QueueMoveState]:
        """By their ids."""

    def home(self, queue: DeclaredQueue) -> str:
        """The cell of the queue."""

    def begin(self, vhost: str, name: str, to: str) -> QueueMoveState:
        """AmqpError with the cause and the remedy if the queue cannot be moved there."""


class Proposal(NamedTuple):
    """A move that would make the load of the cells more equal."""

    vhost: str
    queue: str
    source: str
    to: str
    messages: int
    reason: str


class CellState(NamedTuple):
    """``waiting``: what has to be done before a cell that leaves is removed."""

    name: str
    state: str  # running, down, leaving, drained (has to be stopped by hand) or removed
    queues: int
    messages: int
    waiting: list[str]


class CellChanges(Protocol):
    """Cells that are taken out of service, and how queues are spread over cells; in the first cell."""

    removed: set[str]  # cells whose processes were ended

    def begin(self, name: str) -> None:
        """Take a cell out of service. AmqpError if that is not possible."""

    def cancel(self, name: str) -> None: ...

    def states(self) -> list[CellState]: ...

    def plan(self, vhost: str | None = None) -> list[Proposal]: ...


class Cells:
    """The part of a broker that knows other cells; by default there are none."""

    def __init__(self) -> None:
        self.name = ""  # of this cell; empty if it is the only one
        self.clients: ClientRelay | None = None
        self.shards: SharedShards | None = None
        self.watcher: DefinitionWatcher | None = None  # if there are several cells
        self.changes: SharedChanges | None = None  # if this is not the first of them
        self.remote_queues = RemoteQueues()
        self.transfers: CommittedTransfers | None = None
        self.placement: QueuePlacement | None = None  # if this is the first of several
        self.mover: ConnectionMover | None = None  # if connections move to the cell of their queue
        self.queue_moves: QueueMover | None = None  # if this is the first of several
        self.removals: CellChanges | None = None  # the same
        self.add: Callable[[], Awaitable[str]] | None = None  # starts one more cell, if this process can; its name
        self.nodes: Mapping[str, str] = {}  # names of nodes, by cell; of a replicated one, that of its leader. It grows
        self.cluster_name = ""  # of all cells

    @property
    def names(self) -> tuple[str, ...]:
        """Of all cells; empty if there is only one."""
        return tuple(self.nodes)

    @property
    def leaving(self) -> Collection[str]:
        """Cells that are taken out of service, or were: they get no new queues."""
        return () if self.shards is None else self.shards.left_cells()

    def home_of_new(self, vhost: Vhost, name: str, arguments: Mapping[str, object], *, is_bound_to_client: bool) -> str:
        """Where a queue is declared that clients of this cell ask for. ``is_bound_to_client``: exclusive or
        auto-delete."""
        if self.placement is None or not name or is_bound_to_client:
            return HERE
        return self.placement.home_of_new(vhost, name, arguments)

    def is_here(self, cell: str) -> bool:
        """Whether what is in ``cell`` is in this one. A broker that is the only cell has everything."""
        return not self.name or cell in ("", self.name)

"""The table of leases: which messages of which queue are leased to which consumer, so that a lease can be repeated.

Theory of operation. A consumer is a name, not a connection. It requests lease n + 1 after lease n; until that is
committed, requesting it again returns the same messages. Leases are rows of the definitions (broker/lease_rows.py),
which the writer commits before any message of the same batch. So a crash leaves one of these states:

    take      the row of the lease is written. Without this row the messages are still in their queue.
    commit    the row "committed up to n" is written first: from then on the messages count as acknowledged. Then they
              are settled in the journal, some in each tick. When that is granted, by the queue's own log if it has
              one, the rows of the leases are deleted.
    release   the rows are deleted first, then the messages are requeued, some in each tick.

After a restart, leased messages are taken out of the lanes before anything is delivered, and committed messages whose
rows still exist are settled. Only this module changes the rows; deleting a queue deletes its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from leveret.backlog.backlog import Backlog
from leveret.backlog.lease_builder import LeaseBuilder, LeasedRun
from leveret.backlog.lease_release import LeaseReturn, LeaseSettlement, restore_lease
from leveret.broker.lease_rows import (
    CONSUMER,
    LEASE,
    Committed,
    ConsumerName,
    LeaseName,
    consumer_name,
    lease_name,
    pack_committed,
    pack_lease,
    unpack_committed,
    unpack_lease,
)
from leveret.broker.remote_writes import when_settled
from leveret.errors import LeveretError, PreconditionFailed, ResourceFault
from leveret.logs import get_log

if TYPE_CHECKING:
    from leveret.broker.broker import Broker
    from leveret.broker.parameters import Parameters
    from leveret.queues.declared_queue import DeclaredQueue

NOTHING = Committed(0, 0)
MOST_CONSUMERS = 1_000  # of a queue: each consumer has a row until it is released


class Lease:
    __slots__ = ("bytes", "consumer", "held", "held_bytes", "messages", "number", "queue", "runs", "since")

    def __init__(
        self, consumer: str, queue: DeclaredQueue, number: int, messages: int, size: int, since: float
    ) -> None:
        self.consumer = consumer
        self.queue = queue
        self.number = number
        self.messages = messages
        self.bytes = size
        self.since = since  # wall time
        self.runs: tuple[LeasedRun, ...] = ()
        self.held = messages  # the messages that still exist: a damaged disk may have lost some
        self.held_bytes = size


class Standing(NamedTuple):
    consumer: str
    queue: DeclaredQueue
    committed: int


class _Reader:
    """One consumer of one queue."""

    __slots__ = ("committed", "leases")

    def __init__(self, committed: Committed) -> None:
        self.committed = committed
        self.leases: dict[int, Lease] = {}


class LeaseBook:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._readers: dict[int, dict[str, _Reader]] = {}  # by queue and consumer
        self._going: dict[int, set[str]] = {}  # by queue: rows of leases that are committed

    # ---- checks and lists

    def leasable(self, queue: DeclaredQueue) -> Backlog:
        """The backlog to lease from; PreconditionFailed if the queue has no leases."""
        which = f"queue '{queue.name}' in vhost '{queue.vhost}'"
        if queue.has_offsets:
            raise PreconditionFailed(f"{which} is a stream and has no leases: read it by offsets")
        if self._broker.pages is None or not _can_lease(queue):
            raise PreconditionFailed(
                f"{which} cannot be leased, nothing is on disk: start the broker with data_dir set"
            )
        if not queue.stored:
            raise PreconditionFailed(f"{which} cannot be leased, it is not durable: declare it durable, not exclusive")
        if queue.options.groups:
            raise PreconditionFailed(f"{which} cannot be leased, its groups belong to consumers: consume it instead")
        holder = next(iter(queue.consumers), None)
        if holder is not None and (holder.exclusive or queue.options.single_active):
            raise PreconditionFailed(f"{which} in exclusive use: cancel its consumer to lease from it")
        return _backlog(queue)

    def refuse_too_many(self, queue: DeclaredQueue, consumer: str) -> None:
        """Refuse a new consumer if there are too many."""
        consumers = self._readers.get(queue.id, {})
        if consumer not in consumers and len(consumers) >= MOST_CONSUMERS:
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{queue.vhost}' has leases or commits of {len(consumers)} consumers: "
                f"at most {MOST_CONSUMERS} are kept; release those that are not needed (leveret leases release)"
            )

    def find(self, queue: DeclaredQueue, consumer: str, number: int) -> Lease | None:
        reader = self._reader(queue, consumer)
        return None if reader is None else reader.leases.get(number)

    def refuse_committed(self, queue: DeclaredQueue, consumer: str, after: int) -> None:
        reader = self._reader(queue, consumer)
        if reader is not None and after < reader.committed.number:
            raise PreconditionFailed(
                f"lease {after + 1} of consumer '{consumer}' on queue '{queue.name}' in vhost '{queue.vhost}' is "
                f"committed: go on after {reader.committed.number}, or choose another consumer name"
            )

    def leases(self, vhost: str) -> Iterator[Lease]:
        for _, _, reader in self._all(vhost):
            yield from reader.leases.values()

    def standings(self, vhost: str) -> Iterator[Standing]:
        for queue, consumer, reader in self._all(vhost):
            yield Standing(consumer, queue, reader.committed.number)

    def _all(self, vhost: str) -> Iterator[tuple[DeclaredQueue, str, _Reader]]:
        for queue in self._broker.vhost(vhost).queues.values():
            for consumer, reader in self._readers.get(queue.id, {}).items():
                yield queue, consumer, reader

    def _reader(self, queue: DeclaredQueue, consumer: str) -> _Reader | None:
        return self._readers.get(queue.id, {}).get(consumer)

    def _rows(self, queue: DeclaredQueue) -> Parameters:
        return self._broker.vhost(queue.vhost).parameters

    # ---- taking

    def open(self, queue: DeclaredQueue, consumer: str, number: int, taking: LeaseBuilder) -> Lease:
        """Make a lease of the taken messages; it is durable when the log grants ``issued``."""
        lease = Lease(consumer, queue, number, taking.number, taking.size, self._broker.clock.wall())
        lease.runs = tuple(taking.runs)
        rows = self._rows(queue)
        reader = self._reader(queue, consumer)
        if reader is None:
            reader = _Reader(Committed(number - 1, 0))
            rows.put(CONSUMER, str(ConsumerName(queue.id, consumer)), pack_committed(reader.committed))
        value = pack_lease(lease.messages, lease.bytes, lease.since, lease.runs)
        rows.put(LEASE, str(LeaseName(queue.id, number, consumer)), value)
        self._enter(queue, consumer, reader)
        reader.leases[number] = lease
        queue.note_use()
        self._broker.wake()
        return lease

    def give_up(self, queue: DeclaredQueue, taking: LeaseBuilder) -> None:
        """Return taken messages that cannot become a lease."""
        if queue.alive and taking.number:
            self._broker.background.send(
                LeaseReturn(_backlog(queue), taking.runs, taking.number, taking.size, self._send, lambda number: None)
            )

    def _enter(self, queue: DeclaredQueue, consumer: str, reader: _Reader) -> None:
        self._readers.setdefault(queue.id, {})[consumer] = reader
        pager = _backlog(queue).pager
        assert pager is not None
        pager.lease_ranges()  # a queue that has lease ranges drops its leases when it is deleted

    # ---- committing

    def commit(self, queue: DeclaredQueue, consumer: str, through: int, over: Callable[[], None]) -> Committed:
        """Ack all leases up to ``through``; ``over`` is called when their messages are settled. Idempotent."""
        reader = self._reader(queue, consumer)
        committed = NOTHING if reader is None else reader.committed
        if reader is None or through <= committed.number:
            if through > committed.number:
                raise self._not_given(queue, consumer, through)
            over()
            return committed if through == committed.number else Committed(committed.number, 0)
        if through > max(reader.leases, default=0):
            raise self._not_given(queue, consumer, through)
        leases = [lease for number, lease in sorted(reader.leases.items()) if number <= through]
        committed = Committed(through, sum([lease.messages for lease in leases]))
        self._rows(queue).put(CONSUMER, str(ConsumerName(queue.id, consumer)), pack_committed(committed))
        reader.committed = committed
        for lease in leases:
            del reader.leases[lease.number]
        queue.note_use()
        self._settle(queue, leases, over)
        return committed

    def _not_given(self, queue: DeclaredQueue, consumer: str, number: int) -> PreconditionFailed:
        return PreconditionFailed(
            f"lease {number} of consumer '{consumer}' on queue '{queue.name}' in vhost '{queue.vhost}' does not exist "
            "or was released: its messages are in the queue and will be leased again"
        )

    def _settle(self, queue: DeclaredQueue, leases: list[Lease], over: Callable[[], None]) -> None:
        names = [str(LeaseName(queue.id, lease.number, lease.consumer)) for lease in leases]
        self._going.setdefault(queue.id, set()).update(names)

        def settled() -> None:
            if queue.alive:
                self._broker.when_granted(lambda: self._drop_rows(queue, names), receipt=self._broker.log.promise())
            over()

        def settled_here() -> None:
            if queue.alive and queue.remote_log is not None:
                when_settled(self._broker.vhost(queue.vhost), queue, settled)
            else:
                settled()

        number, size = _held(leases)
        self._send(LeaseSettlement(_backlog(queue), _runs(leases), number, size, settled_here))

    def _send(self, task: LeaseSettlement | LeaseReturn) -> None:
        self._broker.background.send(task)

    def _drop_rows(self, queue: DeclaredQueue, names: Iterable[str]) -> None:
        """Delete rows whose messages are settled on disk. If that fails, they are settled again after a restart."""
        if not queue.alive:
            return
        rows, going = self._rows(queue), self._going.get(queue.id, set())
        try:
            for name in names:
                rows.drop(LEASE, name)
                going.discard(name)
        except ResourceFault:
            return  # the store is read-only
        self._broker.wake()

    # ---- releasing

    def release(self, queue: DeclaredQueue, consumer: str, number: int | None, over: Callable[[int], None]) -> None:
        """Return one lease, or all leases of the consumer, to the queue; ``over`` gets the number of messages. Without
        a number the consumer is removed as well."""
        reader = self._reader(queue, consumer)
        leases = [] if reader is None else [each for at, each in sorted(reader.leases.items()) if number in (None, at)]
        rows = self._rows(queue)
        for lease in leases:
            rows.drop(LEASE, str(LeaseName(queue.id, lease.number, consumer)))
            assert reader is not None
            del reader.leases[lease.number]
        if number is None and reader is not None:
            rows.drop(CONSUMER, str(ConsumerName(queue.id, consumer)))
            del self._readers[queue.id][consumer]
        if not leases:
            over(0)
            return
        held, size = _held(leases)
        self._send(LeaseReturn(_backlog(queue), _runs(leases), held, size, self._send, over))

    def forget(self, queue: DeclaredQueue) -> None:
        """Delete the leases of a deleted queue."""
        rows = self._rows(queue)
        for name in self._going.pop(queue.id, ()):
            rows.drop(LEASE, name)
        for consumer, reader in self._readers.pop(queue.id, {}).items():
            rows.drop(CONSUMER, str(ConsumerName(queue.id, consumer)))
            for number in reader.leases:
                rows.drop(LEASE, str(LeaseName(queue.id, number, consumer)))

    # ---- restart

    def restore(self) -> None:
        """Take messages leased in the previous run out of the lanes, before anything is delivered."""
        for vhost in self._broker.vhosts.values():
            queues = {queue.id: queue for queue in vhost.queues.values() if _can_lease(queue)}
            for text in vhost.parameters.names(CONSUMER):
                self._restoring(vhost.parameters, CONSUMER, text, queues, self._restore_consumer)
            for text in sorted(vhost.parameters.names(LEASE), key=_number_in):
                self._restoring(vhost.parameters, LEASE, text, queues, self._restore_lease)

    def _restoring(
        self,
        rows: Parameters,
        component: str,
        text: str,
        queues: dict[int, DeclaredQueue],
        restore: Callable[[DeclaredQueue, str, bytes], None],
    ) -> None:
        """A row that cannot be used, or whose queue does not exist, is skipped and logged."""
        try:
            queue = queues.get(int(text.partition("/")[0]))
            if queue is None:
                raise LeveretError("its queue does not exist")
            restore(queue, text, rows.get(component, text) or b"")
        except (LeveretError, ValueError) as problem:
            get_log("broker").error(f"{component} cannot be restored", name=text, reason=str(problem))

    def _restore_consumer(self, queue: DeclaredQueue, text: str, value: bytes) -> None:
        self._enter(queue, consumer_name(text).consumer, _Reader(unpack_committed(value)))

    def _restore_lease(self, queue: DeclaredQueue, text: str, value: bytes) -> None:
        _, number, consumer = lease_name(text)
        facts = unpack_lease(value)
        reader = self._reader(queue, consumer) or _Reader(Committed(number - 1, 0))
        lease = Lease(consumer, queue, number, facts.messages, facts.bytes, facts.since)
        lease.runs = facts.runs
        lease.held, lease.held_bytes = restore_lease(_backlog(queue), lease.runs)
        _backlog(queue).touch()
        self._enter(queue, consumer, reader)
        if number <= reader.committed.number:
            self._settle(queue, [lease], lambda: None)
        else:
            reader.leases[number] = lease


def _can_lease(queue: DeclaredQueue) -> bool:
    return queue.backlog is not None and queue.backlog.pager is not None


def _backlog(queue: DeclaredQueue) -> Backlog:
    """The backlog of a queue that has leases."""
    assert queue.backlog is not None
    return queue.backlog


def _runs(leases: list[Lease]) -> list[LeasedRun]:
    return [run for lease in leases for run in lease.runs]


def _held(leases: list[Lease]) -> tuple[int, int]:
    return sum([lease.held for lease in leases]), sum([lease.held_bytes for lease in leases])


def _number_in(text: str) -> int:
    parts = text.split("/", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdecimal() else 0

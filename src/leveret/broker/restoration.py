"""Restores the state of the previous run: definitions first, then the messages of the queues.

Nothing is delivered or recorded during this. Messages stay on disk; a lane gets the range and number of its messages.
Streams are restored in three steps:

    open_streams      opens the files in a worker, before anything else: dead letters may go to a stream at once
    restore_streams   restores the offsets
    load_streams      reads messages that were granted but not yet written from the journal, and writes them first
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from leveret.auth.users import Secret, User
from leveret.backlog.backlog import LeftLane
from leveret.broker.broker import Broker
from leveret.broker.internal_queues import PREFIX as INTERNAL
from leveret.broker.parameters import COMPONENT as GLOBAL
from leveret.broker.parameters import NO_VHOST
from leveret.broker.plugins import COMPONENT as PLUGIN
from leveret.broker.rows import POLICY_COMPONENTS, policy_facts
from leveret.broker.tracing import resume_tracing
from leveret.broker.vhost import HOME, Vhost
from leveret.broker.vhost_cells import COMPONENT as CELL
from leveret.broker.vhost_cells import follow_placement
from leveret.errors import LeveretError, PreconditionFailed, StoreError
from leveret.logs import get_log
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.queues.leader_locator import without_unknown
from leveret.queues.queue_types import make_queue
from leveret.queues.stream import StreamQueue
from leveret.routing.bindings import Binding, Destination
from leveret.store.definitions import Definitions, ParameterRow, UserRow
from leveret.store.disk import Disk
from leveret.store.pages import Loaded
from leveret.store.stream_files import SEGMENT_BYTES, StreamFiles, StreamRun, left_streams
from leveret.store.stream_log import microseconds
from leveret.wire.fields import Table, decode_table

READ_BYTES = 4 << 20


def restore_definitions(broker: Broker, rows: Definitions, default_user: str, default_password: str) -> None:
    """A row that this version cannot use (for example, an unknown exchange type) is skipped and logged."""
    for vhost in rows.vhosts:
        broker.add_vhost(vhost.name, max_queues=vhost.max_queues, max_connections=vhost.max_connections)
    for user in rows.users:
        with _skipped_if_invalid("user", user=user.name):
            restore_user(broker, user, default_password if user.name == default_user else None)
    for rule in rows.permissions:
        with _skipped_if_invalid("permission", user=rule.user, vhost=rule.vhost):
            broker.permissions.set(*rule)
    for topic in rows.topic_permissions:
        with _skipped_if_invalid("topic permission", user=topic.user, vhost=topic.vhost):
            broker.permissions.set_topic(*topic)
    for parameter in rows.parameters:  # before the queues and exchanges that they apply to
        if parameter.component == PLUGIN:
            continue
        with _skipped_if_invalid(parameter.component, vhost=parameter.vhost, name=parameter.name):
            restore_parameter(broker, parameter)
    broker.reserve_ids(rows.highest_queue)
    _restore_topology(broker, rows)
    resume_tracing(broker)
    # Plugins are last: a disabled plugin refuses new objects, but restored objects stay.
    broker.plugins.restore(row.name for row in rows.parameters if row.component == PLUGIN)


def restore_user(broker: Broker, user: UserRow, configured_password: str | None) -> None:
    secret = Secret(user.password_hash, configured_password if user.is_pending else None)
    tags = tuple(user.tags.split(",") if user.tags else ())
    fault = broker.users.restore(User(user.name, tags, user.max_connections, user.max_channels, secret))
    if fault is not None:
        get_log("broker").warning(
            "stored password hash is invalid, user cannot log in",
            user=user.name,
            cause=fault,
            remedy=f"leveret users password {user.name}",
        )


def restore_parameter(broker: Broker, row: ParameterRow) -> None:
    if row.component in POLICY_COMPONENTS.values():
        broker.policies.set(row.vhost, row.name, **policy_facts(row), is_new=False)
    elif (row.vhost, row.component) == (NO_VHOST, GLOBAL):
        broker.parameters.restore(row.name, row.value)
    elif row.component == CELL:
        follow_placement(broker, broker.vhost(row.vhost), row.value.decode())
    else:
        broker.vhost(row.vhost).parameters.put(row.component, row.name, row.value)


def _restore_topology(broker: Broker, rows: Definitions) -> None:
    for exchange in rows.exchanges:
        with _skipped_if_invalid("exchange", vhost=exchange.vhost, exchange=exchange.name):
            broker.vhost(exchange.vhost).declare_exchange(
                exchange.name,
                exchange.kind,
                durable=True,
                auto_delete=exchange.auto_delete,
                internal=exchange.internal,
                arguments=_table(exchange.arguments),
            )
    for queue in rows.queues:
        with _skipped_if_invalid("queue", vhost=queue.vhost, queue=queue.name):
            _restore_queue(broker, queue.id, queue.vhost, queue.name, queue.auto_delete, _table(queue.arguments))
    for row in rows.bindings:
        destination = Destination("queue" if row.destination_kind == "queue" else "exchange", row.destination)
        with _skipped_if_invalid("binding", vhost=row.vhost, source=row.source, destination=row.destination):
            _restore_binding(broker.vhost(row.vhost), Binding(row.source, destination, row.key, _table(row.arguments)))


def _restore_binding(vhost: Vhost, binding: Binding) -> None:
    """A binding that exceeds a limit is kept: it was accepted when it was created."""
    try:
        vhost.bounds.refuse(binding, vhost.exchange(binding.source), vhost.bindings)
    except PreconditionFailed as excess:
        get_log("broker").warning("stored binding exceeds a limit and is kept", vhost=vhost.name, reason=excess.text)
    vhost.restore_binding(binding)


@contextmanager
def _skipped_if_invalid(what: str, **which: object) -> Iterator[None]:
    """A row that this version cannot use is skipped and logged."""
    try:
        yield
    except LeveretError as problem:
        get_log("broker").error(f"{what} cannot be restored", reason=str(problem), **which)


def _restore_queue(broker: Broker, id_: int, vhost: str, name: str, auto_delete: bool, arguments: Table) -> None:
    parent = broker.vhost(vhost)
    if name.startswith(INTERNAL):
        parent.internal.restore(id_, name)
        return
    arguments = without_unknown(arguments)
    options = parent.policies.options_of(name, arguments, durable=True)
    cell = (parent.parameters.get(HOME, name) or b"").decode()
    declared = Declaration(
        id_, name, vhost, options, durable=True, auto_delete=auto_delete, arguments=arguments, home=cell
    )
    parent.enter(make_queue(declared, parent.queue_context))


def restore_messages(broker: Broker, lanes: Iterable[LeftLane]) -> int:
    """Restore the messages of classic queues; returns their number."""
    queues = {queue.id: queue for vhost in broker.vhosts.values() for queue in vhost.every_queue()}
    traces = {trace.id: trace for vhost in broker.vhosts.values() for trace in vhost.internal.traces()}
    ahead = broker.clock.wall() - broker.clock.now()
    total = 0
    for left in lanes:
        if left.queue in traces:
            traces[left.queue].restore(left.first() or left.tail, left.tail)
            continue
        queue = queues.get(left.queue)
        backlog = None if queue is None else queue.backlog
        if backlog is not None and backlog.pager is not None:
            is_internal = backlog.name.startswith(INTERNAL)
            backlog.restore_lane(left, 0 if is_internal else left.redelivered_below, ahead)
            if is_internal:
                backlog.touch()
            total += left.number()
    broker.leases.restore()
    return total


def load_seen(broker: Broker, done: Callable[[], None]) -> None:
    """Load the IDs recorded for deduplication; nothing may be published before ``done`` is called."""
    traced = [pair for vhost in broker.vhosts.values() for pair in vhost.internal.traced()]
    left = [queue for queue, _ in traced if queue.duplicates is not None]
    if not left:
        done()

    def loaded(queue: DeclaredQueue) -> None:
        left.remove(queue)
        if not left:
            done()

    for queue, trace in traced:
        if queue.duplicates is None:
            trace.forget(trace.next)  # deduplication is off now
        else:
            queue.duplicates.restore(trace, partial(loaded, queue))


def _table(data: bytes) -> Table:
    return decode_table(data, 0, len(data))[0]


def streams_of(broker: Broker) -> list[StreamQueue]:
    queues = [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]
    return [stream for queue in queues if (stream := queue.stream) is not None]


def open_streams(broker: Broker) -> None:
    """Blocks: call it in a worker. StoreError if a stream cannot be opened."""
    for queue in streams_of(broker):
        try:
            queue.files.open()
        except OSError as problem:
            raise StoreError(
                f"stream '{queue.name}' in vhost '{queue.vhost}' cannot be opened: {problem}; restore a backup, or "
                f"move the folder streams/{queue.id} of the data directory away"
            ) from problem


def remove_orphans(disk: Disk, queues: Collection[int]) -> None:
    """Blocks: call it in a worker. Remove the files of deleted streams that a crash left behind."""
    for id_ in left_streams(disk):
        if id_ not in queues:
            get_log("streams").info("removing files of a deleted stream", stream=id_)
            try:
                StreamFiles(disk, id_, SEGMENT_BYTES).remove()
            except OSError as problem:  # the files only take up space
                get_log("streams").warning(
                    "files of a deleted stream cannot be removed", stream=id_, reason=str(problem)
                )


def restore_streams(broker: Broker, lanes: Iterable[LeftLane]) -> int:
    """Restore the offsets of streams; returns the number of messages in all streams."""
    tails = {left.queue: left.tail for left in lanes}
    total = 0
    for vhost in broker.vhosts.values():
        vhost.stream_offsets.restore()
    for queue in streams_of(broker):
        queue.restore(tails.get(queue.id, 1) - 1)
        total += queue.tail - queue.first_offset
    return total


def load_streams(broker: Broker, done: Callable[[], None]) -> None:
    waiting = streams_of(broker)

    def next_one() -> None:
        if waiting:
            _Loading(waiting.pop(), next_one).start()
        else:
            done()

    next_one()


def close_streams(broker: Broker) -> None:
    """Sync and close the files; this is the last job of the worker."""
    for stream in streams_of(broker):
        stream.close()
        broker.stream_workers.write(stream.files.close, lambda result: None)


class _Loading:
    """Loads the messages of one stream that are in the journal but not in its files."""

    def __init__(self, queue: StreamQueue, done: Callable[[], None]) -> None:
        self._queue = queue
        self._stop = queue.writer.left_below + 1
        self._done = done

    def start(self) -> None:
        queue = self._queue
        there = queue.files.next  # sequences up to this are in the files
        pages = queue.context.pages
        first = None if pages is None else pages.next_sequence(queue.id, 0, 0)
        if first is not None and first <= there:
            queue.context.log.settle(queue.id, 0, first, there + 1 - first)
        self._load(there + 1)

    def _load(self, sequence: int) -> None:
        queue = self._queue
        pages = queue.context.pages
        first = None if pages is None or not queue.alive else pages.next_sequence(queue.id, 0, sequence)
        if pages is None or first is None or first >= self._stop:
            queue.writer.left_is_here()
            self._done()
            return
        pages.load(queue.id, 0, first, self._stop, READ_BYTES, lambda loaded: self._loaded(loaded, first))

    def _loaded(self, loaded: list[Loaded], first: int) -> None:
        if loaded and self._queue.alive:
            self._queue.take_left(runs_of(loaded))
        self._load(loaded[-1].sequence + 1 if loaded else first + 1)


def runs_of(loaded: list[Loaded]) -> list[StreamRun]:
    """Consecutive messages with the same address and time form a run."""
    runs: list[StreamRun] = []
    begin = 0
    for at, (sequence, message, time) in enumerate(loaded):
        following = loaded[at + 1] if at + 1 < len(loaded) else None
        if (
            following is None
            or following.sequence != sequence + 1
            or following.time != time
            or following.message[1] is not message[1]
        ):
            part = loaded[begin : at + 1]
            runs.append(StreamRun(part[0].sequence - 1, microseconds(time), tuple(each.message for each in part)))
            begin = at + 1
    return runs

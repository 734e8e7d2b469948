"""The topology that a connection has declared, as the methods it was declared with, so that it can be declared again.

A server-named queue has a *role*: the name by which the application knows it. On another connection it gets another
name; ``current`` returns it, and everything that is sent with the old name is sent with the new one.

Objects that the broker deletes by itself are forgotten too: an auto-delete queue with the last consumer that this
connection had on it, and an auto-delete exchange with its last binding. Otherwise a connection that uses a queue for
each request would remember all of them, and declare all of them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy

from leveret.errors import PreconditionFailed
from leveret.wire import methods as m
from leveret.wire.fields import Table

Binding = m.QueueBind | m.ExchangeBind
Unbinding = m.QueueUnbind | m.ExchangeUnbind
End = tuple[str, str]  # "queue" or "exchange", and its name
NamesQueue = m.QueueBind | m.QueueUnbind | m.QueuePurge | m.QueueDelete | m.BasicConsume | m.BasicGet
DEDUPLICATION: Table = {"x-message-deduplication": True, "x-deduplication-header": "message-id"}


class TopologyRecord:
    def __init__(self) -> None:
        self._exchanges: dict[str, m.ExchangeDeclare] = {}
        self._queues: dict[str, m.QueueDeclare] = {}  # by role
        self._bindings = BindingRecord()
        self._names: dict[str, str] = {}  # current names of roles, where they differ
        self._consumers: Counter[str] = Counter()  # of this connection, by role

    # ---- declarations

    def note(self, method: m.Method, reply: object) -> None:
        """The broker has replied to ``method``."""
        match method:
            case m.ExchangeDeclare(passive=False):
                self._exchanges[method.exchange] = method
            case m.QueueDeclare(passive=False):
                role = reply.queue if isinstance(reply, m.QueueDeclareOk) else method.queue
                self._queues[self._role(role)] = method
            case m.QueueBind() | m.ExchangeBind():
                self._bindings.add(method)
            case m.QueueUnbind() | m.ExchangeUnbind():
                self._lost_last_binding(self._bindings.undo(method))
            case m.QueueDelete():
                self._forget_queue(self._role(method.queue))
            case m.ExchangeDelete():
                self._forget_exchange(method.exchange)

    def _forget_queue(self, role: str) -> None:
        self._queues.pop(role, None)
        self._names.pop(role, None)
        self._consumers.pop(role, None)
        self._lost_last_binding(self._bindings.forget_queue(role))

    def _forget_exchange(self, name: str) -> None:
        self._exchanges.pop(name, None)
        self._lost_last_binding(self._bindings.forget_exchange(name))

    def _lost_last_binding(self, exchanges: Iterable[str]) -> None:
        for name in exchanges:
            declared = self._exchanges.get(name)
            if declared is not None and declared.auto_delete:
                self._forget_exchange(name)

    # ---- consumers

    def consumer_began(self, queue: str) -> None:
        self._consumers[self._role(queue)] += 1

    def consumer_ended(self, queue: str) -> None:
        """Not called after a loss of the connection: the consumer continues on the next one."""
        role = self._role(queue)
        if not self._consumers[role]:
            return
        self._consumers[role] -= 1
        if not self._consumers[role]:
            del self._consumers[role]
            declared = self._queues.get(role)
            if declared is not None and declared.auto_delete:
                self._forget_queue(role)

    def queue_gone(self, queue: str) -> None:
        """The broker cancelled a consumer, because the queue was deleted. If it was declared again since, it has no
        consumers yet."""
        role = self._role(queue)
        if self._consumers[role]:
            self._forget_queue(role)

    def kind_of(self, queue: str) -> str | None:
        """The type of a queue that was declared on this connection."""
        declared = self._queues.get(self._role(queue))
        return None if declared is None else str(declared.arguments.get("x-queue-type", "classic"))

    # ---- names

    def _role(self, name: str) -> str:
        """Applications may also know the current name, by a passive declare."""
        if name in self._queues or not self._names:
            return name
        return next((role for role, current in self._names.items() if current == name), name)

    def current(self, role: str) -> str:
        return self._names.get(role, role)

    @property
    def has_roles(self) -> bool:
        return bool(self._names)

    def named(self, role: str, name: str) -> None:
        if role != name:
            self._names[role] = name
        else:
            self._names.pop(role, None)

    def translated(self, method: m.Method) -> m.Method:
        """The method with the current name of its queue."""
        queue = getattr(method, "queue", None)
        if not self._names or queue not in self._names:
            return method
        again = copy(method)
        again.queue = self._names[queue]  # type: ignore[attr-defined]
        return again

    # ---- for the next connection

    def exchanges(self) -> list[m.ExchangeDeclare]:
        return list(self._exchanges.values())

    def queues(self) -> list[tuple[str, m.QueueDeclare]]:
        """With their roles. A server-named queue is declared without a name again."""
        return list(self._queues.items())

    def bindings(self) -> Iterator[m.Method]:
        yield from (self.translated(each) for each in self._bindings)


class BindingRecord:
    """By destination: for a client that declares, binds and deletes a queue per request, the cost must not depend on
    the number of all other bindings."""

    def __init__(self) -> None:
        self._by_end: dict[End, dict[tuple[str, str], list[Binding]]] = {}  # then by source and routing key
        self._from: Counter[str] = Counter()  # number of bindings by source

    def __iter__(self) -> Iterator[Binding]:
        return iter([each for known in self._by_end.values() for alike in known.values() for each in alike])

    def add(self, binding: Binding) -> None:
        alike = self._by_end.setdefault(_end(binding), {}).setdefault(_beginning(binding), [])
        if binding not in alike:
            alike.append(binding)
            self._from[_beginning(binding)[0]] += 1

    def undo(self, unbind: Unbinding) -> set[str]:
        """Returns the source, if this was its last binding. The following two methods return such sources too."""
        known = self._by_end.get(_end(unbind), {})
        undone = [each for each in known.get(_beginning(unbind), []) if each.arguments == unbind.arguments]
        return self._removed(undone)

    def forget_queue(self, name: str) -> set[str]:
        return self._removed(self._leading_to(("queue", name)))

    def forget_exchange(self, name: str) -> set[str]:
        self._removed([each for each in self if _beginning(each)[0] == name] if self._from[name] else [])
        return self._removed(self._leading_to(("exchange", name)))

    def _leading_to(self, end: End) -> list[Binding]:
        return [each for alike in self._by_end.get(end, {}).values() for each in alike]

    def _removed(self, bindings: list[Binding]) -> set[str]:
        bare = set()
        for binding in bindings:
            end, beginning = _end(binding), _beginning(binding)
            known = self._by_end[end]
            known[beginning].remove(binding)
            if not known[beginning]:
                del known[beginning]
            if not known:
                del self._by_end[end]
            self._from[beginning[0]] -= 1
            if not self._from[beginning[0]]:
                del self._from[beginning[0]]
                bare.add(beginning[0])
        return bare


def _end(method: Binding | Unbinding) -> End:
    if isinstance(method, m.QueueBind | m.QueueUnbind):
        return "queue", method.queue
    return "exchange", method.destination


def _beginning(method: Binding | Unbinding) -> tuple[str, str]:
    source = method.exchange if isinstance(method, m.QueueBind | m.QueueUnbind) else method.source
    return source, method.routing_key


class LastQueue:
    """In AMQP 0-9-1 an empty queue name means the queue that the channel declared last. The broker knows it for one
    connection, and only for declarations on the same channel: otherwise the client must send the name."""

    def __init__(self) -> None:
        self.name = ""

    def note(self, reply: object) -> None:
        if isinstance(reply, m.QueueDeclareOk):
            self.name = reply.queue

    def spelled_out(self, method: m.Method) -> m.Method:
        if not self.name or not isinstance(method, NamesQueue) or method.queue:
            return method
        whole = copy(method)
        whole.queue = self.name
        if isinstance(whole, m.QueueBind | m.QueueUnbind) and not whole.routing_key:
            whole.routing_key = self.name  # the rule includes the routing key
        return whole


def with_deduplication(method: m.QueueDeclare) -> m.QueueDeclare | None:
    """The declaration of the same queue, which stores each message ID once. None if the queue cannot do that, or if the
    application passed the argument."""
    kind = method.arguments.get("x-queue-type", "classic")
    if method.passive or method.exclusive or kind != "classic" or "x-message-deduplication" in method.arguments:
        return None
    changed = copy(method)
    changed.arguments = method.arguments | DEDUPLICATION
    return changed


def exists_without_deduplication(problem: PreconditionFailed) -> bool:
    return "x-message-deduplication" in problem.text

"""What a connection has declared, as the methods it was declared by, so that another broker can be given the same.

A queue whose name the broker made up has a *role*: the name by which the application knows it. On another connection it
gets another name; ``current`` says which, and everything that is sent with the old name is sent with the new one.

What the broker deletes by itself is forgotten, too: an auto-delete queue with the last consumer that this connection
had on it, and an auto-delete exchange with the last binding from it. Else a connection that has a queue for each
request would remember them all, and bring them all to life again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy

from leveret.client.binding_record import BindingRecord
from leveret.wire import methods as m


class TopologyRecord:
    def __init__(self) -> None:
        self._exchanges: dict[str, m.ExchangeDeclare] = {}
        self._queues: dict[str, m.QueueDeclare] = {}  # by role
        self._bindings = BindingRecord()
        self._names: dict[str, str] = {}  # of roles, where they differ
        self._consumers: Counter[str] = Counter()  # of this connection, by role

    # ---- what the application does

    def note(self, asked: m.Method, answer: object) -> None:
        """``asked`` was done."""
        match asked:
            case m.ExchangeDeclare(passive=False):
                self._exchanges[asked.exchange] = asked
            case m.QueueDeclare(passive=False):
                role = answer.queue if isinstance(answer, m.QueueDeclareOk) else asked.queue
                self._queues[self._role(role)] = asked
            case m.QueueBind() | m.ExchangeBind():
                self._bindings.add(asked)
            case m.QueueUnbind() | m.ExchangeUnbind():
                self._bare(self._bindings.undo(asked))
            case m.QueueDelete():
                self._forget_queue(self._role(asked.queue))
            case m.ExchangeDelete():
                self._forget_exchange(asked.exchange)

    def _forget_queue(self, role: str) -> None:
        self._queues.pop(role, None)
        self._names.pop(role, None)
        self._consumers.pop(role, None)
        self._bare(self._bindings.forget_queue(role))

    def _forget_exchange(self, name: str) -> None:
        self._exchanges.pop(name, None)
        self._bare(self._bindings.forget_exchange(name))

    def _bare(self, exchanges: Iterable[str]) -> None:
        """Nothing of ours is bound to them any more."""
        for name in exchanges:
            declared = self._exchanges.get(name)
            if declared is not None and declared.auto_delete:
                self._forget_exchange(name)

    # ---- what its consumers do

    def consumer_began(self, queue: str) -> None:
        self._consumers[self._role(queue)] += 1

    def consumer_ended(self, queue: str) -> None:
        """Not for a loss of the connection, after which it goes on."""
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
        """The broker ended a consumer of it, since it was deleted. One that was declared since has no consumers yet."""
        role = self._role(queue)
        if self._consumers[role]:
            self._forget_queue(role)

    def kind_of(self, queue: str) -> str | None:
        """The type of a queue that was declared here."""
        declared = self._queues.get(self._role(queue))
        return None if declared is None else str(declared.arguments.get("x-queue-type", "classic"))

    # ---- names

    def _role(self, name: str) -> str:
        """Applications may also know the name that counts now: a passive declare tells it."""
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
        """With the names that count now."""
        queue = getattr(method, "queue", None)
        if not self._names or queue not in self._names:
            return method
        again = copy(method)
        again.queue = self._names[queue]  # type: ignore[attr-defined]
        return again

    # ---- the next life

    def exchanges(self) -> Iterator[m.ExchangeDeclare]:
        yield from list(self._exchanges.values())

    def queues(self) -> Iterator[tuple[str, m.QueueDeclare]]:
        """With their roles; those without a name of their own are declared without one again."""
        yield from list(self._queues.items())

    def bindings(self) -> Iterator[m.Method]:
        yield from (self.translated(each) for each in self._bindings)

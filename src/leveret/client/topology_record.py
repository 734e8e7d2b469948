"""What a connection has declared, as the methods it was declared by, so that another broker can be given the same.

A queue whose name the broker made up has a *role*: the name by which the application knows it. On another connection it
gets another name; ``current`` says which, and everything that is sent with the old name is sent with the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from leveret.wire import methods as m


class TopologyRecord:
    def __init__(self) -> None:
        self._exchanges: dict[str, m.ExchangeDeclare] = {}
        self._queues: dict[str, m.QueueDeclare] = {}  # by role
        self._bindings: list[m.QueueBind | m.ExchangeBind] = []
        self._names: dict[str, str] = {}  # of roles, where they differ

    # ---- what the application does

    def note(self, asked: m.Method, answer: object) -> None:
        """``asked`` was done."""
        match asked:
            case m.ExchangeDeclare(passive=False):
                self._exchanges[asked.exchange] = asked
            case m.QueueDeclare(passive=False):
                role = answer.queue if isinstance(answer, m.QueueDeclareOk) else asked.queue
                self._queues[role] = asked
            case m.QueueBind() | m.ExchangeBind():
                if asked not in self._bindings:
                    self._bindings.append(asked)
            case m.QueueUnbind() | m.ExchangeUnbind():
                self._bindings = [each for each in self._bindings if not _undoes(asked, each)]
            case m.QueueDelete():
                self._forget_queue(asked.queue)
            case m.ExchangeDelete():
                self._exchanges.pop(asked.exchange, None)
                self._bindings = [each for each in self._bindings if asked.exchange not in _exchanges_of(each)]

    def _forget_queue(self, role: str) -> None:
        self._queues.pop(role, None)
        self._names.pop(role, None)
        self._bindings = [each for each in self._bindings if not (isinstance(each, m.QueueBind) and each.queue == role)]

    # ---- names

    def current(self, role: str) -> str:
        return self._names.get(role, role)

    @property
    def has_roles(self) -> bool:
        return bool(self._names)

    def named(self, role: str, name: str) -> None:
        if role != name:
            self._names[role] = name

    def translated(self, method: m.Method) -> m.Method:
        """With the names that count now."""
        queue = getattr(method, "queue", None)
        if not self._names or queue not in self._names:
            return method
        return replace(method, queue=self._names[queue])  # type: ignore[type-var]

    # ---- the next life

    def exchanges(self) -> Iterator[m.ExchangeDeclare]:
        yield from list(self._exchanges.values())

    def queues(self) -> Iterator[tuple[str, m.QueueDeclare]]:
        """With their roles; those without a name of their own are declared without one again."""
        yield from list(self._queues.items())

    def bindings(self) -> Iterator[m.Method]:
        yield from (self.translated(each) for each in list(self._bindings))


def _exchanges_of(binding: m.QueueBind | m.ExchangeBind) -> tuple[str, ...]:
    return (binding.exchange,) if isinstance(binding, m.QueueBind) else (binding.source, binding.destination)


def _undoes(unbind: m.QueueUnbind | m.ExchangeUnbind, binding: m.QueueBind | m.ExchangeBind) -> bool:
    alike = (unbind.routing_key, unbind.arguments) == (binding.routing_key, binding.arguments)
    if isinstance(unbind, m.QueueUnbind) and isinstance(binding, m.QueueBind):
        return alike and (unbind.queue, unbind.exchange) == (binding.queue, binding.exchange)
    if isinstance(unbind, m.ExchangeUnbind) and isinstance(binding, m.ExchangeBind):
        return alike and (unbind.source, unbind.destination) == (binding.source, binding.destination)
    return False

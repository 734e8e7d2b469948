"""The bindings that a connection has created, by destination.

A client that declares, binds and deletes a queue per request must not pay for all other bindings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from leveret.wire import methods as m

Binding = m.QueueBind | m.ExchangeBind
Unbinding = m.QueueUnbind | m.ExchangeUnbind
End = tuple[str, str]  # "queue" or "exchange", and its name


class BindingRecord:
    __slots__ = ("_by_end", "_from")

    def __init__(self) -> None:
        self._by_end: dict[End, dict[tuple[str, str], list[Binding]]] = {}  # then by source and key
        self._from: Counter[str] = Counter()  # how many begin at an exchange

    def __iter__(self) -> Iterator[Binding]:
        return iter([each for known in self._by_end.values() for alike in known.values() for each in alike])

    def add(self, binding: Binding) -> None:
        alike = self._by_end.setdefault(_end(binding), {}).setdefault(_beginning(binding), [])
        if binding not in alike:
            alike.append(binding)
            self._from[_beginning(binding)[0]] += 1

    def undo(self, unbind: Unbinding) -> set[str]:
        """The exchange at which none begins any more, if it is so now."""
        known = self._by_end.get(_end(unbind), {})
        undone = [each for each in known.get(_beginning(unbind), []) if each.arguments == unbind.arguments]
        return self._removed(undone)

    def forget_queue(self, name: str) -> set[str]:
        return self._removed(self._leading_to(("queue", name)))

    def forget_exchange(self, name: str) -> set[str]:
        """Those from it, and those to it; of the latter it is said where none begins any more."""
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

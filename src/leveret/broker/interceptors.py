"""Channel interceptors: code of plugins and applications that is called with a method before the channel handles it.

An interceptor receives the context and the decoded method and returns the method to handle: the same one, changed or
not, or another of the same class. To refuse the method it raises an AmqpError. Interceptors of one method run in the
order of registration; those registered as ``last``, such as the broker's own, run after all others and see their
changes. ``on_change`` is called at every registration, so that cached publish routes are discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leveret.wire.methods import Method


@dataclass(frozen=True, slots=True)
class InterceptContext:
    vhost: str
    user: str
    connection: str
    channel: int


Interceptor = Callable[[InterceptContext, Method], Method]


class Interceptors:
    def __init__(self, on_change: Callable[[], None]) -> None:
        self._by_method: dict[tuple[int, int], list[Interceptor]] = {}
        self._last: dict[tuple[int, int], int] = {}  # how many interceptors were registered as last
        self._on_change = on_change

    def register(self, method: type[Method], interceptor: Interceptor, *, last: bool = False) -> Callable[[], None]:
        """Call ``interceptor`` for every ``method``; the result unregisters it."""
        chain = self._by_method.setdefault(method.id, [])
        kept_back = self._last.get(method.id, 0)
        chain.insert(len(chain) if last else len(chain) - kept_back, interceptor)
        self._last[method.id] = kept_back + last
        self._on_change()

        def unregister() -> None:
            if interceptor in chain:
                chain.remove(interceptor)
                self._last[method.id] -= last
                self._on_change()

        return unregister

    def concerns(self, method_id: tuple[int, int]) -> bool:
        return bool(self._by_method.get(method_id))

    def apply(self, context: InterceptContext, method: Method) -> Method:
        for interceptor in self._by_method.get(method.id, ()):
            method = interceptor(context, method)
        return method

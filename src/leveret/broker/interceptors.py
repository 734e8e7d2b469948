"""Channel interceptors: code of plugins and users that sees a method before the channel handles it.

An interceptor is given the context and the decoded method and returns the method to go on with: the same one, changed
or not, or another of the same class. It refuses by raising an AmqpError. Interceptors of one method run in the order
they were registered; those registered as ``last``, as the broker's own are, run after all others, so they see what
users made of a method. ``on_change`` tells of every registration, so that remembered publish routes are made anew.
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
    def __init__(self) -> None:
        self._by_method: dict[tuple[int, int], list[Interceptor]] = {}
        self._last: dict[tuple[int, int], int] = {}  # how many of them are for the end
        self.on_change: Callable[[], None] = lambda: None

    def register(self, method: type[Method], interceptor: Interceptor, *, last: bool = False) -> Callable[[], None]:
        """Have ``interceptor`` see every ``method``; the result takes it out again."""
        chain = self._by_method.setdefault(method.id, [])
        kept_back = self._last.get(method.id, 0)
        chain.insert(len(chain) if last else len(chain) - kept_back, interceptor)
        self._last[method.id] = kept_back + last
        self.on_change()

        def unregister() -> None:
            if interceptor in chain:
                chain.remove(interceptor)
                self._last[method.id] -= last
                self.on_change()

        return unregister

    def concerns(self, method_id: tuple[int, int]) -> bool:
        return bool(self._by_method.get(method_id))

    def apply(self, context: InterceptContext, method: Method) -> Method:
        for interceptor in self._by_method.get(method.id, ()):
            method = interceptor(context, method)
        return method

"""Channel interceptors: code of plugins and users that sees a method before the channel handles it.

An interceptor is given the context and the decoded method and returns the method to go on with: the same one, changed
or not, or another of the same class. It refuses by raising an AmqpError. Interceptors of one method run in the order
they were registered. ``on_change`` tells of every registration, so that remembered publish routes are made anew.
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
        self.on_change: Callable[[], None] = lambda: None

    def register(self, method: type[Method], interceptor: Interceptor) -> Callable[[], None]:
        """Have ``interceptor`` see every ``method``; the result takes it out again."""
        chain = self._by_method.setdefault(method.id, [])
        chain.append(interceptor)
        self.on_change()

        def unregister() -> None:
            if interceptor in chain:
                chain.remove(interceptor)
                self.on_change()

        return unregister

    def concerns(self, method_id: tuple[int, int]) -> bool:
        return bool(self._by_method.get(method_id))

    def apply(self, context: InterceptContext, method: Method) -> Method:
        for interceptor in self._by_method.get(method.id, ()):
            method = interceptor(context, method)
        return method

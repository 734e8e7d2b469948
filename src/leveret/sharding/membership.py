"""The nodes of the cluster by name. Shards are declared for each of them, all as queues of this process."""

from __future__ import annotations

from collections.abc import Callable


class Membership:
    """Starts with the node itself, which cannot leave. ``on_change`` is called after each change."""

    def __init__(self, own: str, on_change: Callable[[], None]) -> None:
        self.own = own
        self._names: dict[str, None] = {own: None}
        self._on_change = on_change

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they joined."""
        return tuple(self._names)

    def join(self, name: str) -> None:
        """Joining twice has no effect."""
        if not name:
            raise ValueError("a node without a name cannot join: give it one")
        if name not in self._names:
            self._names[name] = None
            self._on_change()

    def leave(self, name: str) -> None:
        """Leaving twice has no effect."""
        if name == self.own:
            raise ValueError(f"node '{name}' cannot leave itself: stop it instead")
        if name in self._names:
            del self._names[name]
            self._on_change()

"""Who takes part: nodes by name. Shards are made for each of them; there is one process, so all are queues here."""

from __future__ import annotations

from collections.abc import Callable


class Membership:
    """Begins with the node itself, which cannot leave. ``on_change`` is called after each change."""

    def __init__(self, own: str, on_change: Callable[[], None]) -> None:
        self.own = own
        self._names: dict[str, None] = {own: None}
        self._on_change = on_change

    @property
    def names(self) -> tuple[str, ...]:
        """In the order in which they joined."""
        return tuple(self._names)

    def join(self, name: str) -> None:
        """A node that is there already may say so again."""
        if not name:
            raise ValueError("a node without a name cannot join: give it one")
        if name not in self._names:
            self._names[name] = None
            self._on_change()

    def leave(self, name: str) -> None:
        """Leaving twice is no error."""
        if name == self.own:
            raise ValueError(f"node '{name}' cannot leave itself: stop it instead")
        if name in self._names:
            del self._names[name]
            self._on_change()

"""What happens to the broker as a whole, for whoever wants to know: alarms, so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leveret.logs import get_log

Listener = Callable[[str, Mapping[str, object]], None]


class Events:
    """Listeners are called on the loop, in the order in which they came; one that fails harms nobody else."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._log = get_log("broker")

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """From now on; the result ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def tell(self, name: str, **facts: object) -> None:
        for listener in list(self._listeners):
            try:
                listener(name, facts)
            except Exception:  # noqa: BLE001 - a listener's bug is its own
                self._log.exception("internal error in an event listener", event_name=name)

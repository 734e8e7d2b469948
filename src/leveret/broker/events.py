"""Events of the broker as a whole, for listeners: alarms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leveret.logs import get_log

Listener = Callable[[str, Mapping[str, object]], None]


class Events:
    """Listeners are called on the event loop in the order of subscription. An error in one does not affect others."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._log = get_log("broker")

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` for every event; the result unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def tell(self, name: str, **facts: object) -> None:
        for listener in list(self._listeners):
            try:
                listener(name, facts)
            except Exception:  # noqa: BLE001 - an error in one listener must not stop the others
                self._log.exception("internal error in an event listener", event_name=name)

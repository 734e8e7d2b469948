"""How a channel consumes, as the methods that began it, so that it can be told to another connection.

They stand in their order: a basic.qos counts for the consumers behind it.
"""

from __future__ import annotations

from copy import copy

from leveret.wire import methods as m

Entry = m.BasicQos | m.BasicConsume


class ConsumerJournal:
    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def entries(self) -> list[Entry]:
        return list(self._entries)

    def note_qos(self, qos: m.BasicQos) -> None:
        """An earlier entry has no effect if no consumer was started between the two."""
        begun = max((at for at, each in enumerate(self._entries, 1) if isinstance(each, m.BasicConsume)), default=0)
        behind = [
            each for each in self._entries[begun:] if isinstance(each, m.BasicQos) and each.global_ != qos.global_
        ]
        self._entries = [*self._entries[:begun], *behind, qos]

    def note_consumer(self, consume: m.BasicConsume, tag: str) -> None:
        known = copy(consume)
        known.consumer_tag = tag  # which the broker may have made up
        self._entries.append(known)

    def forget_consumer(self, tag: str) -> m.BasicConsume | None:
        """How it began. A basic.qos that was for it alone goes, too, with the next one."""
        for at, each in enumerate(self._entries):
            if isinstance(each, m.BasicConsume) and each.consumer_tag == tag:
                del self._entries[at]
                return each
        return None

    def consumers(self) -> list[m.BasicConsume]:
        return [each for each in self._entries if isinstance(each, m.BasicConsume)]

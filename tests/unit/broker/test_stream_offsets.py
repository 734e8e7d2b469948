"""Offsets of named readers: on disk before they change in memory."""

from __future__ import annotations

import pytest

from leveret.broker.parameters import Parameters
from leveret.broker.stream_offsets import StreamOffsets
from leveret.errors import ResourceFault
from leveret.store.definitions import Change


class Disk:
    def __init__(self) -> None:
        self.is_read_only = False

    def record(self, change: Change) -> None:
        if self.is_read_only:
            raise ResourceFault("the store is read-only")


def test_an_offset_that_cannot_be_dropped_on_disk_stays() -> None:
    """Or it would be back after a restart, though nobody was refused."""
    disk = Disk()
    offsets = StreamOffsets(Parameters("/", disk.record))
    offsets.put("s", "reader", 7, True)
    disk.is_read_only = True
    with pytest.raises(ResourceFault):
        offsets.drop("s", "reader")
    assert (offsets.get("s", "reader"), offsets.pinned("s")) == (7, 7)
    disk.is_read_only = False
    assert offsets.drop("s", "reader")
    assert offsets.get("s", "reader") is None
    assert not offsets.drop("s", "reader")

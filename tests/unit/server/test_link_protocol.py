"""Heartbeats of links between cells."""

from __future__ import annotations

import asyncio

from leveret.server.link_protocol import MOST_SILENT, LinkTransport
from leveret.session.outbox import Outbox
from leveret.wire.constants import HEARTBEAT_FRAME


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.unsent = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class End(LinkTransport):
    def take(self, data: bytes) -> None: ...

    def outbox(self) -> Outbox | None:
        return None


def connected() -> tuple[End, Wire]:
    end, wire = End(lambda: None), Wire()
    end.connection_made(wire)
    return end, wire


def test_an_idle_end_sends_heartbeats() -> None:
    end, wire = connected()
    end.is_alive()
    end.write(b"frame")
    end.is_alive()
    assert wire.written == [b"frame"]
    end.is_alive()
    end.is_alive()
    assert wire.written[1:] == [HEARTBEAT_FRAME] * 2


def test_heartbeats_are_not_added_to_output_that_is_not_read() -> None:
    end, wire = connected()
    end.is_alive()
    wire.unsent = 1
    end.is_alive()
    assert not wire.written


def test_an_end_that_receives_nothing_is_lost() -> None:
    end, _ = connected()
    assert [end.is_alive() for _ in range(MOST_SILENT + 1)] == [True] * MOST_SILENT + [False]


def test_any_byte_counts_as_a_sign_of_life() -> None:
    end, _ = connected()
    for _ in range(3 * MOST_SILENT):
        end.data_received(b"\x01")
        assert end.is_alive()


def test_an_end_that_does_not_read_misses_nothing() -> None:
    """A cell that blocks publishers does not read, for as long as its alarm lasts."""
    end, _ = connected()
    end.pause_reading()
    assert all(end.is_alive() for _ in range(3 * MOST_SILENT))
    end.resume_reading()
    assert [end.is_alive() for _ in range(MOST_SILENT + 1)] == [True] * MOST_SILENT + [False]


def test_an_end_that_does_not_read_is_lost_if_the_other_one_does_not_read_either() -> None:
    end, wire = connected()
    end.pause_reading()
    for wire.unsent in range(3 * MOST_SILENT, 0, -1):
        assert end.is_alive()
    wire.unsent = 1_000
    assert [end.is_alive() for _ in range(MOST_SILENT)] == [True] * (MOST_SILENT - 1) + [False]

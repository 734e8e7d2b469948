"""Splits a byte stream, received in pieces of any size, into frames."""

from __future__ import annotations

from leveret.errors import FrameError
from leveret.wire.constants import DEFAULT_FRAME_MAX, FRAME_END, FRAME_KINDS
from leveret.wire.frames import ENVELOPE


class FrameReader:
    """Keeps at most one partial frame. ``limit`` is the negotiated frame_max, 0 for none; it may be set at any time.

    A payload as long as ``limit`` still passes: some clients forget the 8 bytes around it. After an error the reader
    cannot be used any more, since the start of the next frame is unknown.
    """

    __slots__ = ("_fault", "_pending", "limit")

    def __init__(self, limit: int = DEFAULT_FRAME_MAX) -> None:
        self.limit = limit
        self._pending = bytearray()
        self._fault: FrameError | None = None

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """The frames (kind, channel, payload) that are whole now."""
        if self._fault is not None:
            raise self._fault
        self._pending += data
        try:
            return self._whole_frames()
        except FrameError as fault:
            self._fault = fault
            self._pending.clear()
            raise

    def _whole_frames(self) -> list[tuple[int, int, bytes]]:
        pending = self._pending
        frames: list[tuple[int, int, bytes]] = []
        start = 0
        while len(pending) - start >= ENVELOPE.size:
            kind, channel, size = ENVELOPE.unpack_from(pending, start)
            if kind not in FRAME_KINDS:
                raise FrameError(f"unknown frame type {kind}")
            if self.limit and size > self.limit:  # before waiting for the rest, or a peer could fill the memory
                raise FrameError(f"frame of {size} bytes, at most {self.limit} are allowed")
            end = start + ENVELOPE.size + size
            if len(pending) <= end:
                break
            if pending[end] != FRAME_END:
                raise FrameError(f"frame ends with 0x{pending[end]:02x}, not 0xce")
            frames.append((kind, channel, bytes(pending[start + ENVELOPE.size : end])))
            start = end + 1
        if start:
            del pending[:start]
        return frames

"""The limits that a connection keeps to, taken from the settings once."""

from __future__ import annotations

from dataclasses import dataclass

UNAUTHENTICATED_BYTES = 64 << 10  # that the broker keeps of what a peer sends before it has logged in


@dataclass(frozen=True, slots=True)
class Limits:
    frame_max: int = 131072
    channel_max: int = 2047
    heartbeat: int = 60
    max_message_size: int = 16 << 20
    max_partial_bytes: int = 64 << 20  # unfinished messages of one connection
    write_high_watermark: int = 1 << 20
    loopback_users: frozenset[str] = frozenset({"guest"})

"""Limits of a connection, read from the settings at startup."""

from __future__ import annotations

from dataclasses import dataclass

UNAUTHENTICATED_BYTES = 64 << 10  # of input that is kept before the login


@dataclass(frozen=True, slots=True)
class Limits:
    frame_max: int = 131072
    channel_max: int = 2047
    heartbeat: int = 60
    max_message_size: int = 16 << 20
    max_partial_bytes: int = 64 << 20  # unfinished messages of one connection
    write_high_watermark: int = 1 << 20
    loopback_users: frozenset[str] = frozenset({"guest"})

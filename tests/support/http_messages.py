"""Messages of HTTP as a proxy between client and broker sees them."""

from __future__ import annotations

import asyncio


async def next_message(reader: asyncio.StreamReader) -> bytes:
    """One of them, whole; empty at the end. The bodies of a tunnel all have a length."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0")
    return head + await reader.readexactly(int(length))

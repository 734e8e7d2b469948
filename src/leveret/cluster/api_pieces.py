"""Bodies of requests and replies between cells: pieces, each with its size (u32, big-endian); an empty one is the end.

On a link, requests follow each other: a frame with the request, its body, then a frame with the status, and the body of
the reply.
"""

from __future__ import annotations

from leveret.cluster.link import SIZE, Link, LinkLost

LARGEST_PIECE = 1 << 20
END = b""


async def send_piece(link: Link, data: bytes) -> None:
    """Not empty; a large one is split."""
    for start in range(0, len(data), LARGEST_PIECE):
        part = data[start : start + LARGEST_PIECE]
        await link.send_bytes(SIZE.pack(len(part)) + part)


async def send_end(link: Link) -> None:
    await link.send_bytes(SIZE.pack(0))


async def receive_piece(link: Link) -> bytes:
    (size,) = SIZE.unpack(await link.receive_bytes(SIZE.size))
    if size > LARGEST_PIECE:
        raise LinkLost(f"a piece of {size} bytes: the other side is no node of Leveret")
    return await link.receive_bytes(size) if size else END

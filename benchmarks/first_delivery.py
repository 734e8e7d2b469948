"""How long until a broker delivers: the smallest consumer there can be."""

from __future__ import annotations

import socket
import time

from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.frames import method_frame
from leveret.wire.methods import BasicConsume, ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk

DELIVER = b"\x00\x3c\x00\x3c"
PATIENCE = 120.0


def seconds_to_first_delivery(port: int, queue: str) -> float:
    """From connecting to the first basic.deliver."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as peer:
        peer.sendall(PROTOCOL_HEADER)
        peer.recv(65536)  # connection.start
        peer.sendall(method_frame(0, ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")))
        peer.recv(65536)  # connection.tune
        opening = method_frame(0, ConnectionTuneOk(2047, 131072, 0)) + method_frame(0, ConnectionOpen("/"))
        peer.sendall(opening + method_frame(1, ChannelOpen()) + method_frame(1, BasicConsume(queue, no_ack=True)))
        heard = b""
        while DELIVER not in heard:
            more = peer.recv(65536)
            if not more:
                raise ConnectionError(f"no delivery from {queue}: the broker closed the connection: {heard[-200:]!r}")
            heard = heard[-3:] + more
    return time.monotonic() - begun

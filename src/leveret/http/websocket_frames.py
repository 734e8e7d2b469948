"""The server's end of a WebSocket, which limits the size of single frames.

The stream inside has no use for messages, so a client may send all of it as one. Before version 16, websockets limits
whole messages only: there the count begins anew with each frame.
"""

from __future__ import annotations

import logging

from websockets.frames import Frame
from websockets.server import ServerProtocol

_log = logging.getLogger("leveret.websocket.frames")
_log.setLevel(logging.ERROR)  # the library would log every connection, as the broker already does


class WebSocketFrames(ServerProtocol):
    cur_size: int | None  # before version 16: bytes of the message so far

    def __init__(self, most_bytes: int) -> None:
        super().__init__(max_size=None, logger=_log)
        self._limits_frames = hasattr(self, "max_fragment_size")
        self.limit(most_bytes)

    def limit(self, most_bytes: int) -> None:
        """Of each frame that is received from now on."""
        if self._limits_frames:
            self.max_fragment_size = most_bytes
        else:
            self.max_size = most_bytes

    def recv_frame(self, frame: Frame) -> None:
        super().recv_frame(frame)
        if not self._limits_frames and self.cur_size:
            self.cur_size = 0

"""What basic.get takes."""

from __future__ import annotations

from typing import NamedTuple

from leveret.message import Message


class Taken(NamedTuple):
    """One message taken by hand (basic.get); ``left`` are still ready."""

    lane: int
    sequence: int
    tries: int
    redelivered: bool
    message: Message
    left: int

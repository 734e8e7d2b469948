"""Ids for messages that have none, so that one which comes twice can be known."""

from __future__ import annotations

from copy import copy
from itertools import count
from uuid import uuid4

from leveret.wire.properties import Properties


class MessageIds:
    """Of one channel. Any thread may ask."""

    __slots__ = ("_begin", "_numbers")

    def __init__(self) -> None:
        self._begin = f"ID:{uuid4().hex}:"
        self._numbers = count(1)

    def stamped(self, properties: Properties) -> Properties:
        """With an id: the one that they have, or a new one."""
        if properties.message_id is None:
            properties = copy(properties)
            properties.message_id = self._begin + str(next(self._numbers))
        return properties

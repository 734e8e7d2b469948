"""What a peer did wrong, in the two parts of an ERROR frame: a short name and the whole story."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from leveret.errors import LeveretError

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class StompRefusal(LeveretError):
    """Ends the connection with an ERROR frame; ``more`` are further headers of it."""

    def __init__(self, message: str, detail: str, more: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(f"{message}: {detail}")
        self.message = message
        self.detail = detail
        self.more = more

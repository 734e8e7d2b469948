"""uvloop if it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None: asyncio's default event loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

"""The fastest event loop there is on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """None: that of Python."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

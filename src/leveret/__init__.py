"""Leveret: a message broker that any RabbitMQ client can use, in one ``pip install``.

import leveret

with leveret.Broker() as broker:
    print(broker.amqp_url)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.version import VERSION as __version__

if TYPE_CHECKING:
    from leveret.clock import FrozenClock
    from leveret.config import Settings
    from leveret.embedded import Broker

__all__ = ["Broker", "FrozenClock", "Settings", "__version__"]


def __getattr__(name: str) -> object:
    """The broker is imported on first use: the command line must start fast."""
    if name == "Broker":
        from leveret.embedded import Broker

        return Broker
    if name == "FrozenClock":
        from leveret.clock import FrozenClock

        return FrozenClock
    if name == "Settings":
        from leveret.config import Settings

        return Settings
    raise AttributeError(f"module 'leveret' has no attribute {name!r}")

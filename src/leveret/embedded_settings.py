"""The settings of an embedded broker: its own defaults for what the caller has not set.

A broker in a test or an application must not take the ports of a server, so it listens for AMQP on a free port only.
Without a data directory it also stops at once, and its user has a random password: loopback is open to every user of
the machine. In a data directory the user keeps the password of the first start, which a random one would not open.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leveret.config import DECLARED, Settings
from leveret.errors import ConfigError

PORTS: Mapping[str, int | None] = {"amqp_port": 0, "amqps_port": 0, "http_port": None, "https_port": None}
PASSWORD_BYTES = 18
SHUTDOWN_TIMEOUT = 0.5  # seconds for everything at the end: clients of an embedded broker often never read again


def embedded_settings(settings: Settings | None, changes: Mapping[str, Any]) -> Settings:
    """``changes`` to ``settings``, then the defaults of an embedded broker for everything that neither names. A caller
    that passes settings decides on the login itself: without a password it is that of a server."""
    _refuse_unknown(changes)
    chosen = Settings(**changes) if settings is None else replace(settings, **changes)
    given = chosen.given | changes.keys()
    defaults: dict[str, Any] = {**PORTS, "busy_wait": "off"}  # the other threads of the process need the interpreter
    if chosen.data_dir is None:
        defaults["shutdown_timeout"] = SHUTDOWN_TIMEOUT
        if settings is None:
            defaults["default_password"] = secrets.token_urlsafe(PASSWORD_BYTES)
    missing = {name: value for name, value in defaults.items() if name not in given}
    return replace(chosen, given=given | defaults.keys(), **missing)


def _refuse_unknown(changes: Mapping[str, Any]) -> None:
    known = {name for item in DECLARED for name in (item.name, item.old_name)} | {"bootstrap"}
    for name in changes.keys() - known:
        raise ConfigError(f"leveret.Broker has no setting {name!r}: docs/guide/configuration.md lists all of them")

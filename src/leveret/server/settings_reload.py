"""A reload changes the settings that are declared ``live``. Other differences are logged and need a restart.

A reload applies all live settings or, if the settings are invalid, none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from leveret.config import DECLARED, Settings
from leveret.errors import ConfigError
from leveret.logs import get_log

FIRST_START = frozenset({"default_vhost", "default_user", "default_password"})

log = get_log("reload")


@dataclass(slots=True, frozen=True)
class Reload:
    """The settings from now on, the names of those that changed, and of those that need a restart."""

    settings: Settings
    changed: tuple[str, ...]
    kept: tuple[str, ...]


class Loading:
    """Loads settings, and keeps them for the other processes of this broker."""

    def __init__(self, load: Callable[[], Settings]) -> None:
        self._load = load
        self.loaded: Settings | None = None

    def __call__(self) -> Settings:
        self.loaded = self._load()
        return self.loaded

    def applied_to(self, running: Settings) -> Settings:
        """``running`` with what may change at runtime."""
        return running if self.loaded is None else compare(running, self.loaded).settings


async def reloaded(running: Settings, load: Callable[[], Settings]) -> Settings:
    """The settings from now on. Raises ConfigError, which is logged, if those that are loaded are invalid."""
    try:
        wanted = await asyncio.get_running_loop().run_in_executor(None, load)
    except ConfigError as problem:
        log.error("settings not reloaded", reason=problem)
        raise
    reload = compare(running, wanted)
    log_reload(reload, running, wanted)
    return reload.settings


def compare(running: Settings, wanted: Settings) -> Reload:
    names = [item.name for item in DECLARED if getattr(running, item.name) != getattr(wanted, item.name)]
    live = {item.name for item in DECLARED if item.live}
    changed = tuple(name for name in names if name in live)
    kept = [name for name in names if name not in live]
    if running.bootstrap != wanted.bootstrap:
        kept.append("bootstrap")
    return Reload(replace(running, **{name: getattr(wanted, name) for name in changed}), changed, tuple(kept))


def log_reload(reload: Reload, before: Settings, wanted: Settings) -> None:
    """Log the old and new value of each setting, except secrets and bootstrap."""
    for name in reload.changed:
        log.info("setting changed", setting=name, **_values(name, before, wanted))
    for name in reload.kept:
        log.warning(
            "setting cannot change at runtime", setting=name, remedy=_remedy(name), **_values(name, before, wanted)
        )
    log.info("settings reloaded", changed=len(reload.changed), not_changed=len(reload.kept))


def _values(name: str, before: Settings, wanted: Settings) -> dict[str, str]:
    declared = next((item for item in DECLARED if item.name == name), None)
    if declared is None or declared.secret:
        return {}
    show = declared.kind.show
    return {"running": show(getattr(before, name)), "wanted": show(getattr(wanted, name))}


def _remedy(name: str) -> str:
    if name in FIRST_START:
        return "used at the first start only: change the user or virtual host itself"
    return "restart the broker"

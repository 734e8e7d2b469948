"""What a reload may change: the settings declared ``live``. What else differs waits for a restart, and is named.

A reload takes over all live settings or, when the settings as a whole cannot be used, none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from leveret.config import DECLARED, Settings
from leveret.logs import get_log

FIRST_START = frozenset({"default_vhost", "default_user", "default_password"})

log = get_log("reload")


@dataclass(slots=True, frozen=True)
class Reload:
    """What holds from now on, and the names of what changed and of what could not."""

    settings: Settings
    changed: tuple[str, ...]
    kept: tuple[str, ...]


def compare(running: Settings, wanted: Settings) -> Reload:
    names = [item.name for item in DECLARED if getattr(running, item.name) != getattr(wanted, item.name)]
    live = {item.name for item in DECLARED if item.live}
    changed = tuple(name for name in names if name in live)
    kept = [name for name in names if name not in live]
    if running.bootstrap != wanted.bootstrap:
        kept.append("bootstrap")
    return Reload(replace(running, **{name: getattr(wanted, name) for name in changed}), changed, tuple(kept))


def tell(reload: Reload, before: Settings, wanted: Settings) -> None:
    """Into the log: old and new value of each setting, except where they are secret or long."""
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
        return "it counts at the first start only: change the user or virtual host itself"
    return "restart the broker"

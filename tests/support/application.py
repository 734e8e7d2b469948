"""The application fixture of the tiers that need a broker in their process: imported by their conftest.py.

A test module chooses the broker by the mark ``broker``:

    pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock, login_failure_delay=0.2)

    settings   the settings, QUIET by default; without the mark those of `leveret.Broker()` with the login guest / guest
    fresh      a broker for each test; by default there is one for the module, if the tests leave nothing behind
    clock      makes the clock of the broker
    storage    "memory", "disk", or both, and then each test runs with each of them
    others     settings that differ
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.clock import Clock
from leveret.config import Settings
from tests.support.guest_login import GUEST_LOGIN
from tests.support.http_api import QUIET


@dataclass(frozen=True)
class Choice:
    settings: Settings = QUIET
    fresh: bool = False
    clock: Callable[[], Clock] | None = None
    storage: str | tuple[str, ...] = "memory"
    changes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, node: pytest.Item | pytest.Collector) -> Choice:
        mark = node.get_closest_marker("broker")
        if mark is None:
            return cls(GUEST_LOGIN)
        own = {name: mark.kwargs[name] for name in ("fresh", "clock", "storage") if name in mark.kwargs}
        changes = {name: value for name, value in mark.kwargs.items() if name not in own}
        return cls(*mark.args, **own, changes=changes)

    def broker(self, storage: str, folder: Path) -> leveret.Broker:
        data = {"data_dir": folder / "data"} if storage == "disk" else {}
        clock = {} if self.clock is None else {"clock": self.clock()}
        return leveret.Broker(replace(self.settings, **data, **self.changes), **clock)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    storage = Choice.of(metafunc.definition).storage
    if "broker" in metafunc.fixturenames and isinstance(storage, tuple):
        metafunc.parametrize("broker", storage, indirect=True)


@pytest.fixture(scope="module")
def module_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[leveret.Broker]:
    """The broker of the tests of a module; for fixtures of the module."""
    choice = Choice.of(request.node)
    assert not choice.fresh
    assert isinstance(choice.storage, str)
    with choice.broker(choice.storage, tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[leveret.Broker]:
    choice = Choice.of(request.node)
    if not choice.fresh:
        yield request.getfixturevalue("module_broker")
        return
    with choice.broker(getattr(request, "param", choice.storage), tmp_path) as running:
        yield running

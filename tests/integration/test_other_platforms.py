"""Leveret where the system lacks what Linux has: everything can be imported, and a broker lives. S4-77."""

from __future__ import annotations

import pytest

from tests.support.broker_process import SRC
from tests.support.limited_platform import MODULES, ran


@pytest.mark.parametrize("system", MODULES)
def test_every_module_can_be_imported(system: str) -> None:
    assert ran(system, "import", SRC).endswith("imported\n")


@pytest.mark.parametrize("system", MODULES)
def test_a_broker_keeps_messages_over_a_restart_and_tells_how_it_is(system: str) -> None:
    """By files without writev and fdatasync, without limits, /proc and Unix sockets; the command line asks it."""
    assert ran(system, "live", SRC).endswith("kept\n")

"""State of the management UI on disk: what could not be written is written later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from leveret.api.saved_state import SavedState, saved_sessions
from leveret.auth.users import Users
from leveret.clock import FrozenClock
from leveret.http.sessions import Sessions
from tests.support.stats_harness import Harness

T = TypeVar("T")


class Disk:
    """Runs what is to run in a thread; fails while the disk is broken."""

    is_broken = False

    async def __call__(self, job: Callable[[], T]) -> T:
        if self.is_broken:
            raise OSError("no space left on device")
        return job()


async def saved(state: SavedState) -> None:
    state.save_soon()
    assert state._saving is not None
    await state._saving


def test_state_that_could_not_be_written_is_written_without_a_further_change(tmp_path: Path) -> None:
    users, clock, disk = Users(), FrozenClock(), Disk()
    sessions = Sessions(clock, users)

    async def scenario() -> str:
        state = saved_sessions(Harness().broker, disk, tmp_path, sessions)
        disk.is_broken = True
        token = sessions.open(users.add("ann"))
        await saved(state)
        assert not (tmp_path / "sessions").exists()
        disk.is_broken = False
        await saved(state)
        (tmp_path / "sessions.read").write_bytes((tmp_path / "sessions").read_bytes())
        (tmp_path / "sessions").unlink()
        await saved(state)
        assert not (tmp_path / "sessions").exists()  # nothing has changed since
        return token

    token = asyncio.run(scenario())
    after = Sessions(clock, users)
    after.restore((tmp_path / "sessions.read").read_bytes())
    assert after.user_of(token) is not None

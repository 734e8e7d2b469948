"""Members of a cell that take over with a checkpoint of the leader find what a scan of the whole journal finds."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from leveret.store import reclaim, replica, replica_checkpoints
from leveret.store.checkpoint import NO_LINEAGE
from leveret.store.definitions_db import DefinitionsDb
from tests.support.replicated_cell import ReplicatedCell, live


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints of the harness have no lineage, reclaim takes small steps, and nothing has to survive a power cut."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda handle: None)
    monkeypatch.setattr(replica, "DefinitionsDb", partial(DefinitionsDb, synced=False))
    monkeypatch.setattr(replica_checkpoints, "cell_lineage", lambda cell: NO_LINEAGE)
    monkeypatch.setattr(reclaim, "SLICE", 512)


def test_take_overs_with_checkpoints_are_like_those_without(tmp_path: Path) -> None:
    uses = 0
    for seed in range(40, 50):
        cell = ReplicatedCell(tmp_path / str(seed), Random(seed))
        live(cell, 8)
        uses += cell.uses
    assert uses > 5

"""The secret and the members of a cell, in a data directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from leveret.errors import StoreError
from leveret.store.cell_file import NAME, CellFile, read_cell, remove_cell, write_cell
from leveret.store.data_dir import DataDir

CELL = CellFile("orders", "ab" * 32, [{"node": "a", "host": "h", "port": 1}])


def test_it_is_written_for_the_owner_only_also_before_the_directory_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_cell(folder, CELL)
    assert read_cell(folder) == CELL
    if os.name != "nt":
        assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600
    DataDir.open(folder).close()  # it is no foreign folder
    remove_cell(folder)
    assert read_cell(folder) is None


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"cell": 1}')
    with pytest.raises(StoreError, match=r"cell\.json cannot be read"):
        read_cell(tmp_path)

"""The file ``cell.json`` of a data directory: the secret and the members of its cell, in case the engine loses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from leveret.errors import StoreError
from leveret.store.data_dir import CELL as NAME
from leveret.store.data_dir import make_folder, replace_file, sync_folder


class CellFile(msgspec.Struct, frozen=True):
    """``secret``: hexadecimal. ``members``: as cluster/members.py has them in the engine."""

    cell: str
    secret: str
    members: list[dict[str, Any]] = []


def write_cell(folder: Path, cell: CellFile) -> None:
    """Whole or not at all; for the owner only."""
    make_folder(folder)
    replace_file(folder, NAME, msgspec.json.encode(cell) + b"\n")


def read_cell(folder: Path) -> CellFile | None:
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=CellFile)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as problem:
        raise StoreError(
            f"{folder / NAME} cannot be read ({problem}): remove it, the node will write it again"
        ) from problem


def remove_cell(folder: Path) -> None:
    (folder / NAME).unlink(missing_ok=True)
    sync_folder(folder)

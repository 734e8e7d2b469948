"""The file ``replica`` of a data directory: up to where of a replicated log it is.

The note is written after what it is about is on disk, and not with every batch. So the directory may be ahead of its
note, never behind: applying the batches behind the note again gives the same files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from leveret.errors import StoreError
from leveret.store.data_dir import REPLICA as NAME
from leveret.store.data_dir import replace_file, sync_folder
from leveret.store.writer import segment_path

VERSION = 1
FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class ReplicaNote(NamedTuple):
    """All batches of the cell's log up to ``batch`` are in the data directory, whose journal then ends at ``offset`` of
    ``segment``. ``sequence`` is the last record of the log that was read, in leader epoch ``epoch``. ``log``: the id of
    the log; notes of earlier versions have none. ``is_base``: this directory is what the log begins with, and no record
    was read yet."""

    cell: str
    sequence: int = 0
    epoch: int = 0
    batch: int = 0
    segment: int = 0
    offset: int = 0
    log: str = ""
    is_base: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether the directory has nothing of any log yet."""
        return not (self.log or self.sequence or self.is_base)


def write_note(folder: Path, note: ReplicaNote) -> None:
    """Whole or not at all, whenever the power goes."""
    replace_file(folder, NAME, msgspec.json.encode({"version": VERSION, **note._asdict()}) + b"\n")


def keep_note(folder: Path, note: ReplicaNote) -> None:
    """The same for a leader, whose writer has written what the note is about, but may not have synced it."""
    try:
        handle = os.open(folder / segment_path(note.segment), os.O_RDWR | FLAGS)
    except FileNotFoundError:
        pass  # removed since: what was in it is not needed
    else:
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    write_note(folder, note)


def read_note(folder: Path) -> ReplicaNote | None:
    """None if the directory belongs to no cell."""
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    try:
        fields = msgspec.json.decode(data, type=dict[str, bool | int | str])
        version = fields.pop("version")
        if version == VERSION:
            return msgspec.convert(fields, _Note).note()
    except (msgspec.MsgspecError, KeyError) as problem:
        raise StoreError(
            f"{folder / NAME} cannot be read ({problem}): remove the data directory, the node will copy it again"
        ) from problem
    raise StoreError(f"{folder / NAME} was written by a newer Leveret (version {version}): upgrade Leveret")


class _Note(msgspec.Struct, forbid_unknown_fields=True):
    cell: str
    sequence: int
    epoch: int
    batch: int
    segment: int
    offset: int
    log: str = ""
    is_base: bool = False

    def note(self) -> ReplicaNote:
        return ReplicaNote(**msgspec.structs.asdict(self))


def remove_note(folder: Path) -> None:
    """The directory belongs to no cell any more."""
    (folder / NAME).unlink(missing_ok=True)
    sync_folder(folder)

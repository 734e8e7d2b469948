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
from leveret.store.data_dir import sync_folder
from leveret.store.writer import segment_path

NEW_NAME = f"{NAME}.new"
VERSION = 1
FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class ReplicaNote(NamedTuple):
    """All batches of the cell's log up to ``batch`` are in the data directory, whose journal then ends at ``offset`` of
    ``segment``. ``sequence`` is the last record of the log that was read, in leader epoch ``epoch``."""

    cell: str
    sequence: int = 0
    epoch: int = 0
    batch: int = 0
    segment: int = 0
    offset: int = 0


def write_note(folder: Path, note: ReplicaNote) -> None:
    """Whole or not at all, whenever the power goes."""
    handle = os.open(folder / NEW_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | FLAGS, 0o600)
    try:
        os.write(handle, msgspec.json.encode({"version": VERSION, **note._asdict()}) + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(folder / NEW_NAME, folder / NAME)
    sync_folder(folder)


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
        fields = msgspec.json.decode(data, type=dict[str, int | str])
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

    def note(self) -> ReplicaNote:
        return ReplicaNote(self.cell, self.sequence, self.epoch, self.batch, self.segment, self.offset)

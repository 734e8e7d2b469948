"""Backups: the files of a data directory as of one moment, in a directory of their own.

Theory of operation. Sealed segments never change, they are only removed. So a snapshot is a second name (a hard link)
for each sealed segment, which costs almost nothing however large they are:

    seal        the journal begins a new segment: everything confirmed so far lies in sealed ones
    snapshot    links to them, a copy of the definitions, and the head of the new segment without any record. The writer
                does this between two batches, so that nothing is removed or defined meanwhile
    hand over   the folder is renamed to the target, or copied where the target is another file system

A member of a cell copies such a snapshot over the network (cluster/snapshot.py).

Streams are linked after the journal: messages that left the journal by then are in their files. The last segment of a
stream still grows, under both names, so it is replaced by a copy before the folder is handed over. The copy may contain
later messages, and may end in an incomplete write as after a crash; the next start truncates it.

Without a clean-shutdown record, a broker that starts on the copy marks all messages redelivered. The file ``format`` is
copied last, when everything else is complete; until then there is a file ``incomplete``, so that no broker starts on a
partial copy.

``hand_over`` and ``copy_over`` are generators: each step does a little, so that the caller can do other things between
steps. Closing one undoes what it has done.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Generator
from contextlib import suppress
from errno import EBUSY, EEXIST, EIO, ENOENT, ENOSPC, ENOTEMPTY, EXDEV
from pathlib import Path
from typing import BinaryIO, NamedTuple

from leveret.errors import StoreError
from leveret.store.data_dir import FORMAT_FILE, JOURNAL, META, make_folder
from leveret.store.inspection import INCOMPLETE, META_FILES, read_definitions
from leveret.store.records import segment_head
from leveret.store.stream_segments import FOLDER as STREAMS

SEGMENT = re.compile(r"([0-9]{10})\.seg")
SNAPSHOT = re.compile(r"backup-[0-9a-f]{32}")
EMPTY = {"lost+found"}  # what a folder may hold and still be empty: a new disk has that
SLICE = 4 << 20  # bytes copied per step
NO_USE_TO_COPY = {ENOSPC, EIO, ENOENT}  # every other failure to link may be a file system without links
OTHER_DISK = {EXDEV, EBUSY, ENOTEMPTY, EEXIST}  # of a rename: copying works; the last three are mounted folders

Step = tuple[int, int]  # bytes copied, of


class Made(NamedTuple):
    segments: int
    bytes: int
    queues: int


def snapshot_folder(path: Path, id_: str) -> Path:
    return path / f"backup-{id_}"


def remove_snapshots(path: Path) -> None:
    """Remove unfinished snapshots of previous runs."""
    for name in os.listdir(path):
        if SNAPSHOT.fullmatch(name):
            shutil.rmtree(path / name)


def refuse_target(target: Path, path: Path) -> None:
    """StoreError unless a backup of the data directory ``path`` can go there."""
    if path.resolve() in (target.resolve(), *target.resolve().parents):
        raise StoreError(f"{target} is inside the data directory {path}: choose a path outside of it")
    refuse_filled(target)


def refuse_filled(target: Path) -> None:
    if not target.parent.is_dir():
        raise StoreError(f"the directory {target.parent} for {target.name} does not exist: create it first")
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise StoreError(f"{target} exists and is not a directory: choose another path, or remove it")
    if set(os.listdir(target)) - EMPTY:
        raise StoreError(f"{target} is not empty: choose another path, or remove its contents")


# ---- the moment


def snapshot(path: Path, folder: Path, following: int, copy_definitions: Callable[[Path], None]) -> None:
    """Snapshot a directory in use, in the writer's thread; ``following`` is the segment that has just begun."""
    make_folder(folder / JOURNAL)
    for name, id_ in _segments(path / JOURNAL):
        if id_ < following:
            _link(path / JOURNAL / name, folder / JOURNAL / name)
    _write(folder / JOURNAL / f"{following:010d}.seg", segment_head(following))
    _link_streams(path, folder)
    copy_definitions(folder / META)
    _copy(path / FORMAT_FILE, folder / FORMAT_FILE)


def snapshot_at_rest(path: Path, folder: Path) -> None:
    """Snapshot a directory that is not in use. The last segment is copied: the next start may truncate it."""
    make_folder(folder / JOURNAL)
    segments = _segments(path / JOURNAL)
    for name, _ in segments[:-1]:
        _link(path / JOURNAL / name, folder / JOURNAL / name)
    _link_streams(path, folder)
    for name in (*(f"{JOURNAL}/{name}" for name, _ in segments[-1:]), *_meta_files(path), FORMAT_FILE):
        _copy(path / name, folder / name)


def _segments(journal: Path) -> list[tuple[str, int]]:
    """Names and ids, in order."""
    found = [(name, int(match[1])) for name in os.listdir(journal) if (match := SEGMENT.fullmatch(name))]
    return sorted(found, key=lambda pair: pair[1])


def _link_streams(path: Path, folder: Path) -> None:
    for name in _stream_files(path):
        make_folder((folder / name).parent)
        with suppress(FileNotFoundError):  # just removed by retention
            _link(path / name, folder / name)


def _stream_files(folder: Path) -> list[str]:
    """Segments and indexes of all streams, in order."""
    found = [*folder.glob(f"{STREAMS}/*/*.seg"), *folder.glob(f"{STREAMS}/*/*.idx")]
    return sorted(file.relative_to(folder).as_posix() for file in found)


def _part_last_segments(folder: Path) -> Generator[Step, None, None]:
    """Streams still write to their last segments: ours are copies from now on."""
    lasts = {Path(name).parent: name for name in _stream_files(folder) if name.endswith(".seg")}
    for name in lasts.values():
        copy = folder / f"{name}.copy"
        for _ in _copy_file(folder / name, copy):
            yield 0, 1
        os.replace(copy, folder / name)
        (folder / name).with_suffix(".idx").unlink(missing_ok=True)  # it may be about more than was copied


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except (OSError, NotImplementedError, AttributeError) as problem:
        if isinstance(problem, OSError) and problem.errno in NO_USE_TO_COPY:
            raise
        _copy(source, target)


# ---- the way to another node


def finish_snapshot(folder: Path) -> list[tuple[str, int]]:
    """Let nothing of a snapshot change any more. The names and sizes of its files, the format file last."""
    for _ in _part_last_segments(folder):
        pass
    return [(name, (folder / name).stat().st_size) for name in (*_files(folder), FORMAT_FILE)]


# ---- the way to the target


def hand_over(path: Path, folder: Path, target: Path) -> Generator[Step, None, Made]:
    """Turn a snapshot of ``path`` into ``target``. The folder of the snapshot is gone afterwards in any case."""
    try:
        refuse_target(target, path)
        yield from _part_last_segments(folder)
        made = _measure(folder)
        _sync_all(folder)
        yield 0, made.bytes
        try:
            os.rename(folder, target.resolve())
            _sync(target.resolve().parent)
        except OSError as problem:
            if problem.errno not in OTHER_DISK:
                raise
            yield from copy_over(folder, target)
        return made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(folder: Path) -> Made:
    segments = _segments(folder / JOURNAL)
    size = sum((folder / name).stat().st_size for name in _files(folder))
    return Made(len(segments), size, len(read_definitions(folder, folder)[0].queues))


def _files(folder: Path) -> list[str]:
    """The files of a backup, except the format file."""
    journal = [f"{JOURNAL}/{name}" for name, _ in _segments(folder / JOURNAL)]
    return [*journal, *_stream_files(folder), *_meta_files(folder)]


def _stream_folders(folder: Path) -> list[str]:
    """The folders of streams that have files, and their parent folder."""
    found = sorted({Path(name).parent.as_posix() for name in _stream_files(folder)})
    return [STREAMS, *found] if found else []


def _meta_files(folder: Path) -> list[str]:
    return [name for name in META_FILES if (folder / name).exists()]


def _sync_all(folder: Path) -> None:
    """The segments are on disk already; what SQLite made, and the names of all, may not be."""
    for name in (*_meta_files(folder), JOURNAL, *reversed(_stream_folders(folder)), "."):
        _sync(folder / name)


def copy_over(source: Path, target: Path) -> Generator[Step, None, None]:
    """Copy the files of a backup or data directory that is not in use; synced at the end. Nothing is linked."""
    refuse_filled(target)
    target = target.resolve()
    is_new = not target.exists()
    target.mkdir(0o700, exist_ok=True)
    names = _files(source)
    done, of = 0, sum((source / name).stat().st_size for name in names)
    try:
        (target / INCOMPLETE).touch(0o600)
        for name in (JOURNAL, *_stream_folders(source)):
            (target / name).mkdir(0o700)
        _sync(target)
        for name in names:
            for size in _copy_file(source / name, target / name):
                done += size
                yield done, of
        for name in (JOURNAL, *reversed(_stream_folders(source))):
            _sync(target / name)
        _sync(target)
        _copy(source / FORMAT_FILE, target / FORMAT_FILE)
        _sync(target)
        (target / INCOMPLETE).unlink()
        _sync(target)
        _sync(target.parent)
    except BaseException:
        _undo(target, is_new)
        raise


def _copy_file(source: Path, target: Path) -> Generator[int, None, None]:
    """In slices, each synced before its size is reported: one sync of everything would take long."""
    with _created(target) as copy, source.open("rb", buffering=0) as original:
        while part := original.read(SLICE):
            copy.write(part)
            copy.flush()
            os.fsync(copy.fileno())
            yield len(part)
        os.fsync(copy.fileno())


def _copy(source: Path, target: Path) -> None:
    for _ in _copy_file(source, target):
        pass


def _write(path: Path, data: bytes) -> None:
    with _created(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _created(path: Path) -> BinaryIO:
    """Readable for the owner only, as everything in a data directory."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(handle, "wb")


def _undo(target: Path, is_new: bool) -> None:
    for entry in list(os.scandir(target)):
        if entry.name not in EMPTY:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
    if is_new:
        target.rmdir()


def _sync(path: Path) -> None:
    """A file or a folder."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":
        return  # a folder cannot be opened there; NTFS journals its names
    handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

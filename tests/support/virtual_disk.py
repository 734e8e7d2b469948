"""A disk in memory (store/disk.py) that remembers every operation, and what a crash after any of them may leave.

What a crash leaves: data that was synced, wholly. Of data that was not: all, nothing, a beginning, or everything but
for some pages that read as zeros, since pages of one write reach a disk in any order. Names made or removed in a folder
that was not synced since: each of them or not. Committed definitions: wholly.

    disk = VirtualDisk()
    ...                                       # let a store work on it
    state = VirtualDisk()                     # and live through the same again
    for operation in disk.operations:
        for name, image in state.images(random):
            recover(image, image.queues(), ...)
        state.redo(operation)

A process that is killed leaves what it wrote: ``state`` itself is that. An image is a disk on which all is synced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from errno import ENOSPC
from random import Random
from typing import NamedTuple

from leveret.store.definitions import KEYS, Change, Definitions, Put, QueueRow, Row
from leveret.store.definitions_db import TABLES
from leveret.store.records import HEAD_SIZE, MARK

PAGES = (512, 4096)
SEGMENT = ".seg"


class Operation(NamedTuple):
    """``kind`` is the name of the method that did it."""

    kind: str
    path: str
    data: bytes = b""
    offset: int = 0
    size: int = 0
    changes: tuple[Change, ...] = ()
    new: str = ""


Fault = Callable[[str, str], OSError | None]  # kind of operation, path


class Inode:
    """A file without its name; the first ``synced`` bytes survive."""

    __slots__ = ("data", "synced")

    def __init__(self, data: bytes = b"", synced: int = 0) -> None:
        self.data = bytearray(data)
        self.synced = synced


class VirtualDisk:
    def __init__(self, capacity: int | None = None) -> None:
        self.operations: list[Operation] = []
        self.capacity = capacity  # bytes that fit
        self.fault: Fault = lambda kind, path: None
        self.rows: dict[tuple[type[Row], tuple[object, ...]], Row] = {}
        self.highest_queue = 0
        self._names: dict[str, Inode] = {}
        self._synced_names: dict[str, Inode] = {}
        self._handles: dict[int, str] = {}
        self._opened = 0

    # ---- the contract of a disk that can be written

    def create(self, path: str) -> int:
        if path in self._names:
            raise FileExistsError(17, "File exists", path)
        self._do(Operation("create", path))
        self._opened += 1
        self._handles[self._opened] = path
        return self._opened

    def append(self, handle: int, buffers: Sequence[bytes]) -> None:
        """What does not fit any more is refused, and what did is written: a short write."""
        path, data = self._handles[handle], b"".join(buffers)
        room = len(data) if self.capacity is None else max(self.capacity - self.used, 0)
        self._do(Operation("append", path, data[:room]))
        if room < len(data):
            raise OSError(ENOSPC, "No space left on device", path)

    def sync(self, handle: int) -> None:
        self._do(Operation("sync", self._handles[handle]))

    def close(self, handle: int) -> None:
        del self._handles[handle]

    def truncate(self, path: str, size: int) -> None:
        self._do(Operation("truncate", path, size=size))

    def erase(self, path: str, offset: int, size: int) -> None:
        self._do(Operation("erase", path, offset=offset, size=size))

    def sync_folder(self, path: str) -> None:
        self._do(Operation("sync_folder", path))

    def remove(self, path: str) -> None:
        self._do(Operation("remove", path))

    def rename(self, path: str, new: str) -> None:
        self._inode(path)
        self._do(Operation("rename", path, new=new))

    # ---- and read

    def read(self, path: str, offset: int, size: int) -> bytes:
        self._refuse("read", path)
        return bytes(self._inode(path).data[offset : offset + size])

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/"
        return sorted(path.removeprefix(prefix) for path in self._names if path.startswith(prefix))

    def folders(self, folder: str) -> list[str]:
        return sorted({name.partition("/")[0] for name in self.names(folder) if "/" in name})

    # ---- the definitions (store/writer.py: Committing)

    def apply(self, changes: Sequence[Change]) -> None:
        self._do(Operation("apply", "meta.db", changes=tuple(changes)))

    def definitions(self) -> Definitions:
        rows = {table: [row for row in self.rows.values() if type(row) is kind] for kind, table in TABLES.items()}
        return Definitions(**rows, highest_queue=self.highest_queue)  # type: ignore[arg-type]

    def queues(self) -> set[int]:
        """Ids of the queues that the definitions know."""
        return {row.id for row in self.rows.values() if isinstance(row, QueueRow)}

    # ---- operations

    def _do(self, operation: Operation) -> None:
        self._refuse(operation.kind, operation.path)
        self.redo(operation)
        self.operations.append(operation)

    def _refuse(self, kind: str, path: str) -> None:
        problem = self.fault(kind, path)
        if problem is not None:
            raise problem

    def redo(self, operation: Operation) -> None:
        """The same as was done elsewhere, without remembering it."""
        kind, path, data, offset, size, changes, new = operation
        if kind == "create":
            self._names[path] = Inode()
        elif kind == "append":
            self._inode(path).data += data
        elif kind == "sync":
            inode = self._inode(path)
            inode.synced = len(inode.data)
        elif kind in ("truncate", "erase"):
            self._change(self._inode(path), kind, offset, size)
        elif kind == "sync_folder":
            self._sync_names(f"{path}/")
        elif kind == "remove":
            self._names.pop(path, None)
        elif kind == "rename":
            self._names[new] = self._names.pop(path)
        else:
            for change in changes:
                self._apply(change)

    def _change(self, inode: Inode, kind: str, offset: int, size: int) -> None:
        if kind == "truncate":
            del inode.data[size:]
            inode.data += bytes(size - len(inode.data))
        else:
            inode.data[offset : offset + size] = bytes(size)
        inode.synced = len(inode.data)

    def _sync_names(self, prefix: str) -> None:
        kept = {path: inode for path, inode in self._synced_names.items() if not path.startswith(prefix)}
        self._synced_names = kept | {path: inode for path, inode in self._names.items() if path.startswith(prefix)}

    def _apply(self, change: Change) -> None:
        if isinstance(change, Put):
            row = change.row
            kind = type(row)
            self.rows[kind, tuple(getattr(row, name) for name in KEYS[kind])] = row
            if isinstance(row, QueueRow):
                self.highest_queue = max(self.highest_queue, row.id)
        else:
            self.rows.pop((change.kind, change.key), None)

    def _inode(self, path: str) -> Inode:
        if path not in self._names:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self._names[path]

    # ---- what tests ask and do

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return sum(len(inode.data) for inode in self._names.values())

    def put(self, path: str, data: bytes) -> None:
        """Put a file there: damaged, or from another program."""
        self._names[path] = self._synced_names[path] = Inode(data, len(data))

    def content(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    def files(self) -> dict[str, bytes]:
        return {path: bytes(inode.data) for path, inode in self._names.items()}

    def copy(self) -> VirtualDisk:
        """As it reads now, with all of it synced: what a killed process leaves if the machine goes on."""
        return self._image({path: inode.data for path, inode in self._names.items()})

    def fork(self) -> VirtualDisk:
        """The same, with what is synced and what is not: as the next process on the same machine finds it."""
        made = self._image({})
        inodes = {*self._names.values(), *self._synced_names.values()}
        copies = {inode: Inode(inode.data, inode.synced) for inode in inodes}
        made._names = {path: copies[inode] for path, inode in self._names.items()}
        made._synced_names = {path: copies[inode] for path, inode in self._synced_names.items()}
        return made

    def _image(self, files: dict[str, bytearray] | dict[str, bytes]) -> VirtualDisk:
        image = VirtualDisk()
        for path, data in files.items():
            image.put(path, bytes(data))
        image.rows = dict(self.rows)
        image.highest_queue = self.highest_queue
        return image

    # ---- crashes

    def images(self, random: Random, most: int = 1 << 30) -> Iterator[tuple[str, VirtualDisk]]:
        """Disks that a power cut may leave now, the two extremes first; ``most`` of the others, chosen by chance."""
        written = {path: inode.data for path, inode in self._names.items()}
        yield "everything", self._image(written)
        if not self._is_pending():
            return
        synced = {path: inode.data[: inode.synced] for path, inode in self._synced_names.items()}
        yield "only what was synced", self._image(synced)
        others = [*self._other_names(written, synced), *self._other_data(written, random)]
        if len(others) > most:
            others = random.sample(others, most)
        for name, files in others:
            yield name, self._image(files)

    def _is_pending(self) -> bool:
        """Whether a crash leaves something to chance; the reserve and the like hold nothing worth it."""
        return self._pending_names() != [] or any(True for _ in self._unsynced())

    def _pending_names(self) -> list[str]:
        paths = sorted(path for path in self._names.keys() | self._synced_names.keys() if path.endswith(SEGMENT))
        return [path for path in paths if self._names.get(path) is not self._synced_names.get(path)]

    def _unsynced(self) -> Iterator[tuple[str, Inode]]:
        for path, inode in self._names.items():
            if inode.synced < len(inode.data) and path.endswith(SEGMENT):
                yield path, inode

    def _other_names(
        self, written: dict[str, bytearray], synced: dict[str, bytearray]
    ) -> Iterator[tuple[str, dict[str, bytearray]]]:
        """Each name that is not decided is there or not, whatever becomes of the others."""
        pending = self._pending_names()
        for late in pending:
            files = {path: data for path, data in written.items() if path != late}
            if late in synced:
                files[late] = synced[late]
            yield f"{late} as it was", files
            if len(pending) > 1:
                files = {path: data for path, data in written.items() if path not in pending}
                files |= {path: synced[path] for path in pending if path != late and path in synced}
                if late in written:
                    files[late] = written[late]
                yield f"only {late} as it is", files

    def _other_data(self, written: dict[str, bytearray], random: Random) -> Iterator[tuple[str, dict[str, bytes]]]:
        for path, inode in self._unsynced():
            for name, data in torn(bytes(inode.data), inode.synced, random):
                yield f"{path} {name}", {**written, path: data}  # type: ignore[dict-item]


def torn(data: bytes, synced: int, random: Random) -> Iterator[tuple[str, bytes]]:
    """What may be left of data of which the first ``synced`` bytes are certain."""
    end = len(data)
    cuts = {synced, synced + 1, synced + HEAD_SIZE // 2, (synced + end) // 2, end - 1}
    for mark in random.sample(starts := _marks(data, synced), min(len(starts), 4)):
        cuts |= {mark, mark + HEAD_SIZE // 2, mark + HEAD_SIZE, mark + HEAD_SIZE + 9}
    for cut in sorted(cuts):
        if synced <= cut < end:
            yield f"cut at {cut}", data[:cut]
    yield "long enough, of zeros", data[:synced] + bytes(end - synced)
    for page in PAGES:
        places = range(synced // page * page, end, page)
        for place in random.sample(places, min(len(places), 6)):
            first, last = max(place, synced), min(place + page, end)
            yield f"with a page of zeros from {first} to {last}", data[:first] + bytes(last - first) + data[last:]
            cut = random.randint(last, end)
            if cut < end:
                holed = data[:first] + bytes(last - first) + data[last:cut]
                yield f"with a page of zeros from {first} to {last}, cut at {cut}", holed


def _marks(data: bytes, start: int) -> list[int]:
    found = []
    while (start := data.find(MARK, start)) >= 0:
        found.append(start)
        start += 1
    return found

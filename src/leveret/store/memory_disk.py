"""A disk (store/disk.py) in memory, for a broker without a data directory. Nothing is synced, all of it is lost."""

from __future__ import annotations

from collections.abc import Sequence


class MemoryDisk:
    """May be read by several threads while one writes."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._handles: dict[int, bytearray] = {}
        self._opened = 0

    def create(self, path: str) -> int:
        if path in self._files:
            raise FileExistsError(17, "File exists", path)
        data = self._files[path] = bytearray()
        self._opened += 1
        self._handles[self._opened] = data
        return self._opened

    def append(self, handle: int, buffers: Sequence[bytes]) -> None:
        data = self._handles[handle]
        for buffer in buffers:
            data += buffer

    def sync(self, handle: int) -> None:
        pass

    def close(self, handle: int) -> None:
        del self._handles[handle]

    def truncate(self, path: str, size: int) -> None:
        data = self._file(path)
        del data[size:]
        data += bytes(size - len(data))

    def erase(self, path: str, offset: int, size: int) -> None:
        self._file(path)[offset : offset + size] = bytes(size)

    def sync_folder(self, path: str) -> None:
        pass

    def remove(self, path: str) -> None:
        """A folder is there as long as it has files."""
        self._files.pop(path, None)

    def rename(self, path: str, new: str) -> None:
        self._files[new] = self._file(path)
        del self._files[path]

    def read(self, path: str, offset: int, size: int) -> bytes:
        return bytes(self._file(path)[offset : offset + size])

    def size(self, path: str) -> int:
        return len(self._file(path))

    def names(self, folder: str) -> list[str]:
        return sorted(rest for rest in self._below(folder) if "/" not in rest)

    def folders(self, folder: str) -> list[str]:
        return sorted({rest.partition("/")[0] for rest in self._below(folder) if "/" in rest})

    def _below(self, folder: str) -> list[str]:
        prefix = f"{folder}/"
        return [path.removeprefix(prefix) for path in list(self._files) if path.startswith(prefix)]

    def _file(self, path: str) -> bytearray:
        data = self._files.get(path)
        if data is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        return data

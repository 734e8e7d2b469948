"""A small file of the data directory that is replaced as a whole: state that a restart may keep, but can do without."""

from __future__ import annotations

from pathlib import Path

from leveret.store.data_dir import replace_file


class StateFile:
    def __init__(self, folder: Path, name: str, largest: int) -> None:
        """``largest``: bytes that are read; a larger file is not ours."""
        self.path = folder / name
        self._largest = largest

    def read(self) -> bytes | None:
        """None if there is none. Raises OSError, and ValueError for a file that is too large."""
        try:
            with self.path.open("rb") as file:
                data = file.read(self._largest + 1)
        except FileNotFoundError:
            return None
        if len(data) > self._largest:
            raise ValueError(f"larger than {self._largest} bytes")
        return data

    def write(self, data: bytes) -> None:
        """Whole or not at all; only the user of the broker has access."""
        replace_file(self.path.parent, self.path.name, data)

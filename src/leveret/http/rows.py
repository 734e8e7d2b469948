"""Descriptions of the rows of a list: one field per column, from which lists are sorted, paged, cached and documented.

A column can be read without the rest of the row, to sort ten thousand objects or to return two columns of each. For
resources with few objects one field has all columns. Rows can be cached: clients that refresh a list every few seconds
mostly get the same rows again. A cached row is valid while the ``depends_on`` values of all fields are unchanged;
volatile fields, such as the age of a message, are read for each response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from leveret.http.responses import encoded

Row = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

FORGET_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A column, or several that are read together: then ``read`` returns them by name, and may leave some out.

    ``depends_on``: a cheap value that changes whenever the columns may have changed; without it they never change.
    Fields that share the function share its call. ``volatile``: whether the column, one only, can change while no
    ``depends_on`` value does. ``read_to_sort``: a cheaper ``read`` for sorting.
    """

    columns: tuple[str, ...]
    read: Callable[[T], Any]
    depends_on: Callable[[T], object] | None = None
    volatile: Callable[[T], bool] | None = None
    read_to_sort: Callable[[T], Any] | None = None


class RowDescription(Generic[T]):
    """The fields of one kind of object; ``exists``: False for an object that was deleted while the list is made."""

    def __init__(self, fields: Sequence[Field[T]], exists: Callable[[T], bool] = lambda thing: True) -> None:
        self.fields = fields
        self.exists = exists
        self._readers = self._readers_of(fields)
        self._stable_readers = self._readers_of([field for field in fields if field.volatile is None])
        self._of_column = {column: field for field in fields for column in field.columns}
        self._volatile = [field for field in fields if field.volatile is not None]
        self.depends_on = [*{field.depends_on: None for field in fields if field.depends_on is not None}]

    @staticmethod
    def _readers_of(fields: Sequence[Field[T]]) -> list[tuple[str | None, Callable[[T], Any]]]:
        """The column and the function of each field; None for several columns."""
        return [(field.columns[0] if len(field.columns) == 1 else None, field.read) for field in fields]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._of_column)

    def only(self, columns: Collection[str]) -> RowDescription[T]:
        """The fields with these columns."""
        chosen = [field for field in self.fields if not columns or not set(columns).isdisjoint(field.columns)]
        return RowDescription(chosen, self.exists)

    def row(self, thing: T) -> Row:
        return self._read(self._readers, thing)

    @staticmethod
    def _read(readers: Sequence[tuple[str | None, Callable[[T], Any]]], thing: T) -> Row:
        row: Row = {}
        for column, read in readers:
            if column is None:
                row.update(read(thing))
            else:
                row[column] = read(thing)
        return row

    def reader_of(self, column: str) -> Callable[[T], Any]:
        """Reads the value of a column to sort by; always None if there is no such column."""
        field = self._of_column.get(column)
        if field is None:
            return lambda thing: None
        read = field.read_to_sort or field.read
        return read if len(field.columns) == 1 else lambda thing: read(thing).get(column)

    def is_volatile(self, thing: T) -> bool:
        return any(field.volatile(thing) for field in self._volatile if field.volatile is not None)

    def encoded(self, thing: T) -> bytes:
        return encoded(self.row(thing))

    def encoded_stable(self, thing: T) -> bytes:
        """The row as JSON without volatile fields and closing brace."""
        return encoded(self._read(self._stable_readers, thing))[:-1]

    def encoded_with(self, stable: bytes, thing: T) -> bytes:
        """The row as JSON: ``encoded_stable``, and the current volatile fields."""
        row = {field.columns[0]: field.read(thing) for field in self._volatile}
        return stable + b"," + encoded(row)[1:]


class WholeRows(RowDescription[T]):
    """For few objects: a row is always read as a whole. ``columns`` only documents them, and may be incomplete."""

    def __init__(self, columns: Sequence[str], read: Callable[[T], Row]) -> None:
        super().__init__([Field((column,), self.reader_of(column)) for column in columns])
        self._whole = read

    def only(self, columns: Collection[str]) -> RowDescription[T]:
        return self

    def row(self, thing: T) -> Row:
        return self._whole(thing)

    def reader_of(self, column: str) -> Callable[[T], Any]:
        return lambda thing: self._whole(thing).get(column)


def made_rows(*columns: str) -> WholeRows[Row]:
    """For objects that are already rows."""
    return WholeRows(columns, lambda row: row)


class RowCache(Generic[K]):
    """Encoded rows by object. Discarded a minute after the last list."""

    def __init__(self, is_live: Callable[[K], bool]) -> None:
        self._is_live = is_live
        self._rows: dict[K, tuple[list[object], bytes, bool]] = {}  # state, JSON, whether volatile fields are missing
        self._discarding: asyncio.TimerHandle | None = None

    def begin_list(self) -> None:
        if self._discarding is not None:
            self._discarding.cancel()
        self._rows = {key: row for key, row in self._rows.items() if self._is_live(key)}
        self._discarding = asyncio.get_running_loop().call_later(FORGET_SECONDS, self._discard)

    def encoded(self, key: K, description: RowDescription[T], thing: T) -> bytes:
        state = [depends_on(thing) for depends_on in description.depends_on]
        known = self._rows.get(key)
        if known is None or known[0] != state:
            is_volatile = description.is_volatile(thing)
            row = description.encoded_stable(thing) if is_volatile else description.encoded(thing)
            known = self._rows[key] = (state, row, is_volatile)
        return description.encoded_with(known[1], thing) if known[2] else known[1]

    def _discard(self) -> None:
        self._rows = {}

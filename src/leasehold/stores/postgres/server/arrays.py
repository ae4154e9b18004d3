"""Lists as binary arrays, packed column by column.

An exchange sends about fifty cells for each job, in columns. psycopg dumps a list cell by cell, in
Python, and that was most of a write's cost to its process: these dumpers pack a column at once.
"""

from __future__ import annotations

import struct
from itertools import chain, repeat
from typing import Any, Final

from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.array import ListBinaryDumper

from leasehold.stores.postgres.schema.texts import sendable

_HEAD: Final = struct.Struct("!iiiii").pack
_LENGTH: Final = struct.Struct("!i").pack
_BIGINT: Final = struct.Struct("!iq").pack
_EMPTY_BIGINT: Final = _BIGINT(8, 0)
_NULL: Final = _LENGTH(-1)
FEW: Final = 30
"""Up to this many numbers are packed one by one: packing many at once has some overhead."""
_FIRST: Final = 1
"""The server's arrays begin at 1."""


def _head(size: int, element: int, *, has_nulls: bool = False) -> bytes:
    return _HEAD(1, has_nulls, element, size, _FIRST)


class _BigInts(Dumper):
    format = Format.BINARY
    oid = 1016
    _element = 20

    def dump(self, obj: list[int | None]) -> bytes:
        size = len(obj)
        try:
            if size <= FEW:
                cells = b"".join(map(_BIGINT, repeat(8), obj))
                return _head(size, self._element) + cells
            numbers = struct.pack(f"!{size}q", *obj)
        except struct.error:
            if None not in obj:
                raise
            parts = (_NULL if each is None else _BIGINT(8, each) for each in obj)
            return _head(size, self._element, has_nulls=True) + b"".join(parts)
        # Each number is preceded by its length. Copying to every twelfth byte is one step.
        spread = bytearray(_EMPTY_BIGINT * size)
        for byte in range(8):
            spread[4 + byte :: 12] = numbers[byte::8]
        return _head(size, self._element) + spread


class _Bytes(Dumper):
    format = Format.BINARY
    oid = 1001
    _element = 17

    def dump(self, obj: list[Any]) -> bytes:
        size, first = len(obj), obj[0]
        if first is not None and obj.count(first) == size:
            # The same in all rows, like the name of the worker.
            (cell,) = self._encoded([first])
            return _head(size, self._element) + (_LENGTH(len(cell)) + cell) * size
        if None not in obj:
            cells = self._encoded(obj)
            lengths = set(map(len, cells))
            if len(lengths) == 1:  # Like ids and the places of rows.
                length = _LENGTH(lengths.pop())
                return _head(size, self._element) + length + length.join(cells)
            each_length = map(_LENGTH, map(len, cells))
            joined = b"".join(chain.from_iterable(zip(each_length, cells, strict=True)))
            return _head(size, self._element) + joined
        there = iter(self._encoded([each for each in obj if each is not None]))
        parts = []
        for each in obj:
            if each is None:
                parts.append(_NULL)
            else:
                cell = next(there)
                parts += _LENGTH(len(cell)), cell
        return _head(size, self._element, has_nulls=True) + b"".join(parts)

    def _encoded(self, obj: list[Any]) -> list[bytes]:
        return obj


class _Texts(_Bytes):
    format = Format.BINARY
    oid = 1009
    _element = 25

    def _encoded(self, obj: list[Any]) -> list[bytes]:
        return [sendable(each).encode() if "\x00" in each else each.encode() for each in obj]


class RowPlaces(list[bytes]):
    """Where rows are in their table (`ctid`), as they were read."""


class RowPlacesDumper(_Bytes):
    """Row places are sent back as they came."""

    format = Format.BINARY
    oid = 1010
    _element = 27


class _Nulls(Dumper):
    """The statement determines the type of an empty list; only text leaves it open."""

    format = Format.TEXT

    def dump(self, obj: list[Any]) -> bytes:
        return b"{%b}" % b",".join([b"NULL"] * len(obj))


_DUMPERS: Final[dict[type, type[Dumper]]] = {
    int: _BigInts,
    str: _Texts,
    bytes: _Bytes,
    type(None): _Nulls,
}


class ColumnDumper(ListBinaryDumper):
    """Chooses by the first element that is not None; rare types are left to psycopg."""

    def get_key(self, obj: list[Any], format: Any) -> Any:  # noqa: A002  # psycopg's own names
        kind = _kind_of(obj)
        return (self.cls, kind) if kind in _DUMPERS else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: Any) -> Dumper:  # type: ignore[override]  # noqa: A002  # psycopg asks for no more
        dumper = _DUMPERS.get(_kind_of(obj))
        return super().upgrade(obj, format) if dumper is None else dumper(self.cls, self._tx)


def _kind_of(obj: list[Any]) -> type:
    for each in obj:
        if each is not None:
            kind = type(each)
            # Enum members are numbers to the server.
            return int if issubclass(kind, int) and kind is not bool else kind
    return type(None)

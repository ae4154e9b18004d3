"""Where rows become values: each column is what it should be, or the row cannot be read.

SQLite keeps whatever it is given, so a column may hold another type than it should, text that is no
UTF-8 (which cannot even be fetched), a number without bounds, or a document of a newer version.
Reading that must not go wrong asks for `guarded` columns, which can always be fetched, and turns
each into its value with `value_of`, or learns what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final

import msgspec

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.status import TERMINAL, Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.stores.tables.statements import Dialect, Kind, Query, SqlConnection

SQLITE: Final = Dialect(
    "IN (SELECT value FROM json_each({}))",
    lambda values: msgspec.json.encode(values).decode(),
    "x''",
)
WHOLE_MAX: Final = 1 << 53
"""No number, version or count of ours comes near it."""


_TYPES: Final = {
    Kind.WHOLE: "'integer'",
    Kind.WHOLE_OR_NULL: "'integer', 'null'",
    Kind.MOMENT: "'integer'",
    Kind.MOMENT_OR_NULL: "'integer', 'null'",
    Kind.SECONDS_OR_NULL: "'integer', 'real', 'null'",
    Kind.TEXT: "'text'",
    Kind.TEXT_OR_NULL: "'text', 'null'",
    Kind.BYTES: "'blob'",
    Kind.BYTES_OR_NULL: "'blob', 'null'",
}
_NULL: Final = type(None)
PYTHON_TYPES: Final[dict[Kind, frozenset[type]]] = {
    Kind.WHOLE: frozenset({int}),
    Kind.WHOLE_OR_NULL: frozenset({int, _NULL}),
    Kind.MOMENT: frozenset({int}),
    Kind.MOMENT_OR_NULL: frozenset({int, _NULL}),
    Kind.SECONDS_OR_NULL: frozenset({int, float, _NULL}),
    Kind.TEXT: frozenset({str}),
    Kind.TEXT_OR_NULL: frozenset({str, _NULL}),
    Kind.BYTES: frozenset({bytes}),
    Kind.BYTES_OR_NULL: frozenset({bytes, _NULL}),
}
"""As what each kind is fetched, if it is not guarded."""
# Every cell is looked for in these, and an enum's hash is slow: so they are no sets.
_TEXTS: Final = (Kind.TEXT, Kind.TEXT_OR_NULL)
_WHOLES: Final = (Kind.WHOLE, Kind.WHOLE_OR_NULL)
_MOMENTS: Final = (Kind.MOMENT, Kind.MOMENT_OR_NULL)
_WRONG: Final = "'of another type: ' || typeof({0})"


def guarded(expression: str, kind: Kind) -> str:
    """An expression that can be fetched whatever it holds; `value_of` makes its value of it."""
    fetched = f"CAST({expression} AS BLOB)" if kind in _TEXTS else expression
    return f"iif(typeof({expression}) IN ({_TYPES[kind]}), {fetched}, {_WRONG.format(expression)})"


def whole(column: str, greatest: int = WHOLE_MAX) -> str:
    """A column that is to hold a whole number from 0 on; 0 if it does not."""
    return f"iif(typeof({column}) = 'integer' AND {column} BETWEEN 0 AND {greatest}, {column}, 0)"


def value_of(name: str, kind: Kind, value: Any) -> Any:
    """The value of a guarded column; raises ValueError if it is not what it should be."""
    if isinstance(value, str):
        raise ValueError(f"{name} is {value}")  # noqa: TRY004  # one error for every damage
    if value is None:
        return None
    if kind in _TEXTS:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{name} is no UTF-8") from None
    if kind in _MOMENTS and not 0 <= value <= MOMENT_MAX:
        raise ValueError(f"{name} is no moment: {value}")
    if kind in _WHOLES and not 0 <= value <= WHOLE_MAX:
        raise ValueError(f"{name} is {value}")
    if kind is Kind.SECONDS_OR_NULL:
        seconds_of(name, value)
    return value


def seconds_of(name: str, value: float) -> float:
    """A time span of a job; raises ValueError if no job could have been submitted with it."""
    # The comparison also refuses NaN, which is neither above nor below anything.
    if not 0 < value <= SECONDS_MAX:
        raise ValueError(f"{name} is {value}")
    return value


_INSTEAD: Final = {Kind.WHOLE: 0, Kind.MOMENT: 0, Kind.TEXT: "", Kind.BYTES: b""}


class LenientReader:
    """Rows can always be read: what is not as it should be is left out.

    For what people look at; a text that is no UTF-8 is shown with replacement characters.
    """

    def __init__(self, db: SqlConnection) -> None:
        self.db = db

    def rows(self, query: Query, *values: Any) -> Iterator[tuple[Any, ...]]:
        kinds = tuple(query.columns.values())
        fetched: Any = self.db.execute(lenient(query), values)
        for row in fetched:
            yield tuple(map(_leniently, kinds, row))

    def sound_rows(self, query: Query, *values: Any) -> Iterator[tuple[Any, ...]]:
        kinds = tuple(query.columns.items())
        for row in self.db.execute(lenient(query), values).fetchall():
            with suppress(ValueError):
                yield tuple(
                    value_of(name, kind, value)
                    for (name, kind), value in zip(kinds, row, strict=True)
                )


@cache
def lenient(query: Query) -> str:
    """The statement of a query whose columns can be fetched whatever they hold."""
    asked = ", ".join(guarded(column, kind) for column, kind in query.columns.items())
    return f"SELECT {asked} {query.rest}"  # our own names


def _leniently(kind: Kind, value: Any) -> Any:
    if kind in _TEXTS and isinstance(value, bytes):
        return value.decode(errors="replace")
    try:
        return value_of("", kind, value)
    except ValueError:
        return _INSTEAD.get(kind)


ENDED_STATUS: Final = f"""
    iif(finished.status IN ({", ".join(str(STATUS_CODE[each]) for each in sorted(TERMINAL))}),
        finished.status, {STATUS_CODE[Status.DEAD]})
"""
"""How a job has ended. One whose row does not say so has ended, and counts as a dead letter."""

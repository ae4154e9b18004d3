"""Converting rows to values: each column is valid, or the row cannot be read.

SQLite stores whatever it is given, so a column may hold the wrong type, text that is not UTF-8
(which cannot even be fetched), an unbounded number, or a document of a newer version. Reads that
must not fail select `guarded` columns, which can always be fetched, and convert each with
`value_of`, which returns the value or raises an error that says what is wrong.

`job_of` makes nearly every snapshot of a job's row (`tables.job_row`), and raises one of UNREADABLE
for a bad row. `job_carefully` reads such a row too: it returns what can be read, and an error that
says what cannot. `problems` only says the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

import apsw
import msgspec

from leasehold.core.model.codes import POLICY_OF, STATUS_CODE, STATUS_OF
from leasehold.core.model.job import Job
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.outcome import JobError
from leasehold.core.model.status import TERMINAL, Status
from leasehold.core.model.stored import MOMENT_MAX, UNREADABLE, metadata_of, problem_of, retry_of
from leasehold.core.model.unreadable import ERROR_TYPE, set_aside_reason
from leasehold.stores.tables.job_row import COLUMNS, FROM, JobColumn, JobRow, snapshot
from leasehold.stores.tables.statements import Dialect, Kind, Query, SqlConnection

SQLITE: Final = Dialect(
    "IN (SELECT value FROM json_each({}))",
    lambda values: msgspec.json.encode(values).decode(),
    "x''",
)
WHOLE_MAX: Final = 1 << 53
"""No number, version or count of Leasehold comes near it."""


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
"""The Python type of each kind when it is fetched unguarded."""
# Every cell is looked up in these, and an enum's hash is slow, so they are not sets.
_TEXTS: Final = (Kind.TEXT, Kind.TEXT_OR_NULL)
_WHOLES: Final = (Kind.WHOLE, Kind.WHOLE_OR_NULL)
_MOMENTS: Final = (Kind.MOMENT, Kind.MOMENT_OR_NULL)
_WRONG: Final = "'of another type: ' || typeof({0})"


def guarded(expression: str, kind: Kind) -> str:
    """An expression that can be fetched whatever the cell holds; `value_of` converts it."""
    fetched = f"CAST({expression} AS BLOB)" if kind in _TEXTS else expression
    return f"iif(typeof({expression}) IN ({_TYPES[kind]}), {fetched}, {_WRONG.format(expression)})"


def whole(column: str, greatest: int = WHOLE_MAX) -> str:
    """A column that should hold a non-negative integer; 0 if it does not."""
    return f"iif(typeof({column}) = 'integer' AND {column} BETWEEN 0 AND {greatest}, {column}, 0)"


def value_of(name: str, kind: Kind, value: Any) -> Any:
    """The value of a guarded column; raises ValueError if it is not valid."""
    if isinstance(value, str):
        raise ValueError(f"{name} is {value}")  # noqa: TRY004  # one error for every damage
    if value is None:
        return None
    if kind in _TEXTS:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{name} is not UTF-8") from None
    if kind in _MOMENTS and not 0 <= value <= MOMENT_MAX:
        raise ValueError(f"{name} is not a moment: {value}")
    if kind in _WHOLES and not 0 <= value <= WHOLE_MAX:
        raise ValueError(f"{name} is {value}")
    if kind is Kind.SECONDS_OR_NULL:
        seconds_of(name, value)
    return value


def seconds_of(name: str, value: float) -> float:
    """A duration of a job; raises ValueError if no job could have been submitted with it."""
    # The comparison also refuses NaN, which is neither above nor below anything.
    if not 0 < value <= SECONDS_MAX:
        raise ValueError(f"{name} is {value}")
    return value


_INSTEAD: Final = {Kind.WHOLE: 0, Kind.MOMENT: 0, Kind.TEXT: "", Kind.BYTES: b""}


class LenientReader:
    """A reader that never fails: damaged values are left out.

    For data shown to people; text that is not UTF-8 has replacement characters.
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
"""How a job has ended. If its row does not say, the job counts as a dead letter."""


T = TypeVar("T")

DEPENDS_ON: Final = "SELECT id FROM dependency WHERE seq = ? ORDER BY n"
# Columns that no snapshot has, but a lease or a settlement needs.
_BESIDES: Final = (
    JobColumn("born", "job.born", Kind.WHOLE),
    JobColumn(
        "the number of its events",
        "coalesce(ready.events, running.events, finished.events, waiting.events)",
        Kind.WHOLE,
    ),
    JobColumn("leased_event", "running.leased_event", Kind.WHOLE_OR_NULL),
    JobColumn("lease_micros", "running.lease_micros", Kind.WHOLE_OR_NULL),
    JobColumn("the parent_id of its place", "ready.parent_id", Kind.TEXT_OR_NULL),
    JobColumn("the time until which it waits", "dependent.due", Kind.MOMENT_OR_NULL),
    JobColumn("the time when it is due", "waiting.due", Kind.MOMENT_OR_NULL),
)  # fmt: skip
_ALL: Final = (*COLUMNS, *_BESIDES)

GUARDED: Final = (
    f"SELECT {', '.join(guarded(each.expression, each.kind) for each in _ALL)} "  # our own names
    + FROM.format("LEFT")
)
"""One row per job, whatever it holds, for `problems`."""

_LAST_ERROR: Final = """
    SELECT error_type, error_message, traceback FROM attempt
    WHERE seq = ? AND error_type IS NOT NULL ORDER BY version DESC LIMIT 1
"""
_LAST_ATTEMPT: Final = "SELECT started_at FROM attempt WHERE seq = ? ORDER BY version DESC LIMIT 1"
KNOWN_TYPES_MAX: Final = 10_000
_known_types: set[tuple[type, ...]] = set()
_NAMES: Final = {each.name: place for place, each in enumerate(COLUMNS)}
_TEXT_PLACES: Final = tuple(
    place for place, each in enumerate(_ALL) if each.kind in (Kind.TEXT, Kind.TEXT_OR_NULL)
)
_SECONDS: Final = ("timeout_seconds", "lease_seconds", "result_ttl_seconds")
_TO_DECODE: Final = tuple(
    _NAMES[name] for name in ("retry", "metadata", "progress", "the dependency policy", *_SECONDS)
)


def problems(row: tuple[Any, ...]) -> list[str]:
    """The unreadable parts of a row from GUARDED; nearly all rows have none."""
    return [] if _is_plain(row) else _read(row)[1]


def _is_plain(row: tuple[Any, ...]) -> bool:
    """Whether a row is certainly readable: most are, and need no check column by column."""
    if any(row[place] is not None for place in _TO_DECODE) or str in map(type, row):
        return False
    numbers = [value for value in row if type(value) is int]
    try:
        for place in _TEXT_PLACES:
            if row[place] is not None:
                row[place].decode()
    except UnicodeDecodeError:
        return False
    return (
        min(numbers) >= 0
        and max(numbers) <= WHOLE_MAX
        and row[_NAMES["priority"]] <= 100
        and row[_NAMES["status"]] in STATUS_OF
    )


def problem_with(db: apsw.Connection, seq: int) -> str | None:
    """The unreadable parts of one job; None if there are none."""
    row: Any = db.execute(f"{GUARDED} WHERE job.seq = ?", (seq,)).fetchone()
    return None if row is None else "; ".join(problems(row)) or None


def job_carefully(db: apsw.Connection, seq: int) -> Job:
    """A snapshot with the readable parts of a job, and an error that names the others."""
    guarded_row: Any = db.execute(f"{GUARDED} WHERE job.seq = ?", (seq,)).fetchone()
    row, found = _read(guarded_row)
    try:
        job = job_of(db, tuple(row))
    except UNREADABLE as error:
        # Not its own row, but one of its attempts or dependencies.
        found.append(problem_of(error))
        version = row[_NAMES["lease version"]]
        row[_NAMES["lease version"]], row[_NAMES["the dependency policy"]] = 0, None
        job = msgspec.structs.replace(job_of(db, tuple(row)), lease_version=version)
    if not found:
        return job
    said = JobError(ERROR_TYPE, set_aside_reason("; ".join(found)))
    return msgspec.structs.replace(job, error=said)


def _read(guarded_row: tuple[Any, ...]) -> tuple[list[Any], list[str]]:
    """The row in the form that `job_of` takes, and what had to be left out."""
    row: list[Any] = []
    found: list[str] = []
    is_status_lost = False
    for column, value in zip(_ALL, guarded_row, strict=True):
        try:
            row.append(_value(column, value))
        except UNREADABLE as error:
            row.append(column.instead)
            found.append(problem_of(error))
            is_status_lost = is_status_lost or column.name == "status"
    if is_status_lost and row[_NAMES["finished_at"]] is not None:
        row[_NAMES["status"]] = STATUS_CODE[Status.DEAD]
    return row[: len(COLUMNS)], found


def _value(column: JobColumn, fetched: Any) -> Any:
    value = value_of(column.name, column.kind, fetched)
    match column.name:
        case "retry" if value is not None:
            retry_of(value)
        case "metadata" if value is not None:
            metadata_of(value)
        case "progress" if value is not None:
            msgspec.json.decode(value)
        case "priority" if not 0 <= value <= 100:
            raise ValueError(f"priority is {value}")
        case "status" if value not in STATUS_OF:
            raise ValueError(f"unknown status {value}")
        case "the dependency policy" if value is not None and value not in POLICY_OF:
            raise ValueError(f"unknown dependency policy {value}")
    return value


def job_of(db: apsw.Connection, row: tuple[Any, ...]) -> Job:
    """The snapshot in a row of JOB."""
    types = tuple(map(type, row))
    if types not in _known_types:
        _check_types(types)
    told = JobRow._make(row)
    for name in _SECONDS:
        seconds = row[_NAMES[name]]
        if seconds is not None:
            seconds_of(name, seconds)
    depends_on: tuple[str, ...] = ()
    if told.policy is not None:
        depends_on = tuple(str(needed) for (needed,) in db.execute(DEPENDS_ON, (told.seq,)))
    error = last_start = None
    if told.version:
        # Only a job that was leased before can have failed before.
        failed: Any = db.execute(_LAST_ERROR, (told.seq,)).fetchone()
        error = None if failed is None else JobError(*failed)
        if told.started_at is None and not told.acquired_at:
            last: Any = db.execute(_LAST_ATTEMPT, (told.seq,)).fetchone()
            last_start = None if last is None else last[0]
    return snapshot(told, depends_on, error, last_start, _read_document)


def _read_document(decode: Callable[[str], T], text: str | None) -> T | None:
    return None if text is None else decode(text)


def _check_types(types: tuple[type, ...]) -> None:
    """Raise unless each column has one of its types; rows of the same types then pass at once."""
    for column, found in zip(COLUMNS, types, strict=True):
        if found not in PYTHON_TYPES[column.kind]:
            raise TypeError(f"{column.name} is of another type: {found.__name__}")
    if len(_known_types) < KNOWN_TYPES_MAX:
        _known_types.add(types)

"""Damaged cells: finding them, naming them, and reading without them.

A sound store pays nothing for this: `check` looks for damage, a failed read is repeated
`without_damage`, and a failed write is retried without records that can be recreated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.model.codes import DELETED_BY
from leasehold.core.model.histogram import Measurements
from leasehold.core.model.pins import Pin
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.retention import CleanUpMode
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.stored import (
    UNREADABLE,
    metadata_of,
    retry_of,
)
from leasehold.core.model.tokens import Token
from leasehold.core.rules.operations import Operation
from leasehold.core.rules.replies import check_reply
from leasehold.core.rules.undoing import OperationPart
from leasehold.errors import LeaseholdError
from leasehold.stores.sqlite.schema.cells import BREAKER, CELLS, COUNTERS, TOTALS

NAMED_MAX: Final = 100
"""The most cells of one table that are named."""

_OWN_STATE: Final = ("store_state", "lane")
"""`own_state` reports and repairs these."""
_SNAPSHOT: Final = frozenset(
    {"job", "ready", "waiting", "running", "finished", "dependent", "raised", "progress"}
)
"""The tables that a job's snapshot is made of: without them the job itself cannot be read."""


class Damage(NamedTuple):
    """A damaged cell."""

    table: str
    row: str
    """The key of its row, as written in SQL."""
    job: str | None
    """The id of the job that it belongs to."""
    column: str
    value: str

    def __str__(self) -> str:
        cell = f"{self.table}.{self.column}"
        if self.table == "store_state":
            return f"{cell} is {self.value}"
        whose = f"{self.table} {self.row}" if self.job is None else f"job {self.job}"
        return f"{cell} of {whose} is {self.value}"


def find(db: apsw.Connection, table: str, limit: int = NAMED_MAX) -> list[Damage]:
    """The damaged cells of a table. This reads the whole table."""
    rows: Any = db.execute(_unsound_cells(table, tuple(_keys(db, table))), (limit,))
    return [
        Damage(table, _text(key) or "", _text(owner), name, _text(value) or "")
        for key, owner, *values in rows
        for name, value in zip(CELLS[table], values, strict=True)
        if value is not None
    ]


@cache
def _unsound_cells(table: str, keys: tuple[str, ...]) -> str:
    cells = CELLS[table]
    shown = ", ".join(
        f"iif({sort.format(name)}, NULL, CAST(substr(quote({name}), 1, 60) AS BLOB))"
        for name, sort in cells.items()
    )
    row = " || ', ' || ".join(f"quote({name})" for name in keys)
    job = "NULL"
    if "seq" in cells:
        its = "SELECT CAST(its.id AS BLOB) FROM job AS its WHERE its.seq"
        job = f"({its} = {table}.seq)"
    return (
        f"SELECT CAST({row} AS BLOB), {job}, {shown} FROM {table} "
        f"WHERE NOT {sound_row(table)} LIMIT ?"
    )


class Key(NamedTuple):
    """An expression that names a row, whatever its key holds."""

    condition: str
    values: tuple[Any, ...]


def unsound_rows(db: apsw.Connection, table: str, limit: int) -> list[Key]:
    """The rows of a table with a damaged cell. This reads the whole table."""
    names = _keys(db, table)
    # Bytes that are not text cannot be read as text, but can be converted to it again.
    shown = ", ".join(
        f"typeof({name}) = 'text', iif(typeof({name}) = 'text', CAST({name} AS BLOB), {name})"
        for name in names
    )
    rows: Any = db.execute(
        f"SELECT {shown} FROM {table} WHERE NOT {sound_row(table)} LIMIT ?",
        (limit,),
    )
    return [
        Key(
            " AND ".join(
                f"{name} = {'CAST(? AS TEXT)' if is_text else '?'}"
                for name, is_text in zip(names, row[::2], strict=True)
            ),
            row[1::2],
        )
        for row in rows
    ]


def told(db: apsw.Connection) -> Iterator[str]:
    """Every damaged cell that is not repaired automatically, as sentences."""
    for table in CELLS:
        if table in _OWN_STATE:
            continue
        for damage in find(db, table):
            if table in _SNAPSHOT and damage.job is not None:
                yield f"job {damage.job} cannot be read: {table}.{damage.column} is {damage.value}"
            else:
                yield f"{damage}, which cannot be right"


def sound_row(table: str) -> str:
    """An expression that is true for rows of a table without damaged cells."""
    cells = (f"({sort.format(f'{table}.{name}')})" for name, sort in CELLS[table].items())
    return f"({' AND '.join(cells)})"


# -- reading without them ------------------------------------------------------------------------

_INSTEAD: Final[dict[str, dict[str, str]]] = {
    "lane": {
        **dict.fromkeys(("queue", "task"), "'unreadable'"),
        **dict.fromkeys((*COUNTERS, *TOTALS, "made_at"), "0"),
        **dict.fromkeys((*BREAKER, "deleted_after"), "NULL"),
    },
    "finished": {"status": "6", "reason": "NULL"},
    "waiting": {"status": "0", "reason": "NULL", "due": "NULL"},
    "dependent": {"policy": "NULL"},
}
"""What replaces damaged cells in tables whose rows stand for jobs and are not left out."""
_HIDDEN: Final = (
    "archive", "cleanup", "measured", "change", "reply", "dependency", "key_lane", "failure",
    "failed_job", "error_total", "worker_total",
)  # fmt: skip
"""Tables whose damaged rows are left out."""


@contextmanager
def without_damage(db: apsw.Connection) -> Iterator[None]:
    """Make a reader's statements see only sound data: views hide the tables of the same names.

    Only for a reader that has met damage, since views cannot use most indexes. They disappear when
    the reader's transaction is rolled back.
    """
    db.execute("PRAGMA query_only = OFF").fetchall()
    try:
        for table in (*_INSTEAD, *_HIDDEN):
            db.execute(f"CREATE TEMP VIEW {table} AS {_sound_part(db, table)}")
        yield
    finally:
        db.execute("PRAGMA query_only = ON").fetchall()


def _sound_part(db: apsw.Connection, table: str) -> str:
    if table in _HIDDEN:
        return f"SELECT * FROM main.{table} WHERE {sound_row(table)}"
    columns: Any = db.execute(f"PRAGMA main.table_info({table})").fetchall()
    instead = _INSTEAD[table]
    shown = ", ".join(
        f"iif({CELLS[table][name].format(name)}, {name}, {instead[name]}) AS {name}"
        if name in instead
        else name
        for _, name, *_ in columns
    )
    return f"SELECT {shown} FROM main.{table}"


def _keys(db: apsw.Connection, table: str) -> list[str]:
    columns: Any = db.execute(f"PRAGMA table_info({table})").fetchall()
    return [name for _, name, *_, key in columns if key]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


# -- what SQL cannot tell ------------------------------------------------------------------------

_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "text": bytes.decode,
    "json": msgspec.json.decode,
    "retry": retry_of,
    "metadata": metadata_of,
    "names": msgspec.json.Decoder(list[str]).decode,
    "measures": msgspec.msgpack.Decoder(dict[int, Measurements]).decode,
    "ids": msgspec.json.Decoder(tuple[str, ...]).decode,
    "counts": msgspec.json.Decoder(tuple[int, ...]).decode,
    "schedule": msgspec.json.Decoder(ScheduleDraft).decode,
    "config": msgspec.json.Decoder(QueueConfig).decode,
    "state": lambda data: QueueState(data.decode().partition(DELETED_BY)[0]),
    "pin": msgspec.json.Decoder(Pin).decode,
    "token": msgspec.json.Decoder(Token).decode,
    "operation": msgspec.json.Decoder(Operation).decode,
    "part": msgspec.json.Decoder(OperationPart).decode,
    "mode": lambda data: CleanUpMode(data.decode()),
    "reply": check_reply,
}


def add_reads_as(db: apsw.Connection) -> None:
    """Let statements of a connection use `reads_as('what', bytes)`."""
    db.create_scalar_function("reads_as", _reads_as, 2, deterministic=True)


def _reads_as(*values: Any) -> int:
    what, data = values
    if not isinstance(data, bytes):
        return 0
    try:
        _READERS[what](data)
    except (*UNREADABLE, LeaseholdError):
        return 0
    return 1

"""Recounting the jobs of damaged lanes, without blocking writers meanwhile.

Counting takes time with the number of jobs, so no write does it:

1. A reader counts, approximately.
2. One short write replaces the damaged numbers with these, and notes them. Inside it a second
   reader is opened, which sees the store as of that moment.
3. That reader counts exactly what the numbers should have been in that write.
4. One short write adds the difference to the lanes' present numbers, and removes the note.

A process that dies in between leaves the note, and a minute later the next sweep starts again. A
process that was slower than that finds another note in step 4, and leaves the rest to its author.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.span import band_of
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE
from leasehold.env import Env
from leasehold.stores.sqlite.schema.cells import COUNTERS
from leasehold.stores.sqlite.writing import own_state

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

Counts = dict[str, int]
"""Counts by the name of the counter."""
NOTHING: Final[Counts] = dict.fromkeys(COUNTERS, 0)
SILENT_MICROS: Final = 60 * 1_000_000
"""An older note belongs to a process that is gone."""

_COUNT: Final = """
    SELECT job.lane, status, priority, count(*) FROM (
        SELECT seq, 2 AS status FROM ready UNION ALL SELECT seq, status FROM waiting
        UNION ALL SELECT seq, 3 FROM running UNION ALL SELECT seq, status FROM finished
    ) JOIN job USING (seq) GROUP BY job.lane, status, priority
"""
_LOOK: Final = "SELECT 1 FROM store_state"
_READ: Final = "SELECT CAST(value AS BLOB) FROM meta WHERE key = 'recount'"
_NOTE: Final = "INSERT OR REPLACE INTO meta VALUES ('recount', ?)"
_END: Final = "DELETE FROM meta WHERE key = 'recount'"


class Note(msgspec.Struct, frozen=True):
    """The numbers that the second step has written."""

    id: str
    at: int
    """By the wall clock, in microseconds."""
    lanes: dict[int, Counts]


def is_left(db: apsw.Connection, env: Env) -> bool:
    """Whether a process began to count and has stopped."""
    note = _note(db)
    return note is not None and not 0 <= env.now_micros() - note.at <= SILENT_MICROS


def recount(database: Database) -> None:
    """Repair impossible values in lanes, and count their jobs."""
    with database.readers.lend() as db:
        about = count(db, own_state.damaged_lanes(db) | _noted(db))
    with ExitStack() as stack:
        with database.writer.alone() as db:
            lanes = own_state.damaged_lanes(db) | _noted(db)
            then = stack.enter_context(database.readers.lend())
            then.execute(_LOOK).fetchall()  # From here on it sees this moment.
            first = {lane: about.get(lane, NOTHING) for lane in lanes}
            own_state.put_lanes_right(db, first)
            note = Note(database.env.new_id(), database.env.now_micros(), first)
            db.execute(_NOTE, (msgspec.json.encode(note).decode(),))
        exact = count(then, lanes)
    with database.writer.alone() as db:
        if _note(db) == note:
            own_state.add_to_lanes(db, {lane: _less(exact[lane], first[lane]) for lane in lanes})
            db.execute(_END)


def count(db: apsw.Connection, lanes: Collection[int]) -> dict[int, Counts]:
    """How many jobs of these lanes are in each status, and pending in each band of priorities."""
    found = {lane: dict(NOTHING) for lane in lanes}
    rows: Any = db.execute(_COUNT) if lanes else ()
    for lane, code, priority, jobs in rows:
        status = STATUS_OF.get(code)
        if lane in found and status is not None:
            found[lane][str(status)] += jobs
            if status is Status.PENDING:
                found[lane][f"pending_{band_of(priority)}"] += jobs
    return found


def _less(one: Mapping[str, int], other: Mapping[str, int]) -> Counts:
    return {name: one[name] - other[name] for name in COUNTERS}


def _noted(db: apsw.Connection) -> set[int]:
    note = _note(db)
    return set() if note is None else set(note.lanes)


def _note(db: apsw.Connection) -> Note | None:
    row: Any = db.execute(_READ).fetchone()
    try:
        return None if row is None else msgspec.json.decode(row[0], type=Note)
    except UNREADABLE:
        return None

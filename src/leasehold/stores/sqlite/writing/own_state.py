"""What the store keeps of itself: its one row of state, and its lanes. Damage is put right at once.

Everything in these two tables can be told from other rows, or begun anew without harm, except the
names of a lane. So whoever writes and finds a value that cannot be right replaces it, in the same
write, and says so in the log:

    clock                  the time of the last job, then what the machine's clock shows
    version_floor          above every lease version in the store, and above the wall clock
    next_seq               above every number in the store
    the generations        a number that was never used, so that every process reads again
    open_minute            the minute now: what was counted since the last look falls into it
    the basis of the clock as after a start of the machine: all of it, for parts of it mean nothing
    a lane's counters      counted; its totals begin at zero
    a lane's breaker       closed
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.span import BANDS, MINUTE_MICROS, band_of
from leasehold.core.model.status import Status
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.env import Env
from leasehold.errors import StoreCorruptError
from leasehold.stores.sqlite.disk.epoch import FLOOR_SHIFT
from leasehold.stores.sqlite.reading.sampling import Spans
from leasehold.stores.sqlite.schema.rows import (
    MOMENT_MAX,
    STATUS_OF,
    WHOLE_MAX,
    Kind,
    guarded,
    value_of,
)

logger = logging.getLogger("leasehold.store")

_WHOLE: Final = f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {WHOLE_MAX}"
_MOMENT: Final = f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {MOMENT_MAX}"
_OR_NULL: Final = "{{0}} IS NULL OR ({0})"
_TEXT: Final = "typeof({0}) = 'text' AND NOT {0} GLOB '*[^ -~]*'"
# No circuit breaker holds for longer than any time span may be.
_HOLD: Final = f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {round(SECONDS_MAX * 1e6)}"
_HELD: Final = f"""
    typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND
        (SELECT max(clock, 0) + {round(SECONDS_MAX * 1e6)} FROM store_state)
"""  # noqa: S608  # our own number

BASIS_COLUMNS: Final = {
    "boot_id": _TEXT,
    "basis_clock": _MOMENT,
    "basis_awake": _WHOLE,
    "basis_boot": _WHOLE,
    "doubt_since": _OR_NULL.format(_WHOLE),
    "doubt_by": _WHOLE,
    "clock_repairs": _WHOLE,
}
STATE_COLUMNS: Final = {
    "clock": _MOMENT,
    "version_floor": _WHOLE,
    "next_seq": _WHOLE,
    "queue_generation": _WHOLE,
    "settings_generation": _WHOLE,
    "open_minute": _WHOLE,
    **BASIS_COLUMNS,
}
_COUNTERS: Final = (*(str(status) for status in Status), *(f"pending_{band}" for band in BANDS))
_TOTALS: Final = tuple(
    f"total_{name}"
    for name in (
        "submitted",
        "completed",
        "failed",
        "retried",
        "dead",
        "cancelled",
        "recovered",
        "rejected",
        "cleaned",
        "leased",
        "wait_micros",
        "run_micros",
    )
)
LANE_COLUMNS: Final = {
    **dict.fromkeys((*_COUNTERS, *_TOTALS, "failures_in_row"), _WHOLE),
    "held_until": _OR_NULL.format(_HELD),
    "hold_micros": _OR_NULL.format(_HOLD),
}
_BREAKER: Final = {"failures_in_row": 0, "held_until": None, "hold_micros": None}
_NAMES: Final = f"SELECT id, {guarded('queue', Kind.TEXT)}, {guarded('task', Kind.TEXT)} FROM lane"  # noqa: S608  # our own names


def _shown(columns: dict[str, str]) -> str:
    """Of each column NULL where it is sound, else its value as it would be written in SQL."""
    return ", ".join(
        f"iif({sound.format(name)}, NULL, CAST(substr(quote({name}), 1, 60) AS BLOB))"
        for name, sound in columns.items()
    )


_STATE: Final = f"SELECT {_shown(STATE_COLUMNS)} FROM store_state"  # noqa: S608  # our own names
_ALL_SOUND: Final = " AND ".join(f"({sound.format(name)})" for name, sound in LANE_COLUMNS.items())
_LANES: Final = f"SELECT id, {_shown(LANE_COLUMNS)} FROM lane WHERE NOT ({_ALL_SOUND})"  # noqa: S608  # our own names
_MAKE: Final = "INSERT INTO store_state (one, clock, version_floor, next_seq) VALUES (1, 0, 0, 1)"
_NUMBERED: Final = ("job", "archive", "pruned_key", "idempotency", "attempt", "event")
_VERSIONED: Final = ("ready", "waiting", "running", "finished", "attempt")
_LAST_CREATED: Final = "SELECT created_at FROM job ORDER BY seq DESC LIMIT 1"
_LAST_MINUTE: Final = f"""
    SELECT max(at) FROM span WHERE resolution = {Resolution.MINUTE:d} AND typeof(at) = 'integer'
"""  # noqa: S608  # our own number
_TOO_LOW: Final = f"""
    SELECT {_WHOLE.format("next_seq")} AND next_seq <= (SELECT max(seq) FROM job) FROM store_state
"""  # noqa: S608  # our own names
_RECOUNT: Final = """
    SELECT status, priority, count(*) FROM (
        SELECT seq, 2 AS status FROM ready UNION ALL SELECT seq, status FROM waiting
        UNION ALL SELECT seq, 3 FROM running UNION ALL SELECT seq, status FROM finished
    ) JOIN job USING (seq) WHERE job.lane = ? GROUP BY status, priority
"""
_QUEUE: Final = "SELECT queue FROM lane WHERE id = ?"
_FORGET_MEASURED: Final = """
    DELETE FROM measured WHERE lane IN (SELECT id FROM lane WHERE queue = ?)
"""


class Damage(NamedTuple):
    """One value that cannot be right."""

    table: str
    row: int | None
    column: str
    value: str

    def __str__(self) -> str:
        where = f"{self.table}.{self.column}"
        whose = "" if self.row is None else f" of lane {self.row}"
        return f"{where}{whose} is {self.value}"


def find(db: apsw.Connection) -> list[Damage]:
    """Every value of the store's own state that cannot be right."""
    return [*find_in_state(db), *_in_lanes(db)]


def told(db: apsw.Connection) -> Iterator[str]:
    """The same, as sentences, and what no write can put right."""
    for damage in find(db):
        yield f"{damage}, which cannot be right: the next write or sweep puts it right"
    row: Any = db.execute(_TOO_LOW).fetchone()
    if row is not None and row[0]:
        yield "store_state.next_seq is not above the numbers of all jobs: the next submit raises it"
    rows: Any = db.execute(_NAMES)
    for lane, queue, task in rows:
        for name, value in (("queue", queue), ("task", task)):
            try:
                value_of(f"lane.{name} of lane {lane}", Kind.TEXT, value)
            except ValueError as error:
                yield f"{error}: its jobs are not leased; restore a backup"


def corrupt(db: apsw.Connection) -> StoreCorruptError:
    """What to tell who only looks, and cannot put it right."""
    found = "; ".join(map(str, find_in_state(db)))
    return StoreCorruptError(
        f"the store's own state is damaged ({found}): any write puts it right, for instance "
        "`queuectl sweep`"
    )


def put_state_right(db: apsw.Connection, env: Env) -> bool:
    """Replace what cannot be right in the store's row; inside a write. False if all of it can."""
    damaged = find_in_state(db)
    if not damaged:
        return False
    if any(damage.column == "*" for damage in damaged):
        db.execute(_MAKE)
    columns = {damage.column for damage in damaged}
    if "*" in columns:
        columns = set(STATE_COLUMNS)
    wall = env.now_micros()
    values: dict[str, Any] = {
        "clock": lambda: _sound_moment(db, _LAST_CREATED),
        "version_floor": lambda: _floor_above(db, wall),
        "next_seq": lambda: _highest(db, "seq", _NUMBERED) + 1,
        "queue_generation": lambda: wall,
        "settings_generation": lambda: wall,
        "open_minute": lambda: max(wall // MINUTE_MICROS, _sound_moment(db, _LAST_MINUTE) + 1),
    }
    changes = {name: make() for name, make in values.items() if name in columns}
    if columns & BASIS_COLUMNS.keys():
        changes |= dict.fromkeys(BASIS_COLUMNS, 0) | {"boot_id": "", "doubt_since": None}
    _update(db, "store_state", changes)
    for damage in damaged:
        logger.error("%s, which cannot be right: it was replaced", damage)
    return True


def put_lanes_right(db: apsw.Connection) -> int:
    """Count and begin anew what cannot be right in lanes; inside a write. Answers how many."""
    by_lane: dict[int, list[Damage]] = {}
    for damage in _in_lanes(db):
        assert damage.row is not None
        by_lane.setdefault(damage.row, []).append(damage)
        logger.error("%s, which cannot be right: it was replaced", damage)
    for lane, damaged in by_lane.items():
        columns = {damage.column for damage in damaged}
        changes = _counted(db, lane) | {name: 0 for name in _TOTALS if name in columns}
        if columns & _BREAKER.keys():
            changes |= _BREAKER
        _update(db, "lane", changes, lane)
        if columns & {*_TOTALS, *_COUNTERS}:
            # What the queue's counters grew by is reckoned from here on.
            queue: Any = db.execute(_QUEUE, (lane,)).fetchone()
            db.execute(_FORGET_MEASURED, queue)
            spans = Spans(db)
            for name, total in spans.totals(queue[0]).items():
                ever = msgspec.structs.replace(total, waits={}, runs={})
                spans.keep([KeptSpan(Resolution.EVER, name, 0, ever)])
    return len(by_lane)


def raise_next_seq(db: apsw.Connection) -> int | None:
    """Raise the next number above all that are in use; inside a write. None if it is."""
    row: Any = db.execute(_TOO_LOW).fetchone()
    if row is None or not row[0]:
        return None
    next_seq = _highest(db, "seq", _NUMBERED) + 1
    _update(db, "store_state", {"next_seq": next_seq})
    logger.error("store_state.next_seq was in use: it was raised to %d", next_seq)
    return next_seq


def is_damaged(db: apsw.Connection) -> bool:
    """Whether there is anything to put right."""
    row: Any = db.execute(_TOO_LOW).fetchone()
    return row is None or bool(row[0]) or bool(find(db))


def find_in_state(db: apsw.Connection) -> list[Damage]:
    """What cannot be right in the store's own row."""
    row: Any = db.execute(_STATE).fetchone()
    if row is None:
        return [Damage("store_state", None, "*", "missing")]
    return _named("store_state", None, STATE_COLUMNS, row)


def _in_lanes(db: apsw.Connection) -> list[Damage]:
    rows: Any = db.execute(_LANES)
    return [damage for lane, *shown in rows for damage in _named("lane", lane, LANE_COLUMNS, shown)]


def _named(table: str, row: int | None, columns: dict[str, str], shown: Any) -> list[Damage]:
    return [
        Damage(table, row, name, value.decode(errors="replace"))
        for name, value in zip(columns, shown, strict=True)
        if value is not None
    ]


def _counted(db: apsw.Connection, lane: int) -> dict[str, Any]:
    counts: dict[str, Any] = dict.fromkeys(_COUNTERS, 0)
    rows: Any = db.execute(_RECOUNT, (lane,))
    for code, priority, jobs in rows:
        status = STATUS_OF.get(code)
        if status is not None:
            counts[str(status)] += jobs
            if status is Status.PENDING:
                counts[f"pending_{band_of(priority)}"] += jobs
    return counts


def _floor_above(db: apsw.Connection, wall: int) -> int:
    return max(_highest(db, "version", _VERSIONED) + 1, (wall << FLOOR_SHIFT) // 1_000_000)


def _highest(db: apsw.Connection, column: str, tables: tuple[str, ...]) -> int:
    found = 0
    for table in tables:
        row: Any = db.execute(
            f"SELECT max({column}) FROM {table} WHERE {_WHOLE.format(column)}"  # noqa: S608  # our own names
        ).fetchone()
        found = max(found, row[0] or 0)
    return found


def _sound_moment(db: apsw.Connection, statement: str) -> int:
    row: Any = db.execute(statement).fetchone()
    found = None if row is None else row[0]
    return found if type(found) is int and 0 <= found <= MOMENT_MAX else 0


def _update(db: apsw.Connection, table: str, changes: dict[str, Any], row: int = 1) -> None:
    key = "one" if table == "store_state" else "id"
    assignments = ", ".join(f"{name} = ?" for name in changes)
    db.execute(f"UPDATE {table} SET {assignments} WHERE {key} = ?", (*changes.values(), row))  # noqa: S608  # our own names

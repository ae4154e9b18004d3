"""The store's own records: its one row of state, and its lanes. Damage is repaired at once.

Everything in these two tables can be derived from other rows, or restarted without harm, except the
names of a lane: those are lost. So a write that finds an impossible value replaces it, in the same
write, and logs that:

    clock                  the time of the last job, then what the machine's clock shows
    version_floor          above all that was counted from the last one, as far as the latest leases
                           tell, and above the wall clock; a job that is there has its own version
    next_seq               above every number in the store
    the generations        a number that was never used, so that every process reads again
    open_minute            the minute now: what was counted since the last look falls into it
    the basis of the clock as after a start of the machine: all of it, for parts of it mean nothing
    a lane's counters      counted (`recounting`); its totals begin at zero
    a lane's breaker       closed
    a lane's names         others: its jobs are seen, but nobody asks for them

Records that a store can do without are deleted if they cannot be read and a write has failed or a
clean-up begins: figures, replies, the change feed, and the progress of a clean-up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.model.budget import MENDED_AT_ONCE
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.env import Env
from leasehold.errors import StoreCorruptError
from leasehold.stores.sqlite.disk.epoch import FLOOR_SHIFT
from leasehold.stores.sqlite.reading.figures import SpanShelf
from leasehold.stores.sqlite.schema import damaged_cells
from leasehold.stores.sqlite.schema.cells import BASIS, CELLS, COUNTERS, TOTALS
from leasehold.stores.sqlite.schema.damaged_cells import Damage
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX

logger = logging.getLogger("leasehold.store")

STATE_COLUMNS: Final = tuple(name for name in CELLS["store_state"] if name != "one")
_NAMES: Final = ("queue", "task")
_CLOSED: Final = {"failures_in_row": 0, "held_until": None, "hold_micros": None}
_WHOLE: Final = CELLS["store_state"]["next_seq"]

_IS_THERE: Final = "SELECT 1 FROM store_state"
_MAKE: Final = "INSERT INTO store_state (one, clock, version_floor, next_seq) VALUES (1, 0, 0, 1)"
# An idempotency key refers to an existing or a pruned job: it has no number of its own.
_NUMBERED: Final = ("job", "pruned_key", "attempt", "event")
# The archive is ordered by day: a seek leads from each day to the next.
_HIGHEST_ARCHIVED: Final = f"""
    WITH RECURSIVE known (day) AS (
        SELECT min(day) FROM archive
        UNION ALL SELECT (SELECT min(day) FROM archive WHERE archive.day > known.day)
        FROM known WHERE day IS NOT NULL)
    SELECT max((
        SELECT max(seq) FROM archive WHERE archive.day = known.day AND {_WHOLE.format("seq")}))
    FROM known
"""
# The latest leases are among the last jobs submitted and leased. `running` is small.
_LATEST_VERSIONS: Final = (
    "SELECT version FROM running",
    f"SELECT version FROM finished ORDER BY seq DESC LIMIT {MENDED_AT_ONCE}",
    f"SELECT version FROM attempt ORDER BY seq DESC, version DESC LIMIT {MENDED_AT_ONCE}",
)
_LAST_CREATED: Final = "SELECT created_at FROM job ORDER BY seq DESC LIMIT 1"
_LAST_MINUTE: Final = f"""
    SELECT max(at) FROM span WHERE resolution = {Resolution.MINUTE:d} AND typeof(at) = 'integer'
"""
# A job with an impossible number sorts above everything, and is no reason to start elsewhere.
_TOO_LOW: Final = f"""
    SELECT {_WHOLE.format("next_seq")}
        AND next_seq <= (SELECT max(seq) FROM job WHERE seq <= {WHOLE_MAX}) FROM store_state
"""
_QUEUE: Final = "SELECT queue FROM lane WHERE id = ?"
_FORGET_MEASURED: Final = """
    DELETE FROM measured WHERE lane IN (SELECT id FROM lane WHERE queue = coalesce(?, queue))
"""
# Every write continues with the rows of `inheriting`, even one that restarts another table.
BEGUN_ANEW: Final = (
    "inheriting", "measured", "span", "bucket", "change", "reply", "cleanup", "rescoring",
    "pruned_key", "key_lane", "resting", "failure", "failed_job", "error_total", "worker_total",
)  # fmt: skip
# A key with an unreadable end of its rest is looked at again at once.
_IS_MOMENT: Final = CELLS["resting"]["until"].format("until")
_REST_NO_MORE: Final = f"UPDATE resting SET until = 0 WHERE NOT ({_IS_MOMENT})"
# Jobs of a key whose account cannot be read return to their lanes; a lease that reads more of them
# than may run parks them under a new account.
_PARKED: Final = """
    SELECT lane, tier, turn, seq FROM ready WHERE lane = -? ORDER BY tier, turn, seq LIMIT ?
"""
_TO_ITS_LANE: Final = """
    UPDATE ready SET lane = (SELECT lane FROM job WHERE job.seq = ready.seq)
    WHERE lane = ? AND tier = ? AND turn = ? AND seq = ?
"""
_COUNTED_FOR_NONE: Final = "UPDATE place SET lane = NULL, key_lane = NULL WHERE seq = ?"
_SHOWN: Final = "SELECT seq FROM place WHERE key_lane = ? AND lane IS NULL LIMIT ?"


def find(db: apsw.Connection) -> list[Damage]:
    """Every impossible value in the store's own state."""
    return [*find_in_state(db), *_in_lanes(db)]


def told(db: apsw.Connection) -> Iterator[str]:
    """The same as sentences, and damage that no write can repair."""
    for damage in find(db):
        if damage.column in _NAMES:
            yield f"{damage}: its jobs are not leased; restore a backup"
        else:
            yield f"{damage}, which cannot be right: the next write or sweep puts it right"
    row: Any = db.execute(_TOO_LOW).fetchone()
    if row is not None and row[0]:
        yield "store_state.next_seq is not above the numbers of all jobs: the next submit raises it"


def corrupt(db: apsw.Connection) -> StoreCorruptError:
    """The error for callers that only read, and cannot repair the damage."""
    found = "; ".join(map(str, find_in_state(db)))
    return StoreCorruptError(
        f"the store's own state is damaged ({found}): any write repairs it, for instance "
        "`queuectl sweep`"
    )


def put_state_right(db: apsw.Connection, env: Env) -> bool:
    """Repair impossible values in the store's row, inside a write. False if there are none."""
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
        "next_seq": lambda: _highest_number(db) + 1,
        "queue_generation": lambda: wall,
        "settings_generation": lambda: wall,
        "open_minute": lambda: max(wall // MINUTE_MICROS, _sound_moment(db, _LAST_MINUTE) + 1),
    }
    changes = {name: make() for name, make in values.items() if name in columns}
    if columns & BASIS.keys():
        changes |= dict.fromkeys(BASIS, 0) | {"boot_id": "", "doubt_since": None}
    _update(db, "store_state", changes)
    for damage in damaged:
        logger.error("%s, which cannot be right: it was replaced", damage)
    return True


def damaged_lanes(db: apsw.Connection) -> set[int]:
    """The lanes with impossible values."""
    return {int(damage.row) for damage in _in_lanes(db)}


def put_lanes_right(db: apsw.Connection, counts: Mapping[int, dict[str, int]]) -> None:
    """Repair impossible values in lanes, with these counters, inside a write."""
    by_lane: dict[int, set[str]] = {lane: set() for lane in counts}
    for damage in _in_lanes(db):
        by_lane[int(damage.row)].add(damage.column)
        logger.error("%s, which cannot be right: it was replaced", damage)
    for lane, columns in by_lane.items():
        changes: dict[str, Any] = counts[lane] | {name: 0 for name in TOTALS if name in columns}
        changes |= {name: f"unreadable-{lane}" for name in _NAMES if name in columns}
        if "made_at" in columns:
            changes["made_at"] = 0  # It is no longer known.
        if "deleted_after" in columns:
            changes["deleted_after"] = None
        if columns & _CLOSED.keys():
            changes |= _CLOSED
        _update(db, "lane", changes, lane)
        if columns & {*TOTALS, *COUNTERS}:
            queue: Any = db.execute(_QUEUE, (lane,)).fetchone()
            _reckon_from_here(db, queue[0])


def add_to_lanes(db: apsw.Connection, differences: Mapping[int, dict[str, int]]) -> None:
    """Adjust counters by these differences, inside a write."""
    assignments = ", ".join(f"{name} = {name} + ?" for name in COUNTERS)
    for lane, by_name in differences.items():
        values = (*(by_name[name] for name in COUNTERS), lane)
        db.execute(f"UPDATE lane SET {assignments} WHERE id = ?", values)


def _reckon_from_here(db: apsw.Connection, queue: str | None) -> None:
    """Count the growth of a queue's counters, or of all, from here on."""
    db.execute(_FORGET_MEASURED, (queue,))
    spans = SpanShelf(db)
    for name, total in spans.totals(queue).items():
        ever = msgspec.structs.replace(total, measures={})
        spans.keep([KeptSpan(Resolution.EVER, name, 0, ever)])


class Unreadable(NamedTuple):
    """Unreadable rows of one table, and sentences about some of them."""

    table: str
    rows: list[damaged_cells.Key]
    told: list[Damage]


def find_records(db: apsw.Connection) -> Unreadable | None:
    """Unreadable records that can be recreated, as many as one write may handle.

    The search takes time with the number of records, so it is for a reader, which blocks no writer.
    """
    for table in BEGUN_ANEW:
        if rows := damaged_cells.unsound_rows(db, table, MENDED_AT_ONCE):
            return Unreadable(table, rows, damaged_cells.find(db, table))
    return None


def begin_records_anew(db: apsw.Connection, found: Unreadable) -> bool:
    """Delete them if they still exist, inside a write; returns whether anything changed."""
    before = db.total_changes()
    left = MENDED_AT_ONCE
    for row in found.rows:
        if found.table == "key_lane":
            left -= _let_go_of_jobs(db, row, left)
            if left <= 0:
                break
        _delete(db, found.table, row)
    if found.table == "span":
        _reckon_from_here(db, None)
    for damage in found.told:
        logger.error("%s, which cannot be right: its row was deleted", damage)
    return db.total_changes() > before


def _delete(db: apsw.Connection, table: str, row: damaged_cells.Key) -> None:
    is_it = f"{row.condition} AND NOT {damaged_cells.sound_row(table)}"
    if table == "resting":
        db.execute(f"{_REST_NO_MORE} AND {is_it}", row.values)
    db.execute(f"DELETE FROM {table} WHERE {is_it}", row.values)


def _let_go_of_jobs(db: apsw.Connection, account: damaged_cells.Key, limit: int) -> int:
    """Return jobs of an account to their lanes, counted for no key; returns how many."""
    parked: list[Any] = db.execute(_PARKED, (*account.values, limit)).fetchall()
    db.executemany(_TO_ITS_LANE, parked)
    left = limit - len(parked)
    shown: list[Any] = db.execute(_SHOWN, (*account.values, left)).fetchall()
    db.executemany(_COUNTED_FOR_NONE, [(row[-1],) for row in (*parked, *shown)])
    return len(parked) + len(shown)


def raise_next_seq(db: apsw.Connection) -> int | None:
    """Raise the next number above all used ones, inside a write. None if it already is."""
    row: Any = db.execute(_TOO_LOW).fetchone()
    if row is None or not row[0]:
        return None
    next_seq = _highest_number(db) + 1
    _update(db, "store_state", {"next_seq": next_seq})
    logger.error("store_state.next_seq was in use: it was raised to %d", next_seq)
    return next_seq


def is_damaged(db: apsw.Connection) -> bool:
    """Whether there is anything to repair in the store's own row."""
    row: Any = db.execute(_TOO_LOW).fetchone()
    return row is None or bool(row[0]) or bool(find_in_state(db))


def find_in_state(db: apsw.Connection) -> list[Damage]:
    """The impossible values in the store's own row."""
    row: Any = db.execute(_IS_THERE).fetchone()
    if row is None:
        return [Damage("store_state", "", None, "*", "missing")]
    return damaged_cells.find(db, "store_state")


def _in_lanes(db: apsw.Connection) -> list[Damage]:
    return damaged_cells.find(db, "lane")


def _floor_above(db: apsw.Connection, wall: int) -> int:
    highest = 0
    for statement in _LATEST_VERSIONS:
        latest = f"SELECT max(version) FROM ({statement}) WHERE {_WHOLE.format('version')}"
        highest = max(highest, _number(db, latest))
    # As after a restore: above all versions counted from the last floor.
    above = ((highest >> FLOOR_SHIFT) + 1) << FLOOR_SHIFT
    return max(above if above <= WHOLE_MAX else highest + 1, (wall << FLOOR_SHIFT) // 1_000_000)


def _highest_number(db: apsw.Connection) -> int:
    found = _number(db, _HIGHEST_ARCHIVED)
    for table in _NUMBERED:
        highest = f"SELECT max(seq) FROM {table} WHERE {_WHOLE.format('seq')}"
        found = max(found, _number(db, highest))
    return found


def _number(db: apsw.Connection, statement: str) -> int:
    row: Any = db.execute(statement).fetchone()
    return row[0] or 0


def _sound_moment(db: apsw.Connection, statement: str) -> int:
    row: Any = db.execute(statement).fetchone()
    found = None if row is None else row[0]
    return found if type(found) is int and 0 <= found <= MOMENT_MAX else 0


def _update(db: apsw.Connection, table: str, changes: dict[str, Any], row: int = 1) -> None:
    key = "one" if table == "store_state" else "id"
    assignments = ", ".join(f"{name} = ?" for name in changes)
    db.execute(f"UPDATE {table} SET {assignments} WHERE {key} = ?", (*changes.values(), row))

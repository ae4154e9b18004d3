"""What the store keeps of itself: its one row of state, and its lanes. Damage is put right at once.

Everything in these two tables can be told from other rows, or begun anew without harm, except the
names of a lane: those are lost. So whoever writes and finds a value that cannot be right replaces
it, in the same write, and says so in the log:

    clock                  the time of the last job, then what the machine's clock shows
    version_floor          above every lease version in the store, and above the wall clock
    next_seq               above every number in the store
    the generations        a number that was never used, so that every process reads again
    open_minute            the minute now: what was counted since the last look falls into it
    the basis of the clock as after a start of the machine: all of it, for parts of it mean nothing
    a lane's counters      counted (`recounting`); its totals begin at zero
    a lane's breaker       closed
    a lane's names         others: its jobs are seen, but nobody asks for them

Records without which a store goes on are deleted where they cannot be read and a write has failed
or a clean-up begins: figures, replies, the change feed, how far a clean-up has got.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.env import Env
from leasehold.errors import StoreCorruptError
from leasehold.stores.sqlite.disk.epoch import FLOOR_SHIFT
from leasehold.stores.sqlite.reading.sampling import SpanShelf
from leasehold.stores.sqlite.schema import damaged_cells
from leasehold.stores.sqlite.schema.cells import BASIS, CELLS, COUNTERS, TOTALS
from leasehold.stores.sqlite.schema.damaged_cells import Damage
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX

logger = logging.getLogger("leasehold.store")

STATE_COLUMNS: Final = tuple(name for name in CELLS["store_state"] if name != "one")
_NAMES: Final = ("queue", "task")
LANE_COLUMNS: Final = tuple(name for name in CELLS["lane"] if name not in ("id", *_NAMES))
_CLOSED: Final = {"failures_in_row": 0, "held_until": None, "hold_micros": None}
_WHOLE: Final = CELLS["store_state"]["next_seq"]

_IS_THERE: Final = "SELECT 1 FROM store_state"
_MAKE: Final = "INSERT INTO store_state (one, clock, version_floor, next_seq) VALUES (1, 0, 0, 1)"
_NUMBERED: Final = ("job", "archive", "pruned_key", "idempotency", "attempt", "event")
_VERSIONED: Final = ("ready", "waiting", "running", "finished", "attempt")
_LAST_CREATED: Final = "SELECT created_at FROM job ORDER BY seq DESC LIMIT 1"
_LAST_MINUTE: Final = f"""
    SELECT max(at) FROM span WHERE resolution = {Resolution.MINUTE:d} AND typeof(at) = 'integer'
"""  # noqa: S608  # our own number
# A job whose number cannot be right is above everything, and no reason to begin elsewhere.
_TOO_LOW: Final = f"""
    SELECT {_WHOLE.format("next_seq")}
        AND next_seq <= (SELECT max(seq) FROM job WHERE seq <= {WHOLE_MAX}) FROM store_state
"""  # noqa: S608  # our own names
_QUEUE: Final = "SELECT queue FROM lane WHERE id = ?"
_FORGET_MEASURED: Final = """
    DELETE FROM measured WHERE lane IN (SELECT id FROM lane WHERE queue = coalesce(?, queue))
"""
BEGUN_ANEW: Final = (
    "measured", "span", "bucket", "change", "reply", "cleanup", "rescoring", "pruned_key",
    "key_lane", "resting", "failure", "failed_job", "error_total", "worker_total",
    "inheriting",
)  # fmt: skip
# A key whose time to rest cannot be read is looked at again at once.
_IS_MOMENT: Final = CELLS["resting"]["until"].format("until")
_REST_NO_MORE: Final = f"UPDATE resting SET until = 0 WHERE NOT ({_IS_MOMENT})"  # noqa: S608  # our own names
# The jobs of a key whose account cannot be read stand in their lanes again; a lease that meets more
# of them than may run parks them under a new one.
_UNCOUNT: Final = (
    """
    UPDATE ready SET lane = (SELECT lane FROM job WHERE job.seq = ready.seq)
    WHERE lane IN (SELECT -id FROM key_lane WHERE {})
    """,
    """
    UPDATE place SET lane = NULL, key_lane = NULL
    WHERE key_lane IN (SELECT id FROM key_lane WHERE {})
    """,
)


def find(db: apsw.Connection) -> list[Damage]:
    """Every value of the store's own state that cannot be right."""
    return [*find_in_state(db), *_in_lanes(db)]


def told(db: apsw.Connection) -> Iterator[str]:
    """The same, as sentences, and what no write can put right."""
    for damage in find(db):
        if damage.column in _NAMES:
            yield f"{damage}: its jobs are not leased; restore a backup"
        else:
            yield f"{damage}, which cannot be right: the next write or sweep puts it right"
    row: Any = db.execute(_TOO_LOW).fetchone()
    if row is not None and row[0]:
        yield "store_state.next_seq is not above the numbers of all jobs: the next submit raises it"


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
    if columns & BASIS.keys():
        changes |= dict.fromkeys(BASIS, 0) | {"boot_id": "", "doubt_since": None}
    _update(db, "store_state", changes)
    for damage in damaged:
        logger.error("%s, which cannot be right: it was replaced", damage)
    return True


def damaged_lanes(db: apsw.Connection) -> set[int]:
    """The lanes of which something cannot be right."""
    return {int(damage.row) for damage in _in_lanes(db)}


def put_lanes_right(db: apsw.Connection, counts: Mapping[int, dict[str, int]]) -> None:
    """Begin anew what cannot be right in lanes, with these counters; inside a write."""
    by_lane: dict[int, set[str]] = {lane: set() for lane in counts}
    for damage in _in_lanes(db):
        by_lane[int(damage.row)].add(damage.column)
        logger.error("%s, which cannot be right: it was replaced", damage)
    for lane, columns in by_lane.items():
        changes: dict[str, Any] = counts[lane] | {name: 0 for name in TOTALS if name in columns}
        changes |= {name: f"unreadable-{lane}" for name in _NAMES if name in columns}
        if "made_at" in columns:
            changes["made_at"] = 0  # It is not known any more.
        if "deleted_after" in columns:
            changes["deleted_after"] = None
        if columns & _CLOSED.keys():
            changes |= _CLOSED
        _update(db, "lane", changes, lane)
        if columns & {*TOTALS, *COUNTERS}:
            queue: Any = db.execute(_QUEUE, (lane,)).fetchone()
            _reckon_from_here(db, queue[0])


def add_to_lanes(db: apsw.Connection, differences: Mapping[int, dict[str, int]]) -> None:
    """Correct counters by this much; inside a write."""
    assignments = ", ".join(f"{name} = {name} + ?" for name in COUNTERS)
    for lane, by_name in differences.items():
        values = (*(by_name[name] for name in COUNTERS), lane)
        db.execute(f"UPDATE lane SET {assignments} WHERE id = ?", values)  # noqa: S608  # our own names


def _reckon_from_here(db: apsw.Connection, queue: str | None) -> None:
    """What the counters of a queue, or of all, grow by counts from now on."""
    db.execute(_FORGET_MEASURED, (queue,))
    spans = SpanShelf(db)
    for name, total in spans.totals(queue).items():
        ever = msgspec.structs.replace(total, measures={})
        spans.keep([KeptSpan(Resolution.EVER, name, 0, ever)])


def find_records(db: apsw.Connection) -> list[Damage]:
    """Records that cannot be read and can be begun anew."""
    return [damage for table in BEGUN_ANEW for damage in damaged_cells.find(db, table)]


def begin_records_anew(db: apsw.Connection) -> None:
    """Delete them; inside a write."""
    found = find_records(db)
    db.execute(_REST_NO_MORE)
    for table in dict.fromkeys(damage.table for damage in found):
        unsound = f"NOT {damaged_cells.sound_row(table)}"
        if table == "key_lane":
            for statement in _UNCOUNT:
                db.execute(statement.format(unsound))
        db.execute(f"DELETE FROM {table} WHERE {unsound}")  # noqa: S608  # our own names
    if any(damage.table == "span" for damage in found):
        _reckon_from_here(db, None)
    for damage in found:
        logger.error("%s, which cannot be right: its row was deleted", damage)


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
    """Whether there is anything to put right in the store's own row."""
    row: Any = db.execute(_TOO_LOW).fetchone()
    return row is None or bool(row[0]) or bool(find_in_state(db))


def find_in_state(db: apsw.Connection) -> list[Damage]:
    """What cannot be right in the store's own row."""
    row: Any = db.execute(_IS_THERE).fetchone()
    if row is None:
        return [Damage("store_state", "", None, "*", "missing")]
    return damaged_cells.find(db, "store_state")


def _in_lanes(db: apsw.Connection) -> list[Damage]:
    return damaged_cells.find(db, "lane")


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

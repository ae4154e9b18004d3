"""One write: what it learns when it begins, and the state that its operations share.

Only three numbers of the store's state change with every write. The rest (generations, the open
minute, the basis of the clock) is compared as a whole with the last reading: while it is the same,
so are the rules, the settings and the basis derived from it. So most writes get the state for free.

The writer carries out functions of the write, or operations that can be done in groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, Generic, Self, TypeVar

import apsw

from leasehold.core.model.seals import check_unsealed
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.status import Status
from leasehold.core.model.stored import MOMENT_MAX
from leasehold.core.rules.clock import ClockBasis, StoreTime
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.sampling import end_minute
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.env import Env
from leasehold.stores.sqlite.reading.figures import (
    FIND_WORKER,
    MAKE_WORKER,
    SpanShelf,
    note_failures,
)
from leasehold.stores.sqlite.rules.known import StartBook, read_rules, read_settings
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX
from leasehold.stores.sqlite.writing import own_state
from leasehold.stores.sqlite.writing.clock import BASIS, WRITE_BASIS, StoreClock, move_leases
from leasehold.stores.tables.moving import READ_SEAL
from leasehold.stores.tables.step import TableStep

# A value that is not a number sorts above all numbers: an unreadable place is left out.
READ_STATE: Final = f"""
    SELECT clock, version_floor, next_seq, EXISTS (SELECT 1 FROM blocker),
           EXISTS (SELECT 1 FROM resolving) + 2 * EXISTS (SELECT 1 FROM inheriting),
           (SELECT min(crosses_at) FROM place WHERE crosses_at <= {MOMENT_MAX}),
           EXISTS (SELECT 1 FROM rescoring),
           queue_generation, settings_generation, open_minute, {BASIS}
    FROM store_state
"""
_CHANGING: Final = 7
"""How many of them may differ from write to write."""
NOTHING_LEFT: Final = (0, 0, None, 0)
"""What earlier writes usually leave to later ones: nothing."""


class Remembered:
    """The memory of one writing connection."""

    def __init__(self) -> None:
        # Before the first change there are neither rules nor settings to read.
        self._rules_generation = 0
        self._steady: tuple[Any, ...] = ()
        self.rules = RuleBook()
        self.settings = SettingsInForce.of(0, {})
        self.basis = ClockBasis()
        self.open_minute = 0
        self.worker_numbers: dict[tuple[str, int], int] = {}
        """Numbers of this minute's workers; idle ones are forgotten at its end."""
        self._step: Step | None = None
        """The last write, if it has left nothing for later ones."""
        self._step_at: tuple[apsw.Cursor | None, int] = (None, 0)
        """The connection of that write, and the version of the file that it saw."""

    def read(self, db: apsw.Connection, cursor: apsw.Cursor, env: Env) -> tuple[Any, ...]:
        """Read the changing part of the store's state; the rest is remembered here.

        Damage is repaired first, in the current write.
        """
        try:
            row: Any = cursor.execute(READ_STATE).fetchone()
            clock, floor, next_seq = row[:3]
            is_sound = (
                type(clock) is type(floor) is type(next_seq) is int
                and 0 <= clock <= MOMENT_MAX
                and 0 <= floor <= WHOLE_MAX
                and 0 < next_seq <= WHOLE_MAX
            )
        except (TypeError, ValueError):
            is_sound = False
        if not is_sound or row[_CHANGING:] != self._steady:
            if own_state.put_state_right(db, env) or not is_sound:
                row = db.execute(READ_STATE).fetchone()
            self._learn(db, row[_CHANGING:])
        changing: tuple[Any, ...] = row[:_CHANGING]
        return changing

    def keep(self, step: Step, cursor: apsw.Cursor) -> None:
        """Called after the commit of a write that knows everything it has changed in the store's
        state: as long as nobody else writes, the next write need not read it.
        """
        self._step = step
        # Any other commit changes the version, including this connection's own.
        self._step_at = (cursor, step.db.data_version())

    def take_up(self, db: apsw.Connection, cursor: apsw.Cursor) -> Step | None:
        """The last write, if the store is still as it left it. Only inside the next one."""
        step = self._step
        if step is None:
            return None
        # Forgotten at once: a write that is not kept at its end may have changed anything.
        self._step = None
        return step if self._step_at == (cursor, db.data_version()) else None

    def _learn(self, db: apsw.Connection, steady: tuple[Any, ...]) -> None:
        # A seal comes with a new generation, so a process that has not seen that generation checks
        # for one here.
        row: Any = db.execute(READ_SEAL).fetchone()
        check_unsealed(None if row is None else row[0], db.filename)
        # These generations are committed: an uncommitted one could be rolled back and used again.
        generation, set_at, self.open_minute, *basis = steady
        if generation != self._rules_generation:
            self.rules, self._rules_generation = read_rules(db), generation
        if set_at != self.settings.generation:
            self.settings = read_settings(db)
        self.basis = ClockBasis(*basis)
        self.worker_numbers = {}
        self._steady = steady


WRITE_STATE: Final = "UPDATE store_state SET clock = ?, version_floor = ?, next_seq = ?"
# A lane whose breaker has counted failures; it is closed, and news if it held jobs back.
FAILED_BEFORE: Final = "SELECT held_until FROM lane WHERE id = ? AND failures_in_row > 0"
CLOSE_BREAKER: Final = "UPDATE lane SET failures_in_row = 0, held_until = NULL WHERE id = ?"
ADD_MEASURED: Final = """
    INSERT INTO measured VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, micros = micros + excluded.micros
"""
INSERT_EVENT: Final = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Step(TableStep):
    """One write, from BEGIN to COMMIT, shared by the operations in it."""

    db: apsw.Connection
    is_first = True
    """Whether the current operation is the first of its write, which needs no savepoint."""
    leaves_nothing = True
    """Whether earlier writes, the clocks and the minute leave this write nothing extra to do."""
    is_one_more = False
    """Whether a job without options was added, which is all that a plain submit of it does."""
    opens_minute = False
    """Whether this write is the first of a new minute."""
    clock_basis = ClockBasis()
    """The remembered readings of the machine's clocks."""
    odd_time: StoreTime | None = None
    """The readings to remember from now on, if the clocks disagree."""
    insert_events = INSERT_EVENT
    insert_reply = "INSERT OR REPLACE INTO reply (id, at, data) VALUES ($1, $2, $3)"
    _rules_changed = False
    _settings_changed = False
    # By the last number that was assigned: above a damaged one there may be no other.
    add_audit = """
        INSERT INTO audit (n, at, actor, action, count, detail)
        VALUES (coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'audit'), 0) + 1,
                $1, $2, $3, $4, $5)
    """

    def __init__(
        self,
        db: apsw.Connection,
        cursor: apsw.Cursor,
        env: Env,
        now: int,
        version_floor: int,
        next_seq: int,
        rules: RuleBook,
        known_settings: SettingsInForce,
    ) -> None:
        super().__init__(env, now, rules, known_settings)
        self.db = db
        self.execute = db.execute
        self.many = self.executemany = db.executemany
        # Making a cursor for each takes as long as such a statement.
        self.write = cursor.execute
        """Executes a statement that returns no rows."""
        self.write_many = cursor.executemany
        self.version_floor = version_floor
        """Lease versions at or below this are never granted again."""
        self.next_seq = next_seq
        self._new_workers: set[str] = set()
        """The workers that this write was the first to see."""

    @classmethod
    def begin(
        cls,
        db: apsw.Connection,
        cursor: apsw.Cursor,
        env: Env,
        clock: StoreClock,
        remembered: Remembered,
    ) -> Step:
        basis = remembered.basis
        last = remembered.take_up(db, cursor)
        if last is not None:
            now, _, told = clock.tell(last.now, basis)
            if told is basis and now // MINUTE_MICROS <= remembered.open_minute:
                return last.begin_again(now)
        state = remembered.read(db, cursor, env)
        stored, floor, next_seq = state[:3]
        left = state[3:]
        basis = remembered.basis
        time = clock.tell(stored, basis)
        now = time.now
        step = cls(db, cursor, env, now, floor, next_seq, remembered.rules, remembered.settings)
        if left != NOTHING_LEFT:
            somebody_waits, some_unresolved, step.next_crossing, some_rescoring = left
            step.somebody_waits = bool(somebody_waits)
            step.some_unresolved = bool(some_unresolved & 1)
            step.some_inheriting = bool(some_unresolved & 2)
            step.some_rescoring = bool(some_rescoring)
            step.leaves_nothing = False
        step.clock_basis = time.basis
        if time.basis != basis:
            step.odd_time = time
        if now // MINUTE_MICROS > remembered.open_minute:
            step.opens_minute = True
        else:
            step.worker_numbers = remembered.worker_numbers
        if step.opens_minute or step.odd_time is not None:
            step.leaves_nothing = False
            step._prepare()
        return step

    def begin_again(self, now: int) -> Step:
        """Become the next write: everything that this one has gathered was written and taken."""
        self.now = now
        self.is_first = True
        self.is_one_more = False
        return self

    def end(self) -> None:
        """Write the clock and the used numbers; called once, before the commit."""
        self.write(WRITE_STATE, (self.now, self.version_floor, self.next_seq))
        if self.odd_time is not None:
            self.execute(WRITE_BASIS, self.clock_basis)

    def set_clock(self, now: int, basis: ClockBasis) -> None:
        """Change the time from here on, for this write and all later ones."""
        self.now, self.clock_basis = now, basis
        self.leaves_nothing = False
        self.odd_time = StoreTime(now, 0, basis)

    def _prepare(self) -> None:
        """Before anything changes, extend leases if the clock advanced without their holders; and
        in a new minute, save what happened in the previous one.
        """
        if self.odd_time is not None and self.odd_time.shift:
            move_leases(self.db, self.odd_time)
        if self.opens_minute:
            end_minute(SpanShelf(self.db), self.now // MINUTE_MICROS)

    def _number_of(self, worker: str, lane: int) -> int:
        row: Any = self.execute(FIND_WORKER, (worker, lane)).fetchone()
        if row is None:
            minute = self.now // MINUTE_MICROS * MINUTE_MICROS
            self.execute(MAKE_WORKER, (worker, lane, minute))
            self._new_workers.add(worker)
            return self.db.last_insert_rowid()
        number = int(row[0])
        # A number from this write is not remembered yet, since it may still be rolled back.
        if worker not in self._new_workers:
            self.worker_numbers[worker, lane] = number
        return number

    @property
    def buckets(self) -> StartBook:
        return StartBook(self.db, self.now)

    def look_again(self) -> None:
        """Does nothing: nothing is read ahead here."""

    def versions_erased(self, versions: Iterable[int]) -> None:
        self.version_floor = max((self.version_floor, *versions))

    def changed(self, statement: str, values: Sequence[Any]) -> int:
        self.execute(statement, values)
        return self.db.changes()

    def _load_rules(self) -> RuleBook:
        self._rules_changed = True
        return read_rules(self.db)

    def _load_settings(self) -> SettingsInForce:
        self._settings_changed = True
        return read_settings(self.db)

    def flush(self) -> None:
        """Write the counters and measurements."""
        self.write_counters()
        if self.measured:
            self.write_many(ADD_MEASURED, self.measured.take())
        if self.failed:
            note_failures(self.db, self.failed, self.now)
            self.failed.clear()

    def write_counters_of_work(self) -> None:
        # Completed jobs were not pending: their counts are written later, with those of the lease.
        if any(Status.PENDING in tally for tally in self._tally.values()):
            self.write_counters()
        elif self.succeeded:
            self._close_breakers()

    def _close_breakers(self) -> None:
        for lane in self.succeeded:
            failed: Any = self.execute(FAILED_BEFORE, (lane,)).fetchone()
            if failed is not None:
                self.execute(CLOSE_BREAKER, (lane,))
                self.hints.ready = self.hints.ready or failed[0] is not None
        self.succeeded.clear()

    def write_counters(self) -> None:
        """Write the counters, for a later read in the same operation."""
        if self.succeeded:
            self._close_breakers()
        if self._tally:
            for lane, tally in self._tally.items():
                self.write(_add_to(tuple(tally)), (*tally.values(), lane))
                if self.rules:
                    self._note_moves(lane, tally)
            self._tally.clear()

    def undo(self) -> None:
        """Undo the writes of the current operation."""
        if self.is_first:
            # The whole write so far is this operation's, and the file lock keeps others out
            # meanwhile.
            self.execute("ROLLBACK")
            self.execute("BEGIN IMMEDIATE")
            self._prepare()
        else:
            self.execute("ROLLBACK TO operation")
        self.is_one_more = False
        self.forget()

    def forget(self) -> None:
        """Drop the counts of an operation that failed."""
        self._tally.clear()
        self.measured.clear()
        self.failed.clear()
        self.succeeded.clear()
        self.moved.clear()
        self.lowered.clear()
        self.inheriting.clear()
        self.newly_shown.clear()
        self._queues_of_lanes.clear()
        self.ended.clear()
        self.hints.clear()
        if self._rules_changed:
            self.rules = read_rules(self.db)
        if self._settings_changed:
            self.settings = read_settings(self.db)


@cache
def _add_to(columns: tuple[str, ...]) -> str:
    changes = ", ".join(f"{name} = {name} + ?" for name in columns)
    return f"UPDATE lane SET {changes} WHERE id = ?"


T = TypeVar("T")


class Grouped(ABC, Generic[T]):
    """An operation that can share statements: operations that wait at the same time are done as
    one, unless one of them turns out to be bad.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self, step: Step) -> T:
        """Do this operation alone."""

    @classmethod
    @abstractmethod
    def together(cls, step: Step, operations: Sequence[Self]) -> list[T]:
        """Do all of these; if any of them fails, raises, and may leave partial changes."""

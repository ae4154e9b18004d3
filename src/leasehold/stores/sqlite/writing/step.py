"""What an operation works with inside a write: connection, time, counters and hints.

What the writer carries out: a function of the write, or one of a kind that is done in groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Generic, Self, TypeVar

import apsw
import msgspec

from leasehold.core.model.budget import DEPENDENTS_AT_ONCE, INHERITED_AT_ONCE, SHOWN_AT_ONCE
from leasehold.core.model.codes import EVENT_CODE, STATUS_CODE
from leasehold.core.model.outcome import JobError
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.clock import ClockBasis, StoreTime
from leasehold.core.rules.measuring import Measured
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.sampling import end_minute
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.env import Env
from leasehold.stores.sqlite.reading.sampling import Spans
from leasehold.stores.sqlite.reading.tallies import FIND_WORKER, MAKE_WORKER, note_failures
from leasehold.stores.sqlite.rules import settings
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.writing.clock import WRITE_BASIS, StoreClock, move_leases
from leasehold.stores.sqlite.writing.remembered import Remembered

WRITE_STATE: Final = "UPDATE store_state SET clock = ?, version_floor = ?, next_seq = ?"
# A lane whose breaker has counted failures; it is closed, and news if it held jobs back.
FAILED_BEFORE: Final = "SELECT held_until FROM lane WHERE id = ? AND failures_in_row > 0"
CLOSE_BREAKER: Final = "UPDATE lane SET failures_in_row = 0, held_until = NULL WHERE id = ?"
NEXT_GENERATION: Final = "UPDATE store_state SET queue_generation = queue_generation + 1"
NEXT_SETTINGS: Final = "UPDATE store_state SET settings_generation = settings_generation + 1"
ADD_AUDIT: Final = "INSERT INTO audit (at, actor, action, count, detail) VALUES (?, ?, ?, ?, ?)"
ADD_MEASURED: Final = """
    INSERT INTO measured VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, micros = micros + excluded.micros
"""
INSERT_EVENT: Final = "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Hints:
    """Whom to wake after the commit. Losing one costs time, never a job: nothing may hang on it."""

    __slots__ = ("cancel_requested", "ended", "ready", "unresolved")

    def __init__(self) -> None:
        self.clear()

    def __bool__(self) -> bool:
        return self.ready or bool(self.ended) or bool(self.cancel_requested)

    def clear(self) -> None:
        self.ready = False
        self.ended: list[str] = []
        self.unresolved = False
        """Whether this write left dependents to another one; the table `resolving` names them."""
        self.cancel_requested: list[str] = []

    def take(self, other: Hints) -> None:
        """Add what another one holds, and leave it empty."""
        if other:
            self.ready = self.ready or other.ready
            self.unresolved = self.unresolved or other.unresolved
            self.ended += other.ended
            self.cancel_requested += other.cancel_requested
            other.clear()


class Step:
    """One write, from BEGIN to COMMIT, shared by the operations in it."""

    def __init__(
        self,
        db: apsw.Connection,
        env: Env,
        now: int,
        version_floor: int,
        next_seq: int,
        rules: RuleBook,
        known_settings: SettingsInForce,
    ) -> None:
        self.db = db
        self.execute = db.execute
        self.executemany = db.executemany
        self.random = env.random
        self.now = now
        """The store's clock, the same for the whole write."""
        self.version_floor = version_floor
        """No lease version at or below this is granted any more."""
        self.next_seq = next_seq
        self.new_lanes: set[tuple[str, str]] = set()
        """Queue and task of the lanes that this write makes, or made and took back."""
        self.succeeded: set[int] = set()
        """Lanes in which a job was completed: their circuit breakers close."""
        self.rules = rules
        """The queues that have rules, by name."""
        self.settings = known_settings
        """What is set in the store."""
        self.moved: dict[int, tuple[int, int]] = {}
        """By lane, how many more jobs are pending and running; only while queues have rules."""
        self.is_first = True
        """Whether the operation under way is the first of its write; it needs no savepoint."""
        self.hints = Hints()
        self.ended: list[str] = []
        """Jobs that ended in this operation: `dependents.resolve` must look at each of them."""
        self.somebody_waits = False
        """Whether any job may wait for another: if not, an end concerns nobody."""
        self.some_unresolved = False
        """Whether jobs that ended may still block others."""
        self.dependents_left = DEPENDENTS_AT_ONCE
        """How many more dependents this write may deal with."""
        self.shown_left = SHOWN_AT_ONCE
        """How many more parked jobs this write may show to leases."""
        self.lowered: set[int] = set()
        """Jobs that somebody does not wait for any more who may have raised their priority."""
        self.inheriting: list[tuple[int, int, int]] = []
        """A heap of jobs whose priority for others has changed: the priority below zero, its
        number, and up to which number those that it waits for know of it."""
        self.some_inheriting = False
        """Whether earlier writes have left such changes to be followed."""
        self.inherited_left = INHERITED_AT_ONCE
        """How many more jobs this write may compare with those that wait for them."""
        self.next_crossing: int | None = None
        """When the first pending job has to be placed anew, as far as earlier writes know."""
        self.some_rescoring = False
        """Whether jobs have to be placed anew since what counts in their queue has changed."""
        self.measured = Measured()
        self.failed: list[tuple[int, str, JobError]] = []
        """Attempts that failed in this operation: lane, job, and the error."""
        self.worker_numbers: dict[tuple[str, int], int] = {}
        """Workers in lanes, which earlier writes of this minute have met."""
        self._new_workers: set[str] = set()
        """Those that this write has met first."""
        self.opens_minute = False
        """Whether this write is the first of a new minute."""
        self.clock_basis = ClockBasis()
        """What is remembered of the machine's clocks."""
        self.odd_time: StoreTime | None = None
        """What is to be remembered of them from now on, if they disagree."""
        self.newly_shown: set[int] = set()
        """Jobs that leases see now because their key has a slot for them."""
        self._rules_changed = False
        self._settings_changed = False
        self._tally: defaultdict[int, defaultdict[str, int]] = defaultdict(_counters)

    @classmethod
    def begin(
        cls, db: apsw.Connection, env: Env, clock: StoreClock, remembered: Remembered
    ) -> Step:
        stored, floor, next_seq, somebody_waits, some_unresolved, next_crossing, some_rescoring = (
            remembered.read(db, env)
        )
        basis = remembered.basis
        time = clock.tell(stored, basis)
        step = cls(db, env, time.now, floor, next_seq, remembered.rules, remembered.settings)
        step.somebody_waits = bool(somebody_waits)
        step.some_unresolved = bool(some_unresolved & 1)
        step.some_inheriting = bool(some_unresolved & 2)
        step.next_crossing = next_crossing
        step.some_rescoring = bool(some_rescoring)
        step.clock_basis = time.basis
        if time.basis != basis:
            step.odd_time = time
        step.opens_minute = step.now // MINUTE_MICROS > remembered.open_minute
        if not step.opens_minute:
            step.worker_numbers = remembered.worker_numbers
        step._prepare()
        return step

    def end(self) -> None:
        """Write down the clock and what was used up; called once, before the commit."""
        self.execute(WRITE_STATE, (self.now, self.version_floor, self.next_seq))
        if self.odd_time is not None:
            self.execute(WRITE_BASIS, self.clock_basis)

    def set_clock(self, now: int, basis: ClockBasis) -> None:
        """Let it be another time from here on, for this write and all that follow."""
        self.now, self.clock_basis = now, basis
        self.odd_time = StoreTime(now, 0, basis)

    def _prepare(self) -> None:
        """Before anything is changed, let leases end later if the clock moved on without their
        holders; and in a new minute, keep what happened in the one before.
        """
        if self.odd_time is not None and self.odd_time.shift:
            move_leases(self.db, self.odd_time)
        if self.opens_minute:
            end_minute(Spans(self.db), self.now // MINUTE_MICROS)

    def jobs_ended(self, job_ids: Sequence[str]) -> None:
        """Jobs have ended: their dependents are dealt with, and whoever waits for them is woken."""
        self.ended += job_ids
        self.hints.ended += job_ids

    def count(self, lane: int, name: str, by: int = 1) -> None:
        """Change a lane's counter (a column of `lane`)."""
        self._tally[lane][name] += by

    def worked(self, worker: str, lane: int, names: Sequence[str], jobs: int) -> None:
        """Count jobs of a lane for a worker, under those names that are counted of workers."""
        number = self.worker_numbers.get((worker, lane)) or self._number_of(worker, lane)
        self.measured.worked(number, names, jobs)

    def _number_of(self, worker: str, lane: int) -> int:
        row: Any = self.execute(FIND_WORKER, (worker, lane)).fetchone()
        if row is None:
            minute = self.now // MINUTE_MICROS * MINUTE_MICROS
            self.execute(MAKE_WORKER, (worker, lane, minute))
            self._new_workers.add(worker)
            return self.db.last_insert_rowid()
        number = int(row[0])
        # One met in this very write is not remembered yet: it may still be rolled back.
        if worker not in self._new_workers:
            self.worker_numbers[worker, lane] = number
        return number

    def move(self, lane: int, before: Status, after: Status, jobs: int = 1) -> None:
        """Count jobs of a lane from one status to another."""
        tally = self._tally[lane]
        tally[before.value] -= jobs
        tally[after.value] += jobs

    def rules_changed(self) -> None:
        """Let every process read the rules of the queues again."""
        self.execute(NEXT_GENERATION)
        self._rules_changed = True
        self.rules = load(self.db)

    def settings_changed(self) -> None:
        """Let every process read the settings again."""
        self.execute(NEXT_SETTINGS)
        self._settings_changed = True
        self.settings = settings.load(self.db)

    def flush(self) -> None:
        """Write the counters, and what was measured."""
        self.write_counters()
        measured = self.measured.take()
        if measured:
            self.executemany(ADD_MEASURED, measured)
        if self.failed:
            note_failures(self.db, self.failed, self.now)
            self.failed.clear()

    def write_counters(self) -> None:
        """Write the counters, for who reads them in this very operation."""
        for lane in self.succeeded:
            failed: Any = self.execute(FAILED_BEFORE, (lane,)).fetchone()
            if failed is not None:
                self.execute(CLOSE_BREAKER, (lane,))
                self.hints.ready = self.hints.ready or failed[0] is not None
        self.succeeded.clear()
        if self._tally:
            for lane, tally in self._tally.items():
                self.execute(_add_to(tuple(tally)), (*tally.values(), lane))
                if self.rules:
                    self._note_moves(lane, tally)
            self._tally.clear()

    def _note_moves(self, lane: int, tally: Mapping[str, int]) -> None:
        pending, running = self.moved.get(lane, (0, 0))
        self.moved[lane] = (pending + tally.get("pending", 0), running + tally.get("running", 0))

    def undo(self) -> None:
        """Take back what the current operation has written so far."""
        if self.is_first:
            # All of the write so far is its own, and the file lock keeps others out meanwhile.
            self.execute("ROLLBACK")
            self.execute("BEGIN IMMEDIATE")
            self._prepare()
        else:
            self.execute("ROLLBACK TO operation")
        self.forget()

    def forget(self) -> None:
        """Drop what an operation that failed has counted."""
        self._tally.clear()
        self.measured.clear()
        self.failed.clear()
        self.succeeded.clear()
        self.moved.clear()
        self.lowered.clear()
        self.inheriting.clear()
        self.newly_shown.clear()
        self.ended.clear()
        self.hints.clear()
        if self._rules_changed:
            self.rules = load(self.db)
        if self._settings_changed:
            self.settings = settings.load(self.db)

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        """Write down an administrative action."""
        document = msgspec.json.encode(detail).decode()
        self.execute(ADD_AUDIT, (self.now, actor, action, count, document))

    def record(
        self,
        seq: int,
        n: int,
        event: Event,
        before: Status,
        after: Status,
        *,
        attempts: int,
        worker: str | None = None,
        version: int = 0,
        message: str = "",
    ) -> None:
        """Write one history event."""
        self.execute(
            INSERT_EVENT,
            (
                seq,
                n,
                self.now,
                EVENT_CODE[event],
                STATUS_CODE[before],
                STATUS_CODE[after],
                attempts,
                worker,
                version,
                message or None,
            ),
        )


@cache
def _add_to(columns: tuple[str, ...]) -> str:
    changes = ", ".join(f"{name} = {name} + ?" for name in columns)
    return f"UPDATE lane SET {changes} WHERE id = ?"  # noqa: S608  # our own names


def _counters() -> defaultdict[str, int]:
    return defaultdict(int)


def _row(cursor: apsw.Cursor) -> Any:
    return cursor.fetchone()


T = TypeVar("T")


class Grouped(ABC, Generic[T]):
    """An operation of a kind that shares statements: those that wait at the same time are done as
    one, unless one of them turns out to be bad.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self, step: Step) -> T:
        """Do this one alone."""

    @classmethod
    @abstractmethod
    def together(cls, step: Step, operations: Sequence[Self]) -> list[T]:
        """Do all of these; raises, and may leave anything behind, if any of them would."""

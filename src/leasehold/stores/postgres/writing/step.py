"""The state of an operation inside a write: connection, time, counters and hints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

from leasehold.core.model.outcome import JobError
from leasehold.core.model.span import BANDS, MINUTE_MICROS, SUMMED
from leasehold.core.model.status import Status
from leasehold.core.rules.placing import RowKey
from leasehold.core.rules.rule_book import RuleBook
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.env import Env
from leasehold.stores.postgres.leasing.fronts import Fronts
from leasehold.stores.postgres.reading.figures import FIND_WORKER, MAKE_WORKER, note_failures
from leasehold.stores.postgres.rules import known
from leasehold.stores.postgres.rules.known import StartBook, read_rules
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import (
    CELLS_MAX,
    SqlConnection,
    SqlCursor,
    unnested,
    values_of,
)
from leasehold.stores.postgres.writing.grants import Grants
from leasehold.stores.postgres.writing.loans import Loans
from leasehold.stores.postgres.writing.remembered import Known, StateRow
from leasehold.stores.tables.step import Row, TableStep

# A lane whose breaker has counted failures; it is closed, and news if it held jobs back.
FAILED_BEFORE: Final = "SELECT id, held_until FROM lane WHERE id = ANY($1) AND failures_in_row > 0"
CLOSE_BREAKERS: Final = "UPDATE lane SET failures_in_row = 0, held_until = NULL WHERE id = ANY($1)"
INSERT_EVENTS: Final = "INSERT INTO event SELECT * FROM " + unnested(
    "bigint bigint bigint bigint bigint bigint bigint text bigint text"
)
# Rows are only added, and summed up by readers, so no write waits for another one's row.
MEASURED_COLUMNS: Final = ("bigint",) * 5
ADD_MEASURED: Final = f"INSERT INTO measured SELECT * FROM {unnested(' '.join(MEASURED_COLUMNS))}"
COUNTERS: Final = (
    *(status.value for status in Status),
    *(f"total_{name}" for name in SUMMED),
    *(f"pending_{band}" for band in BANDS),
)
# The counts of concurrent writes.
FOLD: Final = f"""
    WITH gone AS (DELETE FROM lane_delta RETURNING *), total AS (
        SELECT lane, {", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in COUNTERS)}
        FROM gone GROUP BY lane)
    UPDATE lane SET {", ".join(f"{name} = lane.{name} + total.{name}" for name in COUNTERS)}
    FROM total WHERE total.lane = lane.id
"""
TAKE_NUMBER: Final = "SELECT nextval('job_seq')"
TAKE_NUMBERS: Final = f"{TAKE_NUMBER} FROM generate_series(1, $1)"

PUSHED_ROWS_MIN: Final = 50
"""A statement about this many rows takes the server about as long as waking up."""

Statement = tuple[str, Sequence[Any]]
"""A statement and its values."""


class NotAlone(Exception):  # noqa: N818  # no error: it never leaves `writing`
    """A write found that it must be alone; it is undone and repeated alone."""


class NotFirst(Exception):  # noqa: N818  # as above
    """A write in a transaction that will end alone found that it must go first (`Turn.go_first`);
    it is undone and repeated.
    """


class WasRestored(NotAlone):
    """The store was restored from a dump: nothing may be sent before its leases are taken back."""


class MinuteIsOver(NotAlone):
    """The same, but only because a minute has to be ended, which can be left to others."""


class Step(TableStep):
    """One write, from BEGIN to COMMIT.

    It is alone (`alone`) or shares its turn with others; then its counts are folded in later, and
    nothing may depend on rows that it cannot see.
    """

    db: SqlConnection
    grants: Grants
    insert_events = INSERT_EVENTS
    insert_reply = """
        INSERT INTO reply (id, at, data) VALUES ($1, $2, $3)
        ON CONFLICT (id) DO UPDATE SET at = excluded.at, data = excluded.data
    """

    def __init__(
        self,
        db: SqlConnection,
        env: Env,
        now: int,
        found: StateRow,
        known: Known,
        worker_numbers: dict[tuple[str, int], int],
        ahead: dict[str, tuple[Sequence[Any], SqlCursor]],
        loans: Loans,
        fronts: Fronts,
        *,
        alone: bool,
    ) -> None:
        super().__init__(env, now, known.rules, known.settings)
        self.db = db
        self._ahead = ahead
        self.execute = db.execute
        self.many = db.many
        self.loans = loans
        self.fronts = fronts
        self.indexed = known.indexed
        """The lanes of which an accelerator keeps the order, each with its queue."""
        self.alone = alone
        self.found = found
        self.somebody_waits = found.somebody_waits
        self.some_unresolved = found.some_unresolved
        self.some_inheriting = found.some_inheriting
        self.next_crossing = found.next_crossing
        self.some_rescoring = found.some_rescoring
        self.next_due = found.next_due
        self.worker_numbers = worker_numbers
        self._new_workers: set[int] = set()
        """The workers that this write was the first to see."""

    def undo(self) -> None:
        """Undo what this write has done; it may continue reading, and then raises."""
        self.db.undo()

    def must_be_alone(self) -> None:
        """Called before anything that other writes must not do at the same time."""
        if not self.alone:
            raise NotAlone

    def fold(self) -> None:
        """Add up the counts of concurrent writes. Only for a write that is alone, before it reads a
        counter.
        """
        self.execute(FOLD)

    def take_numbers(self, jobs: int) -> list[int]:
        """Job numbers that were never used, ascending."""
        return [number for (number,) in self.first(*numbers_for(jobs))]

    def first(self, statement: str, values: Sequence[Any]) -> SqlCursor:
        """Execute a statement that this write may have sent ahead, with its look at the state."""
        sent, cursor = self._ahead.pop(statement, (None, None))
        return cursor if cursor and sent == values else self.db.execute(statement, values)

    def push(self, rows: int) -> None:
        """Make the server begin with the statements so far, if they are about many rows; otherwise
        it would be woken twice for work that takes almost no time.
        """
        if rows >= PUSHED_ROWS_MIN:
            self.db.push()

    def look_again(self) -> None:
        """Called when jobs' places or held lanes change: statements sent ahead are stale."""
        self._ahead.clear()

    def changed(self, statement: str, values: Sequence[Any]) -> int:
        return self.db.changed(statement, values)

    def due_at(self, moments: Iterable[int]) -> None:
        """Record the due times of jobs that have begun to wait."""
        known = () if self.next_due is None else (self.next_due,)
        self.next_due = min((*known, *moments), default=None)

    def now_stand(self, keys: Iterable[RowKey]) -> None:
        if self.indexed:
            self.hints.entered += [key for key in keys if key[0] in self.indexed]

    def attempts_failed(self, failed: Sequence[tuple[int, str, JobError]]) -> None:
        if failed:
            self.must_be_alone()
            super().attempts_failed(failed)

    def _number_of(self, worker: str, lane: int) -> int:
        row: Any = self.execute(FIND_WORKER, (worker, lane)).fetchone()
        if row is None:
            self.must_be_alone()
            minute = self.now // MINUTE_MICROS * MINUTE_MICROS
            row = self.execute(MAKE_WORKER, (worker, lane, minute)).fetchone()
            self._new_workers.add(row[0])
        elif row[0] not in self._new_workers:
            # A number created in this write is not remembered, since it may still be rolled back.
            self.worker_numbers[worker, lane] = row[0]
        return int(row[0])

    def storable(self, text: str) -> str:
        return storable(text)

    def storable_rows(self, rows: list[Row], texts: slice) -> list[Row]:
        first, last, _ = texts.indices(len(rows[0])) if rows else (0, 0, 1)
        return [(*row[:first], *map(storable, row[first:last]), *row[last:]) for row in rows]

    @property
    def buckets(self) -> StartBook:
        return StartBook(self.db, self.now)

    def _load_rules(self) -> RuleBook:
        return read_rules(self.db)

    def _load_settings(self) -> SettingsInForce:
        return known.read_settings(self.db)

    def flush(self) -> None:
        """Write the counters and measurements."""
        if self.failed:
            note_failures(self.db, self.failed, self.now)
            self.failed.clear()
        measured = self.measured.take()
        if not self._write_together(measured):
            self.write_counters()
            self.many(ADD_MEASURED, measured)

    def _write_together(self, measured: Sequence[tuple[int, ...]]) -> bool:
        """Write the counters of one lane and a few measurements by one statement."""
        if self.alone or self.rules or len(self._tally) != 1:
            return False
        if not 0 < len(measured) * len(MEASURED_COLUMNS) <= CELLS_MAX:
            return False
        [(lane, tally)] = self._tally.items()
        names = tuple(name for name, by in tally.items() if by)
        if names:
            statement = _note_and_measure(names, len(measured))
            self.execute(statement, (lane, *map(tally.__getitem__, names), *chain(*measured)))
            self._tally.clear()
            self.succeeded.clear()
        return bool(names)

    def write_counters(self) -> None:
        """Write the counters, for a later read in the same write."""
        if self.succeeded and self.alone:
            failed = self.execute(FAILED_BEFORE, (list(self.succeeded),)).fetchall()
            if failed:
                self.execute(CLOSE_BREAKERS, ([lane for lane, _ in failed],))
                self.look_again()
                held = any(held_until is not None for _, held_until in failed)
                self.hints.ready = self.hints.ready or held
        self.succeeded.clear()
        for lane, tally in self._tally.items():
            names = tuple(name for name, by in tally.items() if by)
            if names:
                statement = _add_to(names) if self.alone else _note(names)
                self.execute(statement, (lane, *(tally[name] for name in names)))
            if self.rules:
                self._note_moves(lane, tally)
        self._tally.clear()


def numbers_for(jobs: int) -> Statement:
    """The statement that returns new job numbers."""
    return (TAKE_NUMBER, ()) if jobs == 1 else (TAKE_NUMBERS, (jobs,))


@cache
def _add_to(columns: tuple[str, ...]) -> str:
    changes = ", ".join(f"{name} = {name} + ${n}" for n, name in enumerate(columns, start=2))
    return f"UPDATE lane SET {changes} WHERE id = $1"


@cache
def _note(columns: tuple[str, ...]) -> str:
    values = ", ".join(f"${n}" for n in range(1, len(columns) + 2))
    return f"INSERT INTO lane_delta (lane, {', '.join(columns)}) VALUES ({values})"


@cache
def _note_and_measure(columns: tuple[str, ...], rows: int) -> str:
    added = values_of(MEASURED_COLUMNS, rows, len(columns) + 2)
    return f"WITH noted AS ({_note(columns)}) INSERT INTO measured {added}"


def row_of(cursor: Any) -> Any:
    """The first row that a statement returned, or None."""
    return cursor.fetchone()

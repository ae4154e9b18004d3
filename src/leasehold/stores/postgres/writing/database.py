"""An open store: its connections, one way to write, one way to read, and its clock.

The order of locks is the same in every write, so that writes never deadlock:

1. the *turn* of the store (`writing.turn`), held alone or shared with others; before it, the lock
   to go *first*, by the transaction of a task that shares a turn now and will want to be alone;
2. a write that is alone waits for nothing more: there is no other writer;
3. a write that shares its turn takes rows of `running` in the order of the jobs' numbers, then the
   row of one worker; a submit takes the ids of new jobs in their own order. Rows of `waiting` and
   `ready` are taken at any time, but only unlocked ones (SKIP LOCKED), without waiting. Nor does a
   write wait for its mark (`writing.marks`), which only a caller looking for a lost write may want.

While the change feed is followed, every commit shares one more lock, which is never taken
exclusively (`reading.feed`), so nobody waits for it. The feed's triggers are dropped only where
that need not wait for anybody.

Partitions of the archive are made and dropped without a turn, between two tries of a clean-up's
write (`keeping.days`): a row of `archive_day` first, then the archive, in both.

The transaction of a task (`leasing.held`) is open for long before it takes its turn: it holds only
its row of `job`, FOR KEY SHARE. Only a write that takes a job from its holder needs a stronger lock
on that row, and never waits for it. An application's own transaction may hold rows of its own
before it takes its turn; if two of them deadlock, one gets StoreBusyError.
`tests/stores/test_postgres_lock_order.py` runs every pair of verbs against each other.

Submits, leases, settlements and renewals share their turn, as long as nothing that they touch has
an invariant across jobs: each declares that by `side_by_side`, or by `Step.must_be_alone` if it
finds out later. Everything else takes its turn alone, as every write of a SQLite store does, and is
short. So limits, dependencies, parked jobs and schedules never race.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg.errors import LockNotAvailable, UniqueViolation

from leasehold.core.contract.accelerator import Accelerator
from leasehold.core.model.lives import Life, LivesHere
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.rules.clock import HalfPace
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.env import SYSTEM, Env
from leasehold.errors import StoreClosedError, StoreError, StoreLostError
from leasehold.forking import at_fork
from leasehold.interrupts import SHIELD
from leasehold.stores.postgres.leasing.fronts import Fronts
from leasehold.stores.postgres.leasing.order import ReadyRows
from leasehold.stores.postgres.leasing.unanswered import Unanswered
from leasehold.stores.postgres.rules.known import LaneNumbers
from leasehold.stores.postgres.schema.migrate import migrate
from leasehold.stores.postgres.server import address as addresses
from leasehold.stores.postgres.server.clock import SERVER_MICROS, StoreClock
from leasehold.stores.postgres.server.connection import SqlConnection, SqlCursor, one_moment
from leasehold.stores.postgres.server.failures import (
    OF_THE_CONNECTION,
    TRY_AGAIN,
    is_lost,
    translated,
)
from leasehold.stores.postgres.server.lending import Lending
from leasehold.stores.postgres.server.life import Deaths
from leasehold.stores.postgres.server.session import ServerSession
from leasehold.stores.postgres.submitting.dependencies import Links
from leasehold.stores.postgres.writing import preparing, remembered
from leasehold.stores.postgres.writing.grants import Grants
from leasehold.stores.postgres.writing.insiders import INSIDERS
from leasehold.stores.postgres.writing.loans import Loans
from leasehold.stores.postgres.writing.marks import (
    MARK_IS_GONE,
    InOnePiece,
    Mark,
    Marks,
    is_left,
    leave,
)
from leasehold.stores.postgres.writing.outcome import Outcome
from leasehold.stores.postgres.writing.remembered import Remembered, StateRow
from leasehold.stores.postgres.writing.step import (
    MinuteIsOver,
    NotAlone,
    Statement,
    Step,
    WasRestored,
)
from leasehold.stores.postgres.writing.tries import TRIES_MAX, MaySideBySide, Tries, Way
from leasehold.stores.postgres.writing.turn import Turn
from leasehold.stores.tables import statements
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.gate import tell_who_may_go_on
from leasehold.stores.tables.step import Hints

T = TypeVar("T")

logger = logging.getLogger("leasehold.store")

STORE_ID: Final = "SELECT store_id FROM store_state"
NOTE_ALONE: Final = """
    UPDATE store_state SET clock = greatest(clock, $1), alone_generation = alone_generation + 1
"""
NOW: Final = f"SELECT clock, {SERVER_MICROS}, pace_clock, pace_server FROM store_state"


class Database(TableDatabase):
    """The object passed to every verb of the store; the verbs themselves are functions of it."""

    _links = Links
    _ready = ReadyRows

    def __init__(
        self, url: str, *, env: Env = SYSTEM, accelerator: Accelerator | None = None
    ) -> None:
        self.env = env
        self.accelerator = accelerator
        self.url = url
        self.address = addresses.parse(url)
        self.lanes = LaneNumbers()
        self.grants = Grants()
        self._inherited: list[object] = []
        """The parent's connections after a fork, kept so that garbage collection does not close
        them.
        """
        self.remembered = Remembered(self.address.shown)
        self.version_base = 0
        self._closed = False
        self._begin()
        try:
            with translated(self.address), self._lending.connection() as db:
                migrate(db, self.address, env)
                with db.transaction():
                    self.turn = Turn(db, self.address)
                    row: Any = db.execute(STORE_ID).fetchone()
                self.store_id: str = row[0]
            self.session.serve(self.store_id)
        except BaseException:
            self.close()
            raise
        _OPEN.add(self)

    def _begin(self) -> None:
        """Create the state that belongs to one process; nothing is connected yet."""
        self.clock = StoreClock(self.env)
        self._lending = lending = Lending(self.address, self.check_open, self.env.clock)
        self.fronts = Fronts(self.accelerator)
        self.session = ServerSession(
            self.address, self.env, lending.reach, self.accelerator, self.fronts.is_short.set
        )
        self.deaths = Deaths(self.address.schema, self.env.clock)
        self.lives = LivesHere()
        self.entered: dict[Life, WorkerInfo] = {}
        """The workers that this process has registered, as it has entered them."""
        self.group_rounds = GroupRounds()
        self.marks = Marks(self.env)
        self.unanswered = Unanswered()

    def begin_anew_in_child(self) -> None:
        """After a fork: connections, threads and listeners are the parent's."""
        self._inherited.append((self._lending, self.session))
        self._begin()
        self.session.serve(self.store_id)

    def close(self) -> None:
        self._closed = True
        self.fronts.is_over.set()
        self.fronts.is_short.set()  # Whoever waits for that finds out.
        self.session.close()
        self._lending.close()

    def check_open(self) -> None:
        """Raise if the store can no longer be used."""
        if self._closed:
            raise StoreClosedError(f"{self.address.shown}: the store is closed")

    # -- writing -----------------------------------------------------------------------------

    def write(
        self,
        operation: Callable[[Step], T],
        *,
        go_on: bool = True,
        side_by_side: MaySideBySide | None = None,
        ahead: Sequence[Statement] = (),
        in_one_piece: InOnePiece[T] | None = None,
    ) -> T:
        """Carry out an operation in one transaction; its writes are durable when this returns.

        `side_by_side` says, given the state that the write finds, whether it may share its turn.
        The statements in `ahead` are sent before that state is known, and cost no round trip of
        their own; the operation gets their results from `Step.first`. `in_one_piece` does the same
        as the operation if nothing that this process remembers has changed; it is tried first.
        """
        self.check_open()
        INSIDERS.check_outside(self.address)
        answer = self._run(operation, side_by_side, ahead, in_one_piece)
        if self._unresolved and go_on:
            self._resolve_the_rest()
        return answer

    def _run(
        self,
        operation: Callable[[Step], T],
        side_by_side: MaySideBySide | None = None,
        ahead: Sequence[Statement] = (),
        in_one_piece: InOnePiece[T] | None = None,
    ) -> T:
        with translated(self.address):
            tries = Tries(Way(side_by_side), self.address.lock_timeout_seconds)
            while True:
                tries.begin()
                outcome: Outcome[T] = Outcome()
                whole, in_one_piece = in_one_piece, None
                try:
                    with self._told_of(outcome), self._lending.connection() as db:
                        sent = ahead if tries.may_send_ahead else ()
                        self._transaction(db, operation, tries.way, sent, outcome, whole)
                except (NotAlone, UniqueViolation) as error:
                    # Another write may have just used the id of a job. Alone, it can be found out
                    # which.
                    tries.go_alone(error)
                    continue
                except (*TRY_AGAIN, MARK_IS_GONE) as error:
                    if not tries.is_last:
                        continue
                    raise StoreError(
                        f"{self.address.shown}: gave up after {TRIES_MAX} conflicts with other "
                        f"writes: {error}"
                    ) from error
                except LockNotAvailable:
                    if tries.give_way():
                        continue
                    if tries.is_last:
                        raise
                    with self._lending.connection() as db, db.transaction():
                        self.turn.free(db, may_be_free=not tries.went_on)
                    tries.go_on()
                    continue
                except OF_THE_CONNECTION as error:
                    if not (outcome.has_begun and is_lost(error)):
                        raise
                    if not outcome.was_committed(self.address, self.env.clock):
                        if not tries.is_last:
                            continue
                        raise
                self.after_commit(outcome.hints, are_told=outcome.is_told)
                return outcome.answer

    @contextlib.contextmanager
    def _told_of(self, outcome: Outcome[T]) -> Iterator[None]:
        """Wake the listeners also for a write that was interrupted, perhaps after its commit.

        Hints of an undone write do no harm; those of a committed one would be missed.
        """
        try:
            yield
        except BaseException as error:
            if outcome.is_sent and not isinstance(error, psycopg.Error):
                self.after_commit(outcome.hints)
            raise

    def _transaction(
        self,
        db: SqlConnection,
        operation: Callable[[Step], T],
        way: Way,
        ahead: Sequence[Statement],
        outcome: Outcome[T],
        whole: InOnePiece[T] | None = None,
    ) -> None:
        outcome.has_begun = True
        mark = self.marks.take()
        if whole is not None and not mark.is_new:
            if self._in_one_piece(db, whole, outcome, mark):
                return
            mark = self.marks.take()
        try:
            with Loans(self.accelerator) as loans:
                with self._undone_on_error(db, outcome), db.pipelined():
                    db.begin()
                    answer, step = self.carry_out(db, operation, way, loans, ahead)
                    left = leave(step, mark)
                    outcome.mark = mark.next
                    self._commit(db, outcome, answer, step.hints)
                loans.keep()
        except MARK_IS_GONE:
            self.marks.drop()
            raise
        except BaseException:
            if not outcome.is_sent:
                self.marks.give_back(mark)
            raise
        self.marks.give_back(mark.next if is_left(left) else mark)

    def _in_one_piece(
        self, db: SqlConnection, whole: InOnePiece[T], outcome: Outcome[T], mark: Mark
    ) -> bool:
        """Carry out a write without reading the state; returns whether it has done anything."""
        try:
            with self._undone_on_error(db, outcome), db.pipelined():
                db.begin()
                self.turn.take(db, alone=False)
                found = db.execute(whole.statement, whole.values(mark))
                outcome.mark = mark.next
                self._commit(db, outcome, whole.answer, whole.hints)
        except UniqueViolation:
            self.marks.give_back(mark)
            raise
        row: Any = found.fetchone()
        is_as_remembered, is_done = row
        if is_done:
            self.marks.give_back(mark.next)
            return True
        if not is_as_remembered:
            self.marks.give_back(mark)  # Otherwise it is gone.
        outcome.begin_anew()
        return False

    def _commit(self, db: SqlConnection, outcome: Outcome[T], answer: T, hints: Hints) -> None:
        """Commit, and tell other processes right behind it if that should happen now."""
        outcome.send(db, answer, hints)
        news = self.session.behind_commit(hints)
        if news is not None:
            db.execute(*news)
            outcome.takes_news = True

    @contextlib.contextmanager
    def _undone_on_error(self, db: SqlConnection, outcome: Outcome[T]) -> Iterator[None]:
        """Undo a write that was not committed. If only its news failed, it is sent again."""
        try:
            yield
            outcome.is_told = outcome.takes_news
        except BaseException as error:
            if not (outcome.is_durable and isinstance(error, psycopg.Error)):
                with contextlib.suppress(psycopg.Error):
                    db.raw.rollback()
                raise

    @contextlib.contextmanager
    def alone(self) -> Iterator[SqlConnection]:
        """A bare transaction, even in a sealed store: for moving all of its rows."""
        self.check_open()
        with translated(self.address), self._lending.connection() as db, db.transaction():
            self.turn.take(db, alone=True)
            db.execute(NOTE_ALONE, (0,))
            yield db

    @contextlib.contextmanager
    def beside_all(self) -> Iterator[SqlConnection]:
        """A bare transaction without a turn, for rows that no rule of the store concerns."""
        self.check_open()
        with translated(self.address), self._lending.connection() as db, db.transaction():
            yield db

    def carry_out(
        self,
        db: SqlConnection,
        operation: Callable[[Step], T],
        way: Way,
        loans: Loans,
        ahead: Sequence[Statement] = (),
    ) -> tuple[T, Step]:
        """Carry out an operation inside a transaction, which the caller commits.

        Raises NotAlone if it must be undone and repeated alone.
        """
        alone = way.side_by_side is None
        self.turn.take(db, alone=alone, seconds=way.seconds)
        # State seen by an application's open transaction may never be committed.
        before = None if alone or not db.is_own else self.remembered.last_state
        looked = db.execute(remembered.READ if before is None else remembered.READ_REST)
        sent = {statement: (values, db.execute(statement, values)) for statement, values in ahead}
        step = self._step(db, before, looked, sent, loans, alone=alone)
        if step.found.was_restored and sent:
            raise WasRestored
        if way.side_by_side is None:
            preparing.prepare(self, step)
        elif step.found.server_was_started or not way.side_by_side(step):
            raise NotAlone
        elif not (way.in_any_minute or preparing.is_of_open_minute(self, step)):
            raise MinuteIsOver
        answer = operation(step)
        if alone:
            # Those who share their turn end no job that others wait for.
            Links.resolve(step)
        step.flush()
        if step.moved or step.newly_shown:
            tell_who_may_go_on(step)
        if alone:
            db.execute(NOTE_ALONE, (step.now,))
        return answer, step

    def _step(
        self,
        db: SqlConnection,
        before: StateRow | None,
        looked: SqlCursor,
        sent: dict[str, tuple[Sequence[Any], SqlCursor]],
        loans: Loans,
        *,
        alone: bool,
    ) -> Step:
        row: Any = looked.fetchone()
        found = StateRow(*row) if before is None else before.now_with(row)
        if before is not None and found.alone_generation != before.alone_generation:
            row = db.execute(remembered.READ).fetchone()
            found = StateRow(*row)
        if found.store_id != self.store_id:
            # The remembered numbers of lanes, jobs and leases mean other ones there.
            raise StoreLostError(
                f"store {self.address.shown} is not the store that this process has opened: its "
                f"tables were recreated, or another store was moved here. Nothing was written; "
                "restart the process"
            )
        if found.server_was_started or found.version_base != self.version_base:
            # The server may have lost rows that this process remembers.
            self.lanes.forget()
            self.remembered = Remembered(self.address.shown)
            self.version_base = found.version_base
        self.fronts.era = found.version_base
        known = self.remembered.at(db, found)
        if db.is_own:
            self.remembered.note(found)
        now = self.clock.time(found.clock, found.server, found.pace)
        numbers = self.remembered.worker_numbers(now // MINUTE_MICROS)
        step = Step(db, self.env, now, found, known, numbers, sent, loans, self.fronts, alone=alone)
        step.grants = self.grants
        return step

    def after_commit(self, hints: Hints, *, are_told: bool = False) -> None:
        """Wake the listeners to a commit; other processes may already have been told."""
        self._unresolved = self._unresolved or hints.unresolved
        if hints:
            with SHIELD:  # It briefly holds locks.
                is_misplaced = not self.fronts.tell(hints)
                self.session.send(hints, are_told=are_told, is_misplaced=is_misplaced)

    # -- reading -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def read(self) -> Iterator[SqlConnection]:
        """Read with several statements that see one moment."""
        self.check_open()
        with translated(self.address), self._lending.connection() as db, one_moment(db):
            yield db

    def look(self, operation: Callable[[SqlConnection], T]) -> T:
        """Read."""
        with self.read() as db:
            return operation(db)

    def now(self, db: statements.SqlConnection) -> int:
        """The store's time in microseconds, for callers that only read."""
        row: Any = db.execute(NOW).fetchone()
        clock, server, *pace = row
        return self.clock.time(clock, server, HalfPace(*pace))


_OPEN: Final[weakref.WeakSet[Database]] = weakref.WeakSet()


def _begin_anew() -> None:
    for database in list(_OPEN):
        database.begin_anew_in_child()


at_fork(after_in_child=_begin_anew)

"""Marks: how a client finds out what became of a write whose connection was lost.

The number of its transaction does not tell: a server that crashes may forget it and give it to
another client's transaction. So each write leaves a mark as its last statement before COMMIT: it
increments a row of its own if that has the value that its client expects. A client that gets no
answer looks at the mark through another connection:

- it was incremented: the write is kept;
- it was not: the write is not kept, and never will be. The look invalidates the mark, so that a
  write that is still on its way, or has not reached this statement, fails;
- it is locked: the write is in progress, and the look is repeated.

The answer does not depend on the rows written, which may already be deleted again. If the server
has lost its last commits, it has lost the mark with them.

A process has as many marks as concurrent writes, and reuses them. A transaction that has written
nothing leaves none.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from psycopg.errors import DivisionByZero

from leasehold.env import Env
from leasehold.stores.postgres.server.clock import SERVER_MICROS
from leasehold.stores.postgres.server.connection import SqlConnection, SqlCursor
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.step import Hints

T_co = TypeVar("T_co", covariant=True)

USED_SECONDS: Final = 60 * 60
"""How long a mark is used before another one replaces it."""
USED_BY_WRITES: Final = 2000
"""How many writes use it. While somebody keeps an old snapshot open, the server keeps each value
that it ever had, and reads past all of them to find the last.
"""
KEPT_MICROS: Final = 24 * 60 * 60 * 1_000_000
"""How long a mark is kept: by then nobody looks at it any more."""
FORGOTTEN_AT_ONCE: Final = 1000
ID_BITS: Final = 62
SPOILED: Final = -1
LOOK_WAITS: Final = "250ms"
"""How long a look waits for a write that creates its mark."""

_HAS_WRITTEN: Final = "pg_current_xact_id_if_assigned() IS NOT NULL"
MAKE: Final = f"""
    WITH made AS (
        INSERT INTO mark (id, made_at, writes)
        SELECT $1::bigint, $3::bigint, $2::bigint WHERE {_HAS_WRITTEN} RETURNING 1)
    SELECT EXISTS (SELECT FROM made)
"""
MARK_IS_GONE: Final = DivisionByZero
"""The error of a write whose mark does not have the expected value: the server has lost its last
commits. The write is repeated with another mark.
"""
# Guard: the mark has the value that the client expects.
LEAVE: Final = f"""
    WITH counted AS (
        UPDATE mark SET writes = writes + 1
        WHERE id = $1 AND writes = $2 AND {_HAS_WRITTEN} RETURNING 1)
    SELECT count(*) = 1, CASE WHEN {_HAS_WRITTEN} THEN 1 / count(*) END FROM counted
"""
FORGET: Final = """
    DELETE FROM mark WHERE id IN (SELECT id FROM mark WHERE made_at < $1 ORDER BY made_at LIMIT $2)
"""
LOOK_BRIEFLY: Final = f"SELECT set_config('lock_timeout', '{LOOK_WAITS}', true)"
# A mark that the write was to create is created here if it is missing, or waited for.
SPOIL_NEW: Final = f"""
    INSERT INTO mark (id, made_at, writes) VALUES ($1, {SERVER_MICROS}, {SPOILED})
    ON CONFLICT DO NOTHING
"""
FIND: Final = "SELECT writes FROM mark WHERE id = $1 FOR UPDATE NOWAIT"
SPOIL: Final = f"UPDATE mark SET writes = {SPOILED} WHERE id = $1"


class Mark(NamedTuple):
    """A mark with the value that its client expects."""

    id: int
    writes: int
    use_until: float
    """In monotonic time."""
    uses_left: int
    is_new: bool = False
    """Whether the next write creates it."""

    @property
    def next(self) -> Mark:
        """What it is after one more write."""
        return self._replace(writes=self.writes + 1, uses_left=self.uses_left - 1, is_new=False)


class Marks:
    """The marks of one process that no write is using."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._mutex = threading.Lock()
        self._free: list[Mark] = []

    def take(self) -> Mark:
        """Take a mark for a write, which returns it unless its state is unknown."""
        now = self._env.clock.monotonic()
        with self._mutex:
            while self._free:
                mark = self._free.pop()
                if now < mark.use_until:
                    return mark
        # The count is unique as well: a server that lost this mark has lost its count.
        number = int(self._env.new_secret(), 16)
        first = number & (1 << ID_BITS) - 1
        return Mark(number >> 128 - ID_BITS, first, now + USED_SECONDS, USED_BY_WRITES, is_new=True)

    def give_back(self, mark: Mark) -> None:
        if mark.uses_left > 0:
            with self._mutex:
                self._free.append(mark)

    def drop(self) -> None:
        """Drop all marks, which the server may have lost."""
        with self._mutex:
            self._free = []


class InOnePiece(Protocol[T_co]):
    """A write that need not read the state of the store first: one statement that compares the
    state with the remembered one, and does nothing if it differs, or if the mark does.
    """

    @property
    def statement(self) -> str:
        """Returns whether the state is as remembered, and whether anything was done."""

    @property
    def answer(self) -> T_co: ...
    @property
    def hints(self) -> Hints: ...

    def values(self, mark: Mark) -> Sequence[Any]: ...


def leave(step: Step, mark: Mark) -> SqlCursor:
    """Leave the mark of a write, right before its COMMIT; see `is_left`."""
    if mark.is_new:
        return step.db.execute(MAKE, (mark.id, mark.next.writes, step.now))
    return step.db.execute(LEAVE, (mark.id, mark.writes))


def is_left(left: SqlCursor) -> bool:
    """Whether the mark was incremented, which it is not if nothing was written."""
    row: Any = left.fetchone()
    return bool(row[0])


def forget_old_marks(step: Step) -> None:
    """Delete some of the marks that nobody looks at any more."""
    step.execute(FORGET, (step.now - KEPT_MICROS, FORGOTTEN_AT_ONCE))


def was_left(db: SqlConnection, mark: Mark) -> bool:
    """Whether the write that was to leave this mark is kept; if not, it never will be.

    Raises psycopg's errors while that cannot be determined.
    """
    with db.transaction():
        db.execute(LOOK_BRIEFLY)
        db.execute(SPOIL_NEW, (mark.id,))
        row: Any = db.execute(FIND, (mark.id,)).fetchone()
        if row[0] == mark.writes:
            return True
        db.execute(SPOIL, (mark.id,))
    return False

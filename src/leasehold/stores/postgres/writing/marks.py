"""The marks of connections: what becomes of a write that its client sends in one piece.

Such a write says COMMIT before its client has heard anything: there is no number of a transaction
by which the server could be asked if the connection is lost. Instead, a connection that sends such
writes has a row of its own, its mark. Each of them counts that up by one if it is what the client
believes it to be, or else does nothing at all. A client that hears no answer looks at the mark by
another connection:

- it was counted up: the write is kept;
- it was not: the write is not kept, and never will be. The look spoils the mark, so that what is
  still on its way, or has not come to its statement yet, does nothing;
- it is locked: the write is under way, and the look is repeated.

Nothing depends on what was written: that may be deleted again by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

import psycopg

from leasehold.env import Clock
from leasehold.stores.postgres.server.connection import Mark, RawConnection, SqlConnection
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.step import Hints

T_co = TypeVar("T_co", covariant=True)

WRITES_MIN: Final = 2
"""A connection gets a mark when it has sent so many writes that could have left in one piece: for
one that is closed soon it is not worth it."""
USED_SECONDS: Final = 60 * 60
"""So long a connection uses its mark; then it gets another one."""
KEPT_MICROS: Final = 24 * 60 * 60 * 1_000_000
"""So long a mark is kept: by then nobody looks at it any more."""
SPOILED: Final = -1

# It counts from a number that no other mark has: a server that has forgotten its last commits may
# give the id of a forgotten mark again.
MAKE: Final = "INSERT INTO mark (made_at, writes) VALUES ($1, $2) RETURNING id, writes"
FIRST_BITS: Final = 62
# Faster than they come, so that few are left of however many.
FORGET: Final = """
    DELETE FROM mark WHERE id IN (SELECT id FROM mark ORDER BY id LIMIT 10) AND made_at < $1
"""
FIND: Final = "SELECT writes FROM mark WHERE id = $1 FOR UPDATE NOWAIT"
SPOIL: Final = f"UPDATE mark SET writes = {SPOILED} WHERE id = $1"


class InOnePiece(Protocol[T_co]):
    """A write whose client need not know the state of the store: one statement that compares it
    with what is remembered, and does nothing where it differs, or where its connection's mark does.
    """

    @property
    def statement(self) -> str:
        """Gives whether the state is as it is remembered, and whether anything was done."""

    @property
    def answer(self) -> T_co: ...
    @property
    def hints(self) -> Hints: ...

    def values(self, mark: Mark) -> Sequence[Any]: ...


def mark_of(raw: RawConnection, clock: Clock) -> Mark | None:
    """The mark of a connection, if it has one that may be used."""
    mark = raw.mark
    if mark is not None and clock.monotonic() > mark.use_until:
        raw.mark = mark = None
    return mark


def make_mark(step: Step) -> None:
    """Said in a write that could have left in one piece: it makes a mark if that is worth it."""
    raw = step.db.raw
    if raw.mark is None and not raw.is_pooled:
        raw.writes_without_mark += 1
        if raw.writes_without_mark >= WRITES_MIN:
            first = step.random.getrandbits(FIRST_BITS)
            step.new_mark = step.db.execute(MAKE, (step.now, first))
            step.execute(FORGET, (step.now - KEPT_MICROS,))


def keep_mark(step: Step, clock: Clock) -> None:
    """The write is committed: from now on its connection has the mark that it made."""
    if step.new_mark is not None:
        row: Any = step.new_mark.fetchone()
        step.db.raw.mark = Mark(row[0], row[1], clock.monotonic() + USED_SECONDS)


def was_left(db: SqlConnection, mark: Mark) -> bool:
    """Whether a write is kept that was to leave this mark: if it is not, it never will be.

    Raises what psycopg does while nobody can say.
    """
    with db.transaction():
        row: Any = db.execute(FIND, (mark.id,)).fetchone()
        if row is None:
            raise psycopg.OperationalError("the mark that it was to leave is gone")
        if row[0] == mark.writes:
            return True
        db.execute(SPOIL, (mark.id,))
    return False

"""Bases of jobs that others wait for: `raised` has a row for each whose base is above its priority.

Guard: who waits for whom is told by `blocker`, in the same write. A row in `raised` goes when
nobody above the job waits for it any more, or when it has ended and all who wait have been told.
What one write leaves to the next has rows in `inheriting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import apsw

from leasehold.core.rules import inheritance
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import places

# Who of the jobs with these numbers waits for one that stands lower.
WAITING_ABOVE: Final = """
    SELECT DISTINCT blocker.seq, coalesce(above.base, job.priority)
    FROM blocker CROSS JOIN job USING (seq) CROSS JOIN job AS needed ON needed.seq = blocker.needs
        LEFT JOIN raised ON raised.seq = blocker.needs
        LEFT JOIN raised AS above ON above.seq = blocker.seq
    WHERE blocker.seq BETWEEN ? AND ?
        AND coalesce(above.base, job.priority) > coalesce(raised.base, needed.priority)
"""
# What has ended waits for nothing, and is not put anywhere any more.
NEEDS_FROM: Final = """
    SELECT needs, coalesce(raised.base, job.priority)
    FROM blocker INDEXED BY blocker_by_seq CROSS JOIN job ON job.seq = needs
        LEFT JOIN raised ON raised.seq = needs
    WHERE blocker.seq = ? AND needs > ?
        AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.seq = needs)
    ORDER BY needs LIMIT ?
"""
SOME_LEFT: Final = "SELECT EXISTS (SELECT 1 FROM inheriting)"
TAKE_SOME: Final = """
    DELETE FROM inheriting WHERE seq IN (SELECT seq FROM inheriting ORDER BY seq LIMIT ?)
    RETURNING seq, compared_to, is_suspect
"""
KEEP: Final = """
    INSERT INTO inheriting VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET is_suspect = max(is_suspect, excluded.is_suspect),
        compared_to = coalesce(
            min(compared_to, excluded.compared_to), compared_to, excluded.compared_to)
"""
RAISED_NEEDS: Final = """
    SELECT needs FROM blocker CROSS JOIN raised ON raised.seq = needs WHERE blocker.seq = ?
"""
WAITING_FOR: Final = """
    SELECT blocker.seq, coalesce(raised.base, job.priority)
    FROM blocker CROSS JOIN job USING (seq) LEFT JOIN raised ON raised.seq = blocker.seq
    WHERE needs = ?
"""
BASE: Final = """
    SELECT coalesce(raised.base, priority) FROM job LEFT JOIN raised USING (seq) WHERE job.seq = ?
"""
OWN: Final = "SELECT priority FROM job WHERE seq = ?"
RAISE: Final = "INSERT OR REPLACE INTO raised VALUES (?, ?)"
FALL_BACK: Final = "DELETE FROM raised WHERE seq = ?"

_TOO_LOW: Final = """
    SELECT DISTINCT needed.id
    FROM blocker JOIN job USING (seq) JOIN job AS needed ON needed.seq = needs
        LEFT JOIN raised ON raised.seq = blocker.seq LEFT JOIN raised AS own ON own.seq = needs
    WHERE needs NOT IN (SELECT seq FROM finished)
        AND coalesce(own.base, needed.priority) < coalesce(raised.base, job.priority)
    LIMIT 10
"""
_TOO_HIGH: Final = """
    SELECT job.id FROM raised JOIN job USING (seq)
    WHERE seq NOT IN (SELECT seq FROM finished) AND (raised.base <= job.priority
        OR raised.base > coalesce((
            SELECT max(coalesce(above.base, waiting.priority))
            FROM blocker JOIN job AS waiting ON waiting.seq = blocker.seq
                LEFT JOIN raised AS above ON above.seq = blocker.seq
            WHERE needs = raised.seq), 0))
    LIMIT 10
"""


class Bases(inheritance.NumberedBases):
    """The statements of `leasehold.core.rules.inheritance.NumberedBases`."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._step = step

    def own_of(self, seq: int) -> int:
        return self._number(OWN, seq)

    def base_of(self, seq: int) -> int:
        return self._number(BASE, seq)

    def waiting_for(self, seq: int) -> Iterable[tuple[int, int]]:
        found: Any = self._step.db.cursor().execute(WAITING_FOR, (seq,))
        return found  # type: ignore[no-any-return]  # rows of two numbers, read as they are asked for

    def write(self, bases: Mapping[int, int]) -> None:
        step = self._step
        for seq, base in bases.items():
            if base > self.own_of(seq):
                step.execute(RAISE, (seq, base))
            else:
                step.execute(FALL_BACK, (seq,))
            standing = places.find(step, seq)
            if standing is not None:
                ready.move(step, [standing])
                step.hints.ready = True

    def _number(self, statement: str, seq: int) -> int:
        row: Any = self._step.execute(statement, (seq,)).fetchone()
        return int(row[0])

    def exists(self, seq: int) -> bool:
        return bool(_all(self._step, OWN, seq))

    def needs_from(self, seq: int, after: int, limit: int) -> Sequence[tuple[int, int]]:
        return _all(self._step, NEEDS_FROM, seq, after, limit)

    def take_left(self, limit: int) -> Iterable[tuple[int, int | None, bool]]:
        return _all(self._step, TAKE_SOME, limit)

    def keep_left(self, rows: Sequence[tuple[int, int | None, bool]]) -> None:
        self._step.executemany(KEEP, rows)

    def some_left(self) -> bool:
        return bool(_all(self._step, SOME_LEFT)[0][0])


def spread(step: Step) -> None:
    """Let changes of bases reach whom they concern, in this operation or an earlier write."""
    if Bases(step).spread():
        # Workers are woken, since their next exchange goes on with it.
        step.hints.unresolved = step.hints.ready = True


def raise_needed(step: Step, first: int, last: int) -> None:
    """Raise what the jobs with these numbers, which have begun to wait, wait for."""
    waiting: list[Any] = step.execute(WAITING_ABOVE, (first, last)).fetchall()
    if waiting:
        bases = Bases(step)
        for seq, base in waiting:
            bases.changed(seq, base)
        spread(step)


def reprioritized(step: Step, seq: int, before: int) -> None:
    """A job's own priority has changed from this one."""
    row: Any = step.execute("SELECT base FROM raised WHERE seq = ?", (seq,)).fetchone()
    inheritance.given_priority(Bases(step), seq, max(before, 0 if row is None else row[0]))
    spread(step)


def waits_no_more(step: Step, seq: int) -> None:
    """Note whom a blocked job may have raised; call it while `blocker` still says so."""
    if step.somebody_waits:
        step.lowered.update(needed for (needed,) in _all(step, RAISED_NEEDS, seq))


def ended(step: Step, seq: int) -> None:
    """All who waited for a job have been told of its end: nobody raises it any more."""
    step.execute(FALL_BACK, (seq,))


def problems(db: apsw.Connection) -> Iterator[str]:
    """Whatever would let a job wait for one that is served after it should be."""
    if db.execute(SOME_LEFT).fetchall()[0][0]:
        return  # Not all changes have reached whom they concern.
    for (job_id,) in db.execute(_TOO_LOW):
        yield f"job {job_id} stands lower than a job that waits for it"
    for (job_id,) in db.execute(_TOO_HIGH):
        yield f"job {job_id} stands higher than all that wait for it"


def _all(step: Step, statement: str, *values: int) -> list[Any]:
    return step.execute(statement, values).fetchall()

"""Bases of jobs that others wait for: `raised` has a row for each job whose base is above its
priority.

Guard: dependents are read from `blocker`, in the same write. A row in `raised` is removed when no
dependent with a higher priority waits any more, or when the job has ended and all its dependents
have been handled. Work that a write leaves has rows in `inheriting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from leasehold.core.rules import inheritance
from leasehold.stores.tables import order
from leasehold.stores.tables.order import TableReady
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep

SOME_LEFT: Final = "SELECT EXISTS (SELECT 1 FROM inheriting)"
TAKE_SOME: Final = """
    DELETE FROM inheriting WHERE seq IN (SELECT seq FROM inheriting ORDER BY seq LIMIT $1)
    RETURNING seq, compared_to, is_suspect
"""
WAITING_FOR: Final = """
    SELECT blocker.seq, coalesce(raised.base, job.priority)
    FROM blocker CROSS JOIN job LEFT JOIN raised ON raised.seq = blocker.seq
    WHERE needs = $1 AND job.seq = blocker.seq
"""
BASE: Final = """
    SELECT coalesce(raised.base, priority) FROM job LEFT JOIN raised USING (seq) WHERE job.seq = $1
"""
OWN: Final = "SELECT priority FROM job WHERE seq = $1"
RAISE: Final = """
    INSERT INTO raised VALUES ($1, $2) ON CONFLICT (seq) DO UPDATE SET base = excluded.base
"""
FALL_BACK: Final = "DELETE FROM raised WHERE seq = $1"
RAISED_TO: Final = "SELECT base FROM raised WHERE seq = $1"

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


class TableBases(inheritance.NumberedBases):
    """The statements of `leasehold.core.rules.inheritance.NumberedBases`."""

    ready: ClassVar[type[TableReady]]
    needs: ClassVar[str]
    """The unfinished dependencies of a job, by its number, after a number, up to a limit."""

    def __init__(self, step: TableStep) -> None:
        super().__init__(step)
        self._step = step

    def own_of(self, seq: int) -> int:
        return int(self._rows(OWN, seq)[0][0])

    def base_of(self, seq: int) -> int:
        return int(self._rows(BASE, seq)[0][0])

    def waiting_for(self, seq: int) -> Iterable[tuple[int, int]]:
        return self._step.execute(WAITING_FOR, (seq,))

    def write(self, bases: Mapping[int, int]) -> None:
        step = self._step
        for seq, base in bases.items():
            if base > self.own_of(seq):
                step.execute(RAISE, (seq, base))
            else:
                step.execute(FALL_BACK, (seq,))
            standing = order.standing_of(step, seq)
            if standing is not None:
                self.ready(step).move([standing])
                step.hints.ready = True

    def exists(self, seq: int) -> bool:
        return bool(self._rows(OWN, seq))

    def needs_from(self, seq: int, after: int, limit: int) -> Sequence[tuple[int, int]]:
        return self._rows(self.needs, seq, after, limit)

    def take_left(self, limit: int) -> Iterable[tuple[int, int | None, bool]]:
        return self._rows(TAKE_SOME, limit)

    def some_left(self) -> bool:
        return bool(self._rows(SOME_LEFT)[0][0])

    def _rows(self, statement: str, *values: int) -> list[Any]:
        return self._step.execute(statement, values).fetchall()

    # -- what happens to bases -----------------------------------------------------------------

    def go_on(self) -> None:
        """Propagate changes of bases made in this operation or an earlier write."""
        if self.spread():
            # Workers are woken, since their next exchange continues this.
            self._step.hints.unresolved = self._step.hints.ready = True

    def raise_needed(self, waiting: Sequence[tuple[int, int]]) -> None:
        """Raise the jobs that these jobs, each with its base, have begun to wait for."""
        if waiting:
            for seq, base in waiting:
                self.changed(seq, base)
            self.go_on()

    def reprioritized(self, seq: int, before: int) -> None:
        """Handle a change of a job's own priority from this one."""
        raised = self._rows(RAISED_TO, seq)
        inheritance.given_priority(self, seq, max(before, raised[0][0] if raised else 0))
        self.go_on()


def fall_back(step: TableStep, seq: int) -> None:
    """All dependents of a job have been handled, so none raises it any more."""
    step.execute(FALL_BACK, (seq,))


def problems(db: SqlConnection) -> Iterator[str]:
    """Every fault that would let a job wait for one that is served after it should be."""
    if db.execute(SOME_LEFT).fetchall()[0][0]:
        return  # Not all changes have been propagated.
    for (job_id,) in db.execute(_TOO_LOW):
        yield f"job {job_id} stands lower than a job that waits for it"
    for (job_id,) in db.execute(_TOO_HIGH):
        yield f"job {job_id} stands higher than all that wait for it"

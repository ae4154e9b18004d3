"""Bases of jobs that others wait for: `raised` has a row for each whose base is above its priority.

Guard: who waits for whom is told by `blocker`, in the same write. A row in `raised` goes when
nobody above the job waits for it any more, or when it has ended and all who wait have been told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from leasehold.core.rules import inheritance
from leasehold.stores.postgres.leasing import ready
from leasehold.stores.postgres.server.connection import Connection
from leasehold.stores.postgres.writing.step import Step

# Who of the jobs with these numbers waits for one that stands lower.
WAITING_ABOVE: Final = """
    SELECT DISTINCT blocker.seq, coalesce(above.base, job.priority)
    FROM blocker JOIN job USING (seq) JOIN job AS needed ON needed.seq = blocker.needs
        LEFT JOIN raised ON raised.seq = blocker.needs
        LEFT JOIN raised AS above ON above.seq = blocker.seq
    WHERE blocker.seq = ANY($1)
        AND coalesce(above.base, job.priority) > coalesce(raised.base, needed.priority)
"""
# What has ended waits for nothing, and is not put anywhere any more.
NEEDS: Final = """
    SELECT needs FROM blocker
    WHERE seq = $1 AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.seq = needs)
"""
RAISED_NEEDS: Final = """
    SELECT needs FROM blocker JOIN raised ON raised.seq = needs WHERE blocker.seq = ANY($1)
"""
WAITING_FOR: Final = """
    SELECT blocker.seq, coalesce(raised.base, job.priority)
    FROM blocker JOIN job USING (seq) LEFT JOIN raised ON raised.seq = blocker.seq
    WHERE needs = $1
"""
BASE: Final = """
    SELECT coalesce(raised.base, priority) FROM job LEFT JOIN raised USING (seq) WHERE job.seq = $1
"""
OWN: Final = "SELECT priority FROM job WHERE seq = $1"
RAISE: Final = """
    INSERT INTO raised VALUES ($1, $2) ON CONFLICT (seq) DO UPDATE SET base = excluded.base
"""
FALL_BACK: Final = "DELETE FROM raised WHERE seq = $1"

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


class Bases:
    """See `leasehold.core.rules.inheritance.Bases`; jobs go by their numbers."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def own_of(self, seq: int) -> int:
        return self._number(OWN, seq)

    def base_of(self, seq: int) -> int:
        return self._number(BASE, seq)

    def needs_of(self, seq: int) -> list[int]:
        return [needed for (needed,) in _all(self._step, NEEDS, seq)]

    def waiting_for(self, seq: int) -> Iterable[tuple[int, int]]:
        found: Any = self._step.execute(WAITING_FOR, (seq,))
        return found  # type: ignore[no-any-return]  # rows of two numbers, read as they are asked for

    def write(self, bases: Mapping[int, int]) -> None:
        step = self._step
        for seq, base in bases.items():
            if base > self.own_of(seq):
                step.execute(RAISE, (seq, base))
            else:
                step.execute(FALL_BACK, (seq,))
            standing = ready.find(step, seq)
            if standing is not None:
                ready.move(step, [standing])
                step.hints.ready = True

    def suspect(self, jobs: Iterable[int]) -> None:
        self._step.lowered.update(jobs)

    def _number(self, statement: str, seq: int) -> int:
        row: Any = self._step.execute(statement, (seq,)).fetchone()
        return int(row[0])


def raise_needed(step: Step, seqs: Sequence[int]) -> None:
    """Raise what the jobs with these numbers, which have begun to wait, wait for."""
    waiting: list[Any] = step.execute(WAITING_ABOVE, (list(seqs),)).fetchall()
    if waiting:
        inheritance.raise_needed(Bases(step), waiting)


def reprioritized(step: Step, seq: int, before: int) -> None:
    """A job's own priority has changed from this one."""
    row: Any = step.execute("SELECT base FROM raised WHERE seq = $1", (seq,)).fetchone()
    inheritance.reprioritized(Bases(step), seq, max(before, 0 if row is None else row[0]))


def wait_no_more(step: Step, seqs: Sequence[int]) -> None:
    """Note whom blocked jobs may have raised; call it while `blocker` still says so."""
    if step.somebody_waits:
        rows = step.execute(RAISED_NEEDS, (list(seqs),))
        step.lowered.update(needed for (needed,) in rows)


def ended(step: Step, seq: int) -> None:
    """All who waited for a job have been told of its end: nobody raises it any more."""
    step.execute(FALL_BACK, (seq,))


def lower(step: Step) -> None:
    """Let those fall that were raised by somebody who does not wait for them any more."""
    # Some may be gone by now: a purge takes those that wait and those that they wait for.
    suspects = [seq for seq in sorted(step.lowered) if _all(step, OWN, seq)]
    step.lowered = set()
    inheritance.lower(Bases(step), suspects)


def problems(db: Connection) -> Iterator[str]:
    """Whatever would let a job wait for one that is served after it should be."""
    for (job_id,) in db.execute(_TOO_LOW):
        yield f"job {job_id} stands lower than a job that waits for it"
    for (job_id,) in db.execute(_TOO_HIGH):
        yield f"job {job_id} stands higher than all that wait for it"


def _all(step: Step, statement: str, seq: int) -> list[Any]:
    return step.execute(statement, (seq,)).fetchall()

"""Bases of jobs: what of `tables.inheritance` this database is told in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.core.rules.placing import Standing
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.inheritance import TableBases

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
KEEP: Final = """
    INSERT INTO inheriting VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET is_suspect = max(is_suspect, excluded.is_suspect),
        compared_to = coalesce(
            min(compared_to, excluded.compared_to), compared_to, excluded.compared_to)
"""
RAISED_NEEDS: Final = """
    SELECT needs FROM blocker CROSS JOIN raised ON raised.seq = needs WHERE blocker.seq = ?
"""


class Bases(TableBases):
    """The statements of `leasehold.core.rules.inheritance.NumberedBases`."""

    needs = NEEDS_FROM
    _step: Step

    def move(self, job: Standing) -> None:
        ready.move(self._step, [job])

    def keep_left(self, rows: Sequence[tuple[int, int | None, bool]]) -> None:
        self._step.many(KEEP, rows)


def raise_needed(step: Step, first: int, last: int) -> None:
    """Raise what the jobs with these numbers, which have begun to wait, wait for."""
    Bases(step).raise_needed(step.execute(WAITING_ABOVE, (first, last)).fetchall())


def wait_no_more(step: Step, seqs: Sequence[int]) -> None:
    """Note whom blocked jobs may have raised; call it while `blocker` still says so."""
    if step.somebody_waits:
        rows: Any = step.executemany(RAISED_NEEDS, [(seq,) for seq in seqs]).fetchall()
        step.lowered.update(needed for (needed,) in rows)

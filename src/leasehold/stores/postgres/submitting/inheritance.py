"""Bases of jobs: what of `tables.inheritance` this database is told in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.rules.placing import Standing
from leasehold.stores.postgres.leasing import ready
from leasehold.stores.postgres.server.connection import unnested
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.inheritance import TableBases

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
NEEDS_FROM: Final = """
    SELECT needs, coalesce(raised.base, job.priority)
    FROM blocker JOIN job ON job.seq = needs LEFT JOIN raised ON raised.seq = needs
    WHERE blocker.seq = $1 AND needs > $2
        AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.seq = needs)
    ORDER BY needs LIMIT $3
"""
KEEP: Final = f"""
    INSERT INTO inheriting SELECT * FROM {unnested("bigint bigint boolean")}
    ON CONFLICT (seq) DO UPDATE SET is_suspect = inheriting.is_suspect OR excluded.is_suspect,
        compared_to = least(inheriting.compared_to, excluded.compared_to)
"""  # noqa: S608  # our own names
RAISED_NEEDS: Final = """
    SELECT needs FROM blocker JOIN raised ON raised.seq = needs WHERE blocker.seq = ANY($1)
"""


class Bases(TableBases):
    """The statements of `leasehold.core.rules.inheritance.NumberedBases`."""

    needs = NEEDS_FROM
    _step: Step

    def move(self, job: Standing) -> None:
        ready.move(self._step, [job])

    def keep_left(self, rows: Sequence[tuple[int, int | None, bool]]) -> None:
        self._step.many(KEEP, rows)


def raise_needed(step: Step, seqs: Sequence[int]) -> None:
    """Raise what the jobs with these numbers, which have begun to wait, wait for."""
    Bases(step).raise_needed(step.execute(WAITING_ABOVE, (list(seqs),)).fetchall())


def wait_no_more(step: Step, seqs: Sequence[int]) -> None:
    """Note whom blocked jobs may have raised; call it while `blocker` still says so."""
    if step.somebody_waits:
        rows = step.execute(RAISED_NEEDS, (list(seqs),))
        step.lowered.update(needed for (needed,) in rows)

"""Jobs that depend on others: the statements for PostgreSQL.

See `tables.linking` (jobs that begin to wait), `tables.dependents` (which jobs an end affects, and
whether a job is still needed) and `tables.inheritance` (inherited priorities).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.stores.postgres.leasing.ends import Histories
from leasehold.stores.postgres.leasing.order import ReadyRows
from leasehold.stores.postgres.server.connection import POSTGRES, unnested
from leasehold.stores.tables.dependents import TableDependents, TableLinks
from leasehold.stores.tables.inheritance import TableBases
from leasehold.stores.tables.linking import TableLinker

# -- inherited priorities ----------------------------------------------------------------------

_BASE: Final = """
    coalesce((SELECT base FROM raised WHERE raised.seq = {0}),
             (SELECT priority FROM job WHERE job.seq = {0}))
"""
# The jobs with these numbers that wait for a job with a lower priority. Each priority is looked up
# by itself: the same write may just have stored thousands of jobs that the planner knows nothing
# of, and a join of `job` with itself might then compare each of them with each.
WAITING_ABOVE: Final = f"""
    SELECT DISTINCT seq, base
    FROM (
        SELECT seq, {_BASE.format("blocker.seq")} AS base, {_BASE.format("needs")} AS needed
        FROM blocker WHERE seq = ANY($1)
    ) AS waiting WHERE base > needed
"""
# An ended job waits for nothing and no longer has a place.
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
"""


class Bases(TableBases):
    """The statements of `leasehold.core.rules.inheritance.NumberedBases`."""

    ready = ReadyRows
    needs = NEEDS_FROM

    def keep_left(self, rows: Sequence[tuple[int, int | None, bool]]) -> None:
        self._step.many(KEEP, rows)


# -- dependents --------------------------------------------------------------------------------

_UP_TO: Final = "coalesce((SELECT up_to FROM ended_dependents AS known WHERE known.seq = {0}), 0)"


class DependentsBook(TableDependents):
    """See `leasehold.core.rules.ended_dependents.DependentsBook`."""

    __slots__ = ()
    dialect = POSTGRES
    up_to = _UP_TO
    count_further = f"""
        SELECT count(*) FROM (
            SELECT 1 FROM dependency AS link
            WHERE link.needs = ANY($1) AND link.seq > {_UP_TO.format("link.needs")} LIMIT $2
        ) AS further
    """


REMEMBER: Final = """
    INSERT INTO resolving (seq)
    SELECT seq FROM job JOIN finished USING (seq)
    WHERE id = ANY($1)
        AND EXISTS (SELECT 1 FROM blocker WHERE needs = job.seq)
    ON CONFLICT DO NOTHING
"""
NEXT_ENDED: Final = """
    SELECT seq, job.id, finished.status, finished.reason, purged
    FROM resolving JOIN job USING (seq) JOIN finished USING (seq)
    ORDER BY seq LIMIT 1
"""
SCHEDULE: Final = f"""
    INSERT INTO waiting (status, seq, due, since, version, attempts, events)
    SELECT 0, * FROM {unnested("bigint bigint bigint bigint bigint bigint")}
"""
ENDED_BY: Final = f"""
    UPDATE dependent SET ended_by = ending.by
    FROM {unnested("bigint bigint")} AS ending (seq, by) WHERE dependent.seq = ending.seq
"""


class Links(TableLinks):
    """See `leasehold.core.rules.resolving.Links`."""

    histories = Histories
    bases = Bases
    remember_ended = REMEMBER
    find_ended = NEXT_ENDED
    schedule = SCHEDULE
    ended_by = ENDED_BY


# -- new links ---------------------------------------------------------------------------------


class Linker(TableLinker):
    """See `tables.linking`."""

    links = Links
    add_dependents = f"INSERT INTO dependent SELECT *, NULL FROM {unnested('bigint bigint bigint')}"
    add_dependencies = (
        f"INSERT INTO dependency SELECT * FROM {unnested('bigint bigint bigint text')}"
    )
    add_blockers = f"INSERT INTO blocker SELECT * FROM {unnested('bigint bigint')}"
    remember_ended = (
        f"INSERT INTO resolving (seq) SELECT * FROM {unnested('bigint')} ON CONFLICT DO NOTHING"
    )

    def _raise_needed(self, numbers: Sequence[int]) -> None:
        above: Any = self._step.execute(WAITING_ABOVE, (list(numbers),)).fetchall()
        Bases(self._step).raise_needed(above)

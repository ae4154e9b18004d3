"""Jobs that depend on others: the statements for SQLite.

See `tables.linking` (jobs that begin to wait), `tables.dependents` (which jobs an end affects, and
whether a job is still needed) and `tables.inheritance` (inherited priorities).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.stores.sqlite.leasing.ends import Histories
from leasehold.stores.sqlite.leasing.order import ReadyRows
from leasehold.stores.sqlite.schema.rows import ENDED_STATUS, SQLITE
from leasehold.stores.tables.dependents import TableDependents, TableLinks
from leasehold.stores.tables.inheritance import TableBases
from leasehold.stores.tables.linking import TableLinker

# -- inherited priorities ----------------------------------------------------------------------

# The jobs with these numbers that wait for a job with a lower priority.
WAITING_ABOVE: Final = """
    SELECT DISTINCT blocker.seq, coalesce(above.base, job.priority)
    FROM blocker CROSS JOIN job USING (seq) CROSS JOIN job AS needed ON needed.seq = blocker.needs
        LEFT JOIN raised ON raised.seq = blocker.needs
        LEFT JOIN raised AS above ON above.seq = blocker.seq
    WHERE blocker.seq BETWEEN ? AND ?
        AND coalesce(above.base, job.priority) > coalesce(raised.base, needed.priority)
"""
# An ended job waits for nothing and no longer has a place.
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


class Bases(TableBases):
    """The statements of `leasehold.core.rules.inheritance.NumberedBases`."""

    ready = ReadyRows
    needs = NEEDS_FROM

    def keep_left(self, rows: Sequence[tuple[int, int | None, bool]]) -> None:
        self._step.many(KEEP, rows)


# -- dependents --------------------------------------------------------------------------------

# An unreadable mark is ignored, so that all dependents are checked.
_UP_TO: Final = """
    coalesce((SELECT up_to FROM ended_dependents AS known
              WHERE known.seq = {0} AND typeof(up_to) = 'integer'), 0)
"""


class DependentsBook(TableDependents):
    """See `leasehold.core.rules.ended_dependents.DependentsBook`."""

    __slots__ = ()
    dialect = SQLITE
    up_to = _UP_TO
    count_further = f"""
        SELECT count(*) FROM (
            SELECT 1 FROM json_each($1) AS each JOIN dependency AS link ON link.needs = each.value
            WHERE link.seq > {_UP_TO.format("each.value")} LIMIT $2)
    """


REMEMBER: Final = """
    INSERT OR IGNORE INTO resolving (seq)
    SELECT seq FROM job JOIN finished USING (seq)
    WHERE id IN (SELECT value FROM json_each(?))
        AND EXISTS (SELECT 1 FROM blocker WHERE needs = job.seq)
"""
# Safe for any values in the row: if this failed, so would every later write.
NEXT_ENDED: Final = f"""
    SELECT seq, CAST(job.id AS BLOB), {ENDED_STATUS}, CAST(finished.reason AS BLOB), purged IS 1
    FROM resolving CROSS JOIN job USING (seq) CROSS JOIN finished USING (seq)
    ORDER BY seq LIMIT 1
"""


class Links(TableLinks):
    """See `leasehold.core.rules.resolving.Links`."""

    histories = Histories
    bases = Bases
    remember_ended = REMEMBER
    find_ended = NEXT_ENDED
    schedule = "INSERT INTO waiting VALUES (?, 0, ?, ?, ?, ?, ?, NULL)"
    ended_by = "UPDATE dependent SET ended_by = ?2 WHERE seq = ?1"


# -- new links ---------------------------------------------------------------------------------


class Linker(TableLinker):
    """See `tables.linking`."""

    links = Links
    add_dependents = "INSERT INTO dependent VALUES (?, ?, ?, NULL)"
    add_dependencies = "INSERT INTO dependency VALUES (?, ?, ?, ?)"
    add_blockers = "INSERT INTO blocker VALUES (?, ?)"
    remember_ended = "INSERT OR IGNORE INTO resolving (seq) VALUES (?)"

    def _raise_needed(self, numbers: Sequence[int]) -> None:
        above: Any = self._step.execute(WAITING_ABOVE, (numbers[0], numbers[-1])).fetchall()
        Bases(self._step).raise_needed(above)

"""Who waits for whom, in the words of this database.

See `tables.dependents` (those who are told of an end), `tables.ended_dependents` (whether a job
is still needed) and `tables.graph`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw

from leasehold.core.model.graph import Graph
from leasehold.core.rules.placing import PendingEntry
from leasehold.stores.sqlite.leasing import ready
from leasehold.stores.sqlite.leasing.state import Histories
from leasehold.stores.sqlite.schema.rows import ENDED_STATUS, SQLITE
from leasehold.stores.sqlite.submitting.inheritance import Bases
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.dependents import TableLinks
from leasehold.stores.tables.ended_dependents import TableDependents
from leasehold.stores.tables.graph import graph_of

# What cannot be read says nothing: all are looked at then.
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
    """  # noqa: S608  # our own names


REMEMBER: Final = """
    INSERT OR IGNORE INTO resolving (seq)
    SELECT seq FROM job JOIN finished USING (seq)
    WHERE id IN (SELECT value FROM json_each(?))
        AND EXISTS (SELECT 1 FROM blocker WHERE needs = job.seq)
"""
# Whatever its row holds: should this fail, so would every write from then on.
NEXT_ENDED: Final = f"""
    SELECT seq, CAST(job.id AS BLOB), {ENDED_STATUS}, CAST(finished.reason AS BLOB), purged IS 1
    FROM resolving CROSS JOIN job USING (seq) CROSS JOIN finished USING (seq)
    ORDER BY seq LIMIT 1
"""  # noqa: S608  # our own names


class Links(TableLinks):
    """See `leasehold.core.rules.resolving.Links`."""

    histories = Histories
    bases = Bases
    find_ended = NEXT_ENDED
    schedule = "INSERT INTO waiting VALUES (?, 0, ?, ?, ?, ?, ?, NULL)"
    ended_by = "UPDATE dependent SET ended_by = ?2 WHERE seq = ?1"
    _step: Step

    @classmethod
    def _remember(cls, step: Step) -> bool:
        step.execute(REMEMBER, (SQLITE.listed(step.ended),))
        return step.db.changes() > 0

    def _enter(self, entries: Sequence[PendingEntry]) -> None:
        ready.enter(self._step, entries)


resolve = Links.resolve
some_to_tell = Links.some_to_tell


# Not by way of a job that is gone: its dependents have nothing to do with each other.
_LINKED: Final = f"""
    WITH RECURSIVE linked (seq) AS (
        SELECT seq FROM job WHERE {SQLITE.among("id", "$1")}
        UNION SELECT needs FROM linked JOIN dependency USING (seq) JOIN job ON job.seq = needs
        UNION SELECT dependency.seq FROM linked JOIN dependency ON needs = linked.seq
    )
"""  # noqa: S608  # our own names


def graph(db: apsw.Connection, job_ids: Sequence[str]) -> Graph:
    """These jobs and all that are linked with them."""
    return graph_of(db, _LINKED, SQLITE.listed(job_ids))

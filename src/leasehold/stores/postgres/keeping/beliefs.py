"""The planner's estimates about the tables, and where they are far from true.

A table that was vacuumed while it was empty is believed to be empty, however full it becomes, until
it is analyzed, which the server does automatically within a minute or so. Meanwhile all access
paths seem equally cheap, and a statement that looks up a few jobs may read all of them, even once
per job. So sweeps, and every few seconds workers and those who submit very many jobs, have such
tables analyzed. That takes no turn, and waits for nobody. What one write itself has just stored can
be seen by nobody else: its statements must do without the planner's knowledge.
"""

from __future__ import annotations

import logging
import math
from typing import Final

from leasehold.stores.postgres.writing.database import Database

logger = logging.getLogger("leasehold.store")

ROWS_MIN: Final = 1000
"""For a table with fewer rows it does not matter how they are found."""
LOOK_SECONDS: Final = 5.0
"""How often a worker looks."""
WRONG_BY: Final = 10
"""The planner's estimate is far from true if there are this many times more rows."""
# The planner uses the rows per page at the last vacuum or analyze. The server's own counts of live
# rows are about a second late.
FIND: Final = """
    SELECT relname FROM (
        SELECT relname, pg_stat_get_live_tuples(oid) AS rows, greatest(reltuples, 0) * coalesce(
            pg_relation_size(oid)::float8 / current_setting('block_size')::integer
            / nullif(relpages, 0), 0) AS believed
        FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
            AND pg_has_role(relowner, 'USAGE')
    ) AS known WHERE rows > $1 AND rows > $2 * believed ORDER BY relname
"""
ANALYZE: Final = "ANALYZE (SKIP_LOCKED) {}"


class Beliefs:
    """The planner's estimates about the tables of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._look_at = -math.inf

    def correct_now_and_then(self) -> None:
        """The same as `correct`, unless that was done a moment ago."""
        if self._database.env.clock.monotonic() >= self._look_at:
            self.correct()

    def correct(self) -> list[str]:
        """Have tables analyzed whose size is far underestimated; returns their names."""
        self._look_at = self._database.env.clock.monotonic() + LOOK_SECONDS
        with self._database.beside_all() as db:
            wrong: list[str] = [table for (table,) in db.execute(FIND, (ROWS_MIN, WRONG_BY))]
            for table in wrong:
                db.execute(ANALYZE.format(table))
        if wrong:
            logger.debug("%s: analyzed %s", self._database.address.shown, ", ".join(wrong))
        return wrong

"""The dependents of ended jobs, as `core.rules.ended_dependents` looks at them.

How far the dependents of a job were looked through is written down in `ended_dependents`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

from leasehold.core.rules import ended_dependents
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.statements import Dialect, SqlConnection
from leasehold.stores.tables.step import TableStep

HAS_ENDED: Final = "EXISTS (SELECT 1 FROM finished AS ended WHERE ended.seq = link.seq)"
LOOKED: Final = """
    INSERT INTO ended_dependents VALUES ($1, $2)
    ON CONFLICT (seq) DO UPDATE SET up_to = excluded.up_to
"""
LOOK_AGAIN: Final = """
    DELETE FROM ended_dependents WHERE seq IN (SELECT needs FROM dependency WHERE seq = $1)
"""
NUMBERS: Final = "SELECT seq FROM job WHERE {}"


class TableDependents:
    """See `leasehold.core.rules.ended_dependents.DependentsBook`."""

    __slots__ = ("_db",)
    dialect: ClassVar[Dialect]
    up_to: ClassVar[str]
    """Up to which number the dependents of `{0}` were looked through; 0 at the start."""
    count_further: ClassVar[str]
    """Counts the dependents of several jobs that were not looked at."""

    def __init__(self, db: SqlConnection) -> None:
        self._db = db

    def next(self, seq: int, limit: int) -> list[tuple[int, bool]]:
        statement = f"""
            SELECT link.seq, {HAS_ENDED} FROM dependency AS link
            WHERE link.needs = $1 AND link.seq > {self.up_to.format("$1")}
            ORDER BY link.seq LIMIT $2
        """  # noqa: S608  # our own names
        return self._db.execute(statement, (seq, limit)).fetchall()

    def looked_up_to(self, seq: int, dependent: int) -> None:
        self._db.execute(LOOKED, (seq, dependent))

    def how_many(self, seqs: Sequence[int], limit: int) -> int:
        values = (self.dialect.listed(seqs), limit)
        return int(self._db.execute(self.count_further, values).fetchone()[0])

    def needed_by(self, seq: int) -> str | None:
        """The id of an unfinished job that depends on this job, if there is any."""
        statement = f"""
            SELECT job.id FROM dependency AS link JOIN job ON job.seq = link.seq
            WHERE link.needs = $1 AND link.seq > {self.up_to.format("$1")} AND NOT {HAS_ENDED}
            LIMIT 1
        """  # noqa: S608  # our own names
        row: Any = self._db.execute(statement, (seq,)).fetchone()
        return None if row is None else row[0]

    @classmethod
    def still_needed(cls) -> str:
        """Holds for a job in `finished` that an unfinished one depends on: it is spared."""
        return f"""
            EXISTS (SELECT 1 FROM dependency AS link WHERE link.needs = finished.seq
                    AND link.seq > {cls.up_to.format("finished.seq")} AND NOT {HAS_ENDED})
        """  # noqa: S608  # our own names

    @classmethod
    def look_through(cls, database: TableDatabase, job_ids: Sequence[str]) -> None:
        """Look at very many dependents of jobs that are to be deleted, before the write that does.

        One write must not pay for them all.
        """
        numbers = NUMBERS.format(cls.dialect.among("id", "$1"))
        with database.read() as db:
            jobs = db.execute(numbers, (cls.dialect.listed(job_ids),)).fetchall()
            crowded = [seq for (seq,) in jobs if ended_dependents.is_crowded(cls(db), seq)]
        for seq in crowded:
            look = partial(cls._look_at_some, seq=seq)
            ended_dependents.look_through(partial(database.write, look))

    @classmethod
    def _look_at_some(cls, step: TableStep, seq: int) -> int:
        return ended_dependents.look_at_some(cls(step), seq)


def replayed(step: TableStep, seq: int) -> None:
    """A job that had ended has not any more: whom it depends on may be needed."""
    step.execute(LOOK_AGAIN, (seq,))

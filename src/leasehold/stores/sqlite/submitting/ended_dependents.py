"""The dependents of ended jobs, as `core.rules.ended_dependents` looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from leasehold.core.rules import ended_dependents
from leasehold.stores.sqlite.writing.step import Step

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

# What cannot be read says nothing: all are looked at then.
_UP_TO: Final = """
    coalesce((SELECT up_to FROM ended_dependents AS known
              WHERE known.seq = {0} AND typeof(up_to) = 'integer'), 0)
"""
_HAS_ENDED: Final = "EXISTS (SELECT 1 FROM finished AS ended WHERE ended.seq = link.seq)"
# Holds for a job in `finished` that an unfinished one depends on: it is spared.
STILL_NEEDED: Final = f"""
    EXISTS (SELECT 1 FROM dependency AS link WHERE link.needs = finished.seq
            AND link.seq > {_UP_TO.format("finished.seq")} AND NOT {_HAS_ENDED})
"""  # noqa: S608  # our own names
NEEDED_BY: Final = f"""
    SELECT job.id FROM dependency AS link JOIN job ON job.seq = link.seq
    WHERE link.needs = ?1 AND link.seq > {_UP_TO.format("?1")} AND NOT {_HAS_ENDED} LIMIT 1
"""  # noqa: S608  # our own names
NEXT: Final = f"""
    SELECT link.seq, {_HAS_ENDED} FROM dependency AS link
    WHERE link.needs = ?1 AND link.seq > {_UP_TO.format("?1")} ORDER BY link.seq LIMIT ?2
"""  # noqa: S608  # our own names
LOOKED: Final = "INSERT OR REPLACE INTO ended_dependents VALUES (?, ?)"
LOOK_AGAIN: Final = """
    DELETE FROM ended_dependents WHERE seq IN (SELECT needs FROM dependency WHERE seq = ?)
"""
HOW_MANY: Final = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM json_each(?1) AS each JOIN dependency AS link ON link.needs = each.value
        WHERE link.seq > {_UP_TO.format("each.value")} LIMIT ?2)
"""  # noqa: S608  # our own names
NUMBERS: Final = "SELECT seq FROM job WHERE id IN (SELECT value FROM json_each(?))"


def needed_by(step: Step, seq: int) -> str | None:
    """The id of an unfinished job that depends on this one, if there is any."""
    row: Any = step.execute(NEEDED_BY, (seq,)).fetchone()
    return None if row is None else row[0]


class Dependents:
    """See `leasehold.core.rules.ended_dependents.DependentsBook`."""

    __slots__ = ("_db",)

    def __init__(self, db: apsw.Connection | Step) -> None:
        self._db = db

    def next(self, seq: int, limit: int) -> list[tuple[int, bool]]:
        rows: Any = self._db.execute(NEXT, (seq, limit)).fetchall()
        return rows  # type: ignore[no-any-return]  # a number, and whether it has ended

    def looked_up_to(self, seq: int, dependent: int) -> None:
        self._db.execute(LOOKED, (seq, dependent))

    def how_many(self, seqs: Sequence[int], limit: int) -> int:
        row: Any = self._db.execute(HOW_MANY, (_list(seqs), limit)).fetchone()
        return int(row[0])


def look_through(database: Database, job_ids: Sequence[str]) -> None:
    """Look at very many dependents of jobs that are to be deleted, before the write that does."""
    with database.read() as db:
        jobs: list[Any] = db.execute(NUMBERS, (_list(job_ids),)).fetchall()
        crowded = [seq for (seq,) in jobs if ended_dependents.is_crowded(Dependents(db), seq)]
    for seq in crowded:
        look = partial(_look_at_some, seq=seq)
        ended_dependents.look_through(partial(database.write, look))


def _look_at_some(step: Step, seq: int) -> int:
    return ended_dependents.look_at_some(Dependents(step), seq)


def within_budget(step: Step, jobs: Sequence[int]) -> Sequence[int]:
    """Those of these jobs whose dependents one write can look at."""
    return ended_dependents.within_budget(Dependents(step), jobs)


def replayed(step: Step, seq: int) -> None:
    """A job that had ended has not any more: whom it depends on may be needed."""
    step.execute(LOOK_AGAIN, (seq,))


def _list(values: Sequence[int] | Sequence[str]) -> str:
    return msgspec.json.encode(values).decode()

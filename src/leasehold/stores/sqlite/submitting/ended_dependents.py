"""Whether everybody who depended on a job has ended, so that it may be deleted (DEP-7).

There may be very many of them. So a write looks at some, and writes down how far it has got: nobody
looks at those again, unless one of them is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import msgspec

from leasehold.core.model.budget import DEPENDENTS_LOOKED_AT_ONCE
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


def look_through(database: Database, job_ids: Sequence[str]) -> None:
    """Look at very many dependents of jobs that are to be deleted, before the write that does."""
    with database.read() as db:
        jobs: list[Any] = db.execute(NUMBERS, (_list(job_ids),)).fetchall()
        crowded = [
            seq
            for (seq,) in jobs
            if len(db.execute(NEXT, (seq, DEPENDENTS_LOOKED_AT_ONCE)).fetchall())
            == DEPENDENTS_LOOKED_AT_ONCE
        ]
    for seq in crowded:
        look = partial(look_at_some, seq=seq, limit=DEPENDENTS_LOOKED_AT_ONCE)
        while database.write(look) == DEPENDENTS_LOOKED_AT_ONCE:
            pass


def look_at_some(step: Step, seq: int, limit: int) -> int:
    """Look at so many further dependents of a job; answers how many have ended, one by one."""
    rows: list[Any] = step.execute(NEXT, (seq, limit)).fetchall()
    ended = [dependent for dependent, _ in takewhile(lambda row: row[1], rows)]
    if ended:
        step.execute(LOOKED, (seq, ended[-1]))
    return len(ended)


def within_budget(step: Step, jobs: Sequence[int]) -> Sequence[int]:
    """Those of these jobs whose dependents one write can look at."""
    limit = DEPENDENTS_LOOKED_AT_ONCE
    row: Any = step.execute(HOW_MANY, (_list(jobs), limit + 1)).fetchone()
    if row[0] <= limit:
        return jobs
    found = []
    for seq in jobs:
        ended = look_at_some(step, seq, limit + 1)
        if ended <= limit:
            found.append(seq)
        limit = max(0, limit - ended)
    return found


def replayed(step: Step, seq: int) -> None:
    """A job that had ended has not any more: whom it depends on may be needed."""
    step.execute(LOOK_AGAIN, (seq,))


def _list(values: Sequence[int] | Sequence[str]) -> str:
    return msgspec.json.encode(values).decode()

"""A lone submit in one piece: the server gets all of it at once, with a single wait.

Other writes read the state of the store before they write. A plain job needs that read only to find
that nothing has changed. So its statement compares the state with what this process remembers, and
stores the job if they are the same; otherwise nothing is written, and the job is submitted like any
other.

Guard: the store, its rules, its settings and its server are those that this process remembers; its
time is the server's (`server.clock`), and the minute is not over; the mark has the value that the
client expects.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.status import Status
from leasehold.core.rules.clock import TOLERANCE_MICROS
from leasehold.stores.postgres.leasing.order import ENTER_NEW_FROM
from leasehold.stores.postgres.server.clock import SERVER_MICROS
from leasehold.stores.postgres.writing.marks import Mark
from leasehold.stores.postgres.writing.remembered import AS_REMEMBERED
from leasehold.stores.tables.intake import ONE_MORE, job_row
from leasehold.stores.tables.replies import Stored
from leasehold.stores.tables.step import READY, Hints

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

JOB_COLUMNS: Final = (
    "bigint text bigint bigint bigint bigint bigint bigint float8 float8 bigint bigint float8 "
    "text text text text text bytea text"
)
"""The types of a row of `job`."""
_FIRST: Final = 8
"""The number of the first value of the job in the statement."""
_COUNTED_FROM_0: Final = {0: "counted.seq + ", 5: "counted.now + ", 11: "counted.now + "}
"""The indexes in the row of its number, its creation time and its latest start."""


class LoneJob(NamedTuple):
    """A submit of one plain job."""

    statement: str
    state: tuple[Any, ...]
    """The state of the store that this process remembers."""
    job: tuple[Any, ...]
    """Its row, as if its number and the time were 0."""
    answer: Stored
    hints: Hints = READY

    def values(self, mark: Mark) -> tuple[Any, ...]:
        """The values of the statement, which leaves this mark."""
        return (*self.state, mark.id, mark.writes, *self.job)


def lone_job(database: Database, drafts: Sequence[Draft]) -> LoneJob | None:
    """The submit of these drafts, if they are one plain job that no rule concerns."""
    known = database.remembered.known
    if len(drafts) != 1 or known is None or known.rules:
        return None
    [draft] = drafts
    lane = database.lanes.known(draft.queue, draft.task)
    if (
        lane is None
        or lane in known.indexed
        or known.settings.draft_defaults is not None
        or draft.run_at is not None
        or draft.delay_seconds
        or draft.deadline is not None
    ):
        return None
    clock = database.clock
    now = None if clock.is_the_servers else clock.read(0)
    state = (database.store_id, database.version_base, known.rules_at, known.settings_at, now)
    return LoneJob(
        _statement(tuple(ONE_MORE[draft.priority])),
        state,
        job_row(0, lane, Status.PENDING, draft, 0),
        [Submitted(draft.id, Status.PENDING)],
    )


@cache
def _statement(counters: tuple[str, ...]) -> str:
    """The statement that stores a job and adds one to these counters of its lane.

    It returns whether the state is as remembered, and whether the job was stored.
    """
    columns = ", ".join(
        f"{_COUNTED_FROM_0.get(place, '')}${_FIRST + place}::{kind}"
        for place, kind in enumerate(JOB_COLUMNS.split())
    )
    return f"""
        WITH state AS MATERIALIZED (
            SELECT now FROM store_state, LATERAL (
                SELECT coalesce($5::bigint, {SERVER_MICROS}) AS wall) AS reading, LATERAL (
                SELECT greatest(clock, wall) AS now) AS time
            WHERE {AS_REMEMBERED} AND open_minute >= now / {MINUTE_MICROS}
                AND greatest(clock, pace_clock + (wall - pace_server) / 2) - wall
                    <= {TOLERANCE_MICROS}
        ), counted AS (
            UPDATE mark SET writes = writes + 1 FROM state WHERE id = $6 AND writes = $7
            RETURNING state.now, nextval('job_seq') AS seq
        ), stored AS (
            INSERT INTO job SELECT {columns} FROM counted
            RETURNING lane, priority, created_at AS turn, seq, parent_id
        ), entered AS ({ENTER_NEW_FROM} stored), noted AS (
            INSERT INTO lane_delta (lane, {", ".join(counters)})
            SELECT lane{", 1" * len(counters)} FROM stored)
        SELECT EXISTS (SELECT FROM state), EXISTS (SELECT FROM stored)
    """

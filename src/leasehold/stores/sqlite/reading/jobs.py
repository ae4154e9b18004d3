"""Looking at jobs as the store's clock shows them: results that are too old are left out."""

from __future__ import annotations

from collections.abc import Collection

import apsw

from leasehold.core.model.changes import Changes
from leasehold.core.model.job import Job
from leasehold.core.model.pages import check_cursor
from leasehold.core.model.retention import without_old_result
from leasehold.core.model.search import HeavyField, JobFilter, Page
from leasehold.env import from_micros
from leasehold.stores.sqlite.reading import feed, read
from leasehold.stores.sqlite.writing.application import is_inside
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.tables.rebalance import LAGS


def get(database: Database, job_id: str) -> Job | None:
    """One job."""

    def look(db: apsw.Connection) -> Job | None:
        job = read.read_job(db, job_id)
        if job is None or job.result_ttl_seconds is None:
            return job
        return without_old_result(job, from_micros(database.now(db)))

    return database.look(look)


def search(
    database: Database,
    where: JobFilter,
    limit: int,
    cursor: str | None,
    without: Collection[HeavyField],
) -> Page:
    """Jobs that fit, the last submitted first."""

    def look(db: apsw.Connection) -> Page:
        page = read.search(db, where, limit, cursor, without)
        now = from_micros(database.now(db))
        return Page([without_old_result(job, now) for job in page.jobs], page.next_cursor)

    return database.look(look)


def fitting(
    database: Database, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[str], str | None]:
    """The ids of jobs that fit, from one end on, and where the next ones begin."""
    return database.look(
        lambda db: read.find_fitting(db, where, limit, cursor, oldest_first=oldest_first)
    )


def changes(database: Database, cursor: str | None, limit: int) -> Changes:
    """What changed after the cursor; whoever asks is a follower from now on."""
    check_cursor(limit, cursor)
    was_kept = database.look(lambda db: feed.is_followed(db, database.now(db)))
    if not was_kept:
        was_kept = database.write(feed.follow)
    return database.look(lambda db: feed.changes(db, cursor, limit, was_kept=was_kept))


def position(database: Database, job_id: str) -> int | None:
    """How many pending jobs of its queue are served before this one."""
    lags = database.look(lambda db: bool(db.execute(LAGS, (database.now(db),)).fetchone()))
    # To place jobs anew is a write, and must not wait for this thread's own transaction.
    if lags and not is_inside(database.files.database):
        database.rebalance_the_rest()
    return database.look(lambda db: read.position(db, job_id, database.now(db)))

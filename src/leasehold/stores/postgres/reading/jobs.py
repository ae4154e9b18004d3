"""Looking at jobs as the store's clock shows them: results that are too old are left out."""

from __future__ import annotations

from collections.abc import Collection

from leasehold.core.model.changes import Changes
from leasehold.core.model.job import Job
from leasehold.core.model.pages import check_cursor
from leasehold.core.model.retention import without_old_result
from leasehold.core.model.search import HeavyField, JobFilter, Page
from leasehold.env import from_micros
from leasehold.stores.postgres.reading import feed, read
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.tables.rebalance import LAGS


def get(database: Database, job_id: str) -> Job | None:
    """One job."""
    with database.read() as db:
        job = read.read_job(db, job_id)
        if job is None or job.result_ttl_seconds is None:
            return job
        return without_old_result(job, from_micros(database.now(db)))


def search(
    database: Database,
    where: JobFilter,
    limit: int,
    cursor: str | None,
    without: Collection[HeavyField],
) -> Page:
    """Jobs that fit, the last submitted first."""
    with database.read() as db:
        page = read.search(db, where, limit, cursor, without)
        now = from_micros(database.now(db))
        return Page([without_old_result(job, now) for job in page.jobs], page.next_cursor)


def fitting(
    database: Database, where: JobFilter, limit: int, cursor: str | None, *, oldest_first: bool
) -> tuple[list[str], str | None]:
    """The ids of jobs that fit, from one end on, and where the next ones begin."""
    with database.read() as db:
        return read.find_fitting(db, where, limit, cursor, oldest_first=oldest_first)


def changes(database: Database, cursor: str | None, limit: int) -> Changes:
    """What changed after the cursor; whoever asks is a follower from now on."""
    check_cursor(limit, cursor)
    with database.read() as db:
        was_kept = feed.is_followed(db, database.now(db))
    if not was_kept:
        was_kept = database.write(feed.follow)
    with database.read() as db:
        return feed.changes(db, cursor, limit, was_kept=was_kept)


def position(database: Database, job_id: str) -> int | None:
    """How many pending jobs of its queue are served before this one."""
    with database.read() as db:
        lags = bool(db.execute(LAGS, (database.now(db),)).fetchone())
    if lags:
        database.rebalance_the_rest()
    with database.read() as db:
        return read.position(db, job_id, database.now(db))

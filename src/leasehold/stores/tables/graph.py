"""Reading graphs of jobs, and the invariants of their dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from leasehold.core.model.graph import Graph, graph_of_rows
from leasehold.stores.tables.statements import SqlConnection

# CROSS JOIN: SQLite takes the tables in this order, and does not look through all jobs for the few.
_NODES: Final = """
    SELECT job.seq, job.id, lane.queue, lane.task, dependent.policy, ended_by.id,
           coalesce(finished.status, waiting.status,
                    CASE WHEN running.seq IS NULL THEN 2 ELSE 3 END),
           coalesce(finished.reason, waiting.reason)
    FROM linked CROSS JOIN job CROSS JOIN lane
    LEFT JOIN running ON running.seq = job.seq
    LEFT JOIN finished ON finished.seq = job.seq
    LEFT JOIN waiting ON waiting.seq = job.seq
    LEFT JOIN dependent ON dependent.seq = job.seq
    LEFT JOIN job AS ended_by ON ended_by.seq = dependent.ended_by
    WHERE job.seq = linked.seq AND lane.id = job.lane
    ORDER BY job.seq
"""
_LINKS: Final = """
    SELECT dependency.seq, job.id FROM linked CROSS JOIN dependency CROSS JOIN job
    WHERE dependency.seq = linked.seq AND job.seq = needs
    ORDER BY dependency.seq, n
"""

_WAITS_FOR_NOBODY: Final = """
    SELECT id FROM waiting JOIN job USING (seq)
    WHERE status = 1 AND seq NOT IN (SELECT seq FROM blocker) LIMIT 10
"""
_WAITS_FOR_EVER: Final = """
    SELECT DISTINCT id FROM blocker JOIN job USING (seq) JOIN finished ON finished.seq = needs
    WHERE needs NOT IN (SELECT seq FROM resolving)
    UNION SELECT id FROM blocker JOIN job USING (seq) WHERE needs NOT IN (SELECT seq FROM job)
    LIMIT 10
"""
_BLOCKED_NO_MORE: Final = """
    SELECT DISTINCT seq FROM blocker
    WHERE seq NOT IN (SELECT seq FROM waiting WHERE status = 1) LIMIT 10
"""
_NEVER_TOLD: Final = (
    "SELECT seq FROM resolving WHERE seq NOT IN (SELECT seq FROM finished) LIMIT 10"
)


def graph_of(db: SqlConnection, linked: str, job_ids: Any) -> Graph:
    """Jobs and all jobs linked with them; `linked` finds their numbers from a list of ids."""
    rows = db.execute(linked + _NODES, (job_ids,)).fetchall()
    links = db.execute(linked + _LINKS, (job_ids,)).fetchall()
    return graph_of_rows(rows, links)


def problems(db: SqlConnection) -> Iterator[str]:
    """Every fault that would leave a job blocked for ever, or run it too early."""
    for (job_id,) in db.execute(_WAITS_FOR_NOBODY):
        yield f"job {job_id} is blocked, but waits for nobody"
    for (job_id,) in db.execute(_WAITS_FOR_EVER):
        yield f"job {job_id} waits for a job that has ended or is gone, and nobody will tell it"
    for (seq,) in db.execute(_BLOCKED_NO_MORE):
        yield f"number {seq} waits for another job, but is not blocked"
    for (seq,) in db.execute(_NEVER_TOLD):
        yield f"number {seq} has not ended, but its dependents are to be told so"

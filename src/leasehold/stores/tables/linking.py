"""Replayed jobs and those that they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.codes import STATUS_OF
from leasehold.core.model.graph import order_of
from leasehold.core.model.job import Job
from leasehold.core.rules.dependencies import still_to_wait_for
from leasehold.stores.tables.statements import Dialect
from leasehold.stores.tables.step import TableStep

# What was discarded since is not waited for: the join leaves it out.
DEPENDENCIES_NOW: Final = """
    SELECT needs, job.id, finished.status
    FROM dependency JOIN job ON job.seq = needs LEFT JOIN finished ON finished.seq = needs
    WHERE dependency.seq = $1 ORDER BY n
"""
WAIT_AGAIN: Final = "INSERT INTO waiting VALUES ($1, 1, NULL, $2, $3, $4, $5, NULL)"
# A replay means now, as for any job: what is left of a delay does not count any more.
START_ANEW: Final = "UPDATE dependent SET ended_by = NULL, due = $1 WHERE seq = $2"
LINKS_AMONG: Final = """
    SELECT job.id, needed.id FROM job JOIN dependency USING (seq) JOIN job AS needed
        ON needed.seq = needs
    WHERE {}
"""


def waits_again_for(step: TableStep, seq: int, job: Job) -> list[int]:
    """The numbers of the jobs that a replayed job is to wait for; refuses what would be in vain."""
    if not job.depends_on:
        return []
    needed = (
        (number, needed_id, None if code is None else STATUS_OF[code])
        for number, needed_id, code in step.execute(DEPENDENCIES_NOW, (seq,)).fetchall()
    )
    unfinished = still_to_wait_for(job.id, job.on_dependency_failure, needed)
    step.execute(START_ANEW, (step.now, seq))
    return unfinished


def replay_order(step: TableStep, dialect: Dialect, job_ids: Sequence[str]) -> list[int]:
    """The places of these ids, dependencies first."""
    links = LINKS_AMONG.format(dialect.among("job.id", "$1"))
    depends_on: dict[str, list[str]] = {}
    for job_id, needed_id in step.execute(links, (dialect.listed(job_ids),)).fetchall():
        depends_on.setdefault(job_id, []).append(needed_id)
    return order_of(job_ids, depends_on)

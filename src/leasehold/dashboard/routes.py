"""The pages of the dashboard: the path, the name in the navigation, and the roles of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leasehold.core.model.tokens import LOOKING, Role
from leasehold.dashboard.pages import (
    failures,
    job,
    jobs,
    letters,
    operations,
    overview,
    queues,
    rules,
    tables,
    workflows,
)
from leasehold.dashboard.visit import OVERSEERS, Desk, FilledPage, Visit

View = Callable[[Desk, Visit], FilledPage]
ADMIN: Final[tuple[Role, ...]] = ("admin",)

PAGES: Final[tuple[tuple[str, str, str, View, tuple[Role, ...]], ...]] = (
    ("", "overview", "Overview", overview.overview, OVERSEERS),
    ("queues", "queues", "Queues", queues.queues, LOOKING),
    ("jobs", "jobs", "Jobs", jobs.jobs, LOOKING),
    ("failures", "failures", "Failures", failures.failures, OVERSEERS),
    ("dead-letters", "dead-letters", "Dead letters", letters.letters, OVERSEERS),
    ("workflows", "workflows", "Workflows", workflows.workflows, OVERSEERS),
    ("schedules", "schedules", "Schedules", tables.schedules, OVERSEERS),
    ("workers", "workers", "Workers", tables.workers, OVERSEERS),
    ("operations", "operations", "Operations", operations.operations, OVERSEERS),
    ("health", "health", "Health", tables.health, OVERSEERS),
    ("settings", "settings", "Settings", rules.settings, OVERSEERS),
    ("audit", "audit", "Audit", tables.audit, ADMIN),
    ("queue", "", "", queues.queue, LOOKING),
    ("queue-rules", "", "", rules.queue_rules, LOOKING),
    ("job", "", "", job.job, LOOKING),
    ("workflow", "", "", workflows.workflow, OVERSEERS),
    ("operation", "", "", operations.operation, OVERSEERS),
    ("failure", "", "", failures.failure, OVERSEERS),
)
"""Path, name and title in the navigation (none for a page about one thing), view, and for whom.

The roles are those for which the service answers the same over HTTP."""


def inside(page: str) -> str:
    """A page of the dashboard to go to; the overview for anything else."""
    name = page.partition("?")[0]
    return page if name in {path for path, *_ in PAGES} - {""} else "."

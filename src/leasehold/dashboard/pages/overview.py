"""Overview: is anything wrong now?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from leasehold.core.model.phrases import counted
from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.records import at_work
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import FAILURES_MAX
from leasehold.core.rules.timeline import Timeline
from leasehold.dashboard.charts import RANGES, Range, charts
from leasehold.dashboard.shown import link, percent
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.observe.findings import Finding, Level, verdict

QUEUES_SHOWN: Final = 8
FAILURES_SHOWN: Final = 5
URGENT: Final = (Level.CRITICAL, Level.WARNING)

WHERE_TO_LOOK: Final = {
    "dead_letters": ("dead-letters", "See the dead letters"),
    "dead_letter_rate": ("dead-letters", "See the dead letters"),
    "failure_rate": ("failures", "See what fails"),
    "long_waits": ("queue", "See the queue"),
    "depth": ("queue", "See the queue"),
    "no_worker": ("workers", "See the workers"),
    "workers": ("workers", "See the workers"),
    "leases": ("workers", "See who holds what"),
    "schedules": ("schedules", "See the schedules"),
}
"""By check: the page that shows more of it."""


def alerts_of(findings: list[Finding]) -> list[tuple[Finding, tuple[str, str] | None]]:
    """Findings with a link to the page that shows more: advice for a shell is left out."""
    return [(each, _more(each)) for each in findings]


def _more(finding: Finding) -> tuple[str, str] | None:
    known = WHERE_TO_LOOK.get(finding.check)
    if known is None:
        return None
    page, title = known
    named = {"name": finding.queue} if page == "queue" else {"queue": finding.queue}
    return link(page, **named), title


def overview(desk: Desk, visit: Visit) -> FilledPage:
    queue = desk.queue
    infos = queue.list_queues()
    if not infos and not queue.schedules.list():
        return FilledPage("first_run.html", {"title": "Overview", "page": "overview"})
    findings = desk.findings()
    urgent = sorted(
        (each for each in findings if each.level in URGENT),
        key=lambda each: URGENT.index(each.level),
    )
    now = queue.now()
    over = chosen_range(visit)
    hour = desk.lately(
        "hour", lambda: queue.timeline(["completed", "failed"], since=timedelta(minutes=59))
    )
    workers = at_work(queue.workers(), queue.lost_workers(), now)
    return FilledPage(
        "overview.html",
        {
            "title": "Overview",
            "page": "overview",
            "now": now,
            "verdict": verdict(findings),
            "level": urgent[0].level.value if urgent else "ok",
            "alerts": alerts_of(urgent),
            "figures": figures(infos, hour, len(workers), sum(each.slots for each in workers)),
            "over": over,
            "ranges": RANGES,
            "charts": desk.lately(("charts", over), lambda: charts(queue, over)),
            "queues": by_trouble(infos, urgent)[:QUEUES_SHOWN],
            "queues_left_out": max(0, len(infos) - QUEUES_SHOWN),
            "failures": newest_failures(desk)[:FAILURES_SHOWN],
        },
    )


def chosen_range(visit: Visit) -> Range:
    """The time that charts are about."""
    asked = visit.text("over")
    return asked if asked in RANGES else "1h"


def figures(
    infos: list[QueueInfo], hour: Timeline, workers: int, slots: int
) -> list[tuple[str, Any, str, str]]:
    """The numbers at the top: name, value, meaning, and link."""
    counts = {status: sum(info.counts.get(status, 0) for info in infos) for status in Status}
    completed, failed = (
        sum(round(value or 0) for value in hour.values[name]) for name in ("completed", "failed")
    )
    ended = completed + failed
    return [
        ("Pending", counts[Status.PENDING], "wait for a worker", "jobs?q=status:pending"),
        ("Running", counts[Status.RUNNING], f"on {counted(slots, 'slot')}",
         "jobs?q=status:running"),
        ("Completed", completed, "in the last hour", "jobs?q=status:completed"),
        ("Failed", percent(failed / ended if ended else None),
         f"of {counted(ended, 'attempt')} in the last hour", "failures"),
        ("Dead letters", counts[Status.DEAD], "wait for a decision", "dead-letters"),
        ("Workers", workers, "at work", "workers"),
    ]  # fmt: skip


def by_trouble(infos: list[QueueInfo], urgent: list[Finding]) -> list[tuple[QueueInfo, str]]:
    """Queues, those in trouble first, then those with most to do; with how urgent that is."""
    level = {each.queue: each.level.value for each in reversed(urgent) if each.queue}
    rank = {"critical": 0, "warning": 1}
    ordered = sorted(
        infos, key=lambda info: (rank.get(level.get(info.name, ""), 2), -info.pending, info.name)
    )
    return [(info, level.get(info.name, "")) for info in ordered]


def newest_failures(desk: Desk) -> list[Any]:
    """Failures, the group that appeared last first: a change brought the new ones."""
    recent = desk.queue.now() - timedelta(days=7)
    found = [each for each in desk.queue.failures(limit=FAILURES_MAX) if each.last_at >= recent]
    return sorted(found, key=lambda each: each.first_at, reverse=True)

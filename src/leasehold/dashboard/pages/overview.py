"""Overview: is anything wrong now?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from leasehold.core.model.failure import Failure
from leasehold.core.model.phrases import counted, listed
from leasehold.core.model.pins import Pin
from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.records import at_work
from leasehold.core.model.safe_text import safe
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import FAILURES_MAX
from leasehold.core.rules.timeline import Timeline
from leasehold.dashboard.charts import RANGES, Range, charts
from leasehold.dashboard.shown import link, percent
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.observe.findings import Finding, Level

QUEUES_SHOWN: Final = 8
FAILURES_SHOWN: Final = 5
URGENT: Final = (Level.CRITICAL, Level.WARNING)
NAMED_MAX: Final = 3
"""How many queues a headline names; more are only counted."""
NAME_LENGTH_MAX: Final = 40
SAME_SHOWN: Final = 3
"""How many alerts of the same kind are shown one by one, since hundreds of queues may have it."""

_SCHEMA: Final = re.compile(r" \(schema (.+)\)$")
"""How a PostgreSQL store names its schema, after an address without user and password."""
HELD_UP: Final = "Jobs are held up"
FAILING: Final = "Jobs fail for good"
IN_WORDS: Final = {
    "depth": "little room left",
    "growing": "a growing backlog",
    "failure_rate": "many failures",
    "dead_letter_rate": "many dead letters",
}
"""Checks whose name would not read well in a headline."""
WHERE_TO_LOOK: Final = {
    "dead_letters": ("failures", "See what failed"),
    "dead_letter_rate": ("failures", "See what fails"),
    "failure_rate": ("failures", "See what fails"),
    "long_waits": ("queue", "See the queue"),
    "depth": ("queue", "See the queue"),
    "growing": ("queue", "See the queue"),
    "no_worker": ("queue", "See the queue"),
    "paused": ("queue", "See the queue"),
    "workers": ("workers", "See the workers"),
    "leases": ("workers", "See who holds what"),
    "schedules": ("schedules", "See the schedules"),
    "overdue_schedules": ("workers", "See the workers"),
    "orphaned_schedules": ("schedules", "See the schedules"),
    "unknown_tasks": ("jobs", "See delayed jobs"),
}
"""By check: the page that shows more of it."""
DONE_THERE: Final = ("dead_letters", "dead_letter_rate", "failure_rate", "schedules")
"""Checks whose page shows and does everything that a shell could."""


@dataclass(frozen=True)
class Alert:
    """A finding as an alert: what to do about it, and the page that shows more."""

    finding: Finding
    to: str = ""
    title: str = ""
    advice: str = ""


def alerts_of(findings: Iterable[Finding], on: str = "") -> list[Alert]:
    """Findings as alerts; none leads to the page that it stands `on`."""
    return [_alert(each, on) for each in findings]


def _alert(finding: Finding, on: str) -> Alert:
    page, title = WHERE_TO_LOOK.get(finding.check, ("", ""))
    advice = "" if finding.check in DONE_THERE else finding.advice
    if not page or page == on:
        return Alert(finding, advice=advice)
    if page == "jobs":
        return Alert(finding, link(page, q="status:scheduled"), title, advice)
    named = {"name": finding.queue} if page == "queue" else {"queue": finding.queue}
    return Alert(finding, link(page, **named), title, advice)


def few_of(urgent: Iterable[Finding]) -> tuple[list[Finding], dict[str, int]]:
    """The alerts to show, a bounded number per check, and the number of further ones by check."""
    shown: list[Finding] = []
    met: Counter[str] = Counter()
    for each in urgent:
        met[each.check] += 1
        if met[each.check] <= SAME_SHOWN:
            shown.append(each)
    return shown, {name: count - SAME_SHOWN for name, count in met.items() if count > SAME_SHOWN}


def headline(urgent: Sequence[Finding]) -> str:
    """The verdict in one line, where the alerts below it tell the rest; worst first.

    >>> lost = Finding(check="no_worker", level=Level.CRITICAL, found="3 pending", queue="mail")
    >>> headline([lost, Finding(check="dead_letters", level=Level.WARNING, found="7")])
    'Jobs are held up: no worker for mail. Also: dead letters.'
    >>> headline([Finding(check="dead_letter_rate", level=Level.CRITICAL, found="", queue="till")])
    'Jobs fail for good: many dead letters in till.'
    >>> headline([])
    'All is well.'
    """
    if not urgent:
        return "All is well."
    worst = [each for each in urgent if each.level is urgent[0].level]
    begin = "It works, but needs attention"
    if worst[0].level is Level.CRITICAL:
        begin = FAILING if all(each.check == "dead_letter_rate" for each in worst) else HELD_UP
    less = _named(urgent[len(worst) :])
    return f"{begin}: {_named(worst)}.{f' Also: {less}.' if less else ''}"


def _named(findings: Sequence[Finding]) -> str:
    """Findings in a few words: one check with its queues, then the next."""
    queues: dict[str, list[str]] = {}
    for each in findings:
        queues.setdefault(each.check, []).extend([each.queue] if each.queue else [])
    return ", ".join(
        f"{IN_WORDS.get(check) or check.replace('_', ' ')}{_of(check, names)}"
        for check, names in queues.items()
    )


def _of(check: str, queues: Sequence[str]) -> str:
    if not queues:
        return ""
    where = listed([safe(each, limit=NAME_LENGTH_MAX) for each in queues[:NAMED_MAX]])
    if len(queues) > NAMED_MAX:
        where = counted(len(queues), "queue")
    return f" {'for' if check == 'no_worker' else 'in'} {where}"


def overview(desk: Desk, visit: Visit) -> FilledPage:
    queue = desk.queue
    infos = queue.list_queues()
    if not infos and not queue.schedules.list():
        values = {"title": "Overview", "page": "overview", "address": address_of(queue.describe())}
        return FilledPage("first_run.html", values)
    workers = queue.workers()
    findings = desk.findings(infos, workers)
    urgent = sorted(
        (each for each in findings if each.level in URGENT),
        key=lambda each: URGENT.index(each.level),
    )
    shown, left_out = few_of(urgent)
    now = queue.now()
    over = chosen_range(visit)
    hour = desk.hour()
    workers = at_work(workers, desk.gone(workers), now)
    failures = newest_failures(desk)
    deploy = next(iter(queue.deploys()[::-1]), None)
    return FilledPage(
        "overview.html",
        {
            "title": "Overview",
            "page": "overview",
            "now": now,
            "verdict": headline(urgent),
            "level": urgent[0].level.value if urgent else "ok",
            "alerts": alerts_of(shown),
            "alerts_left_out": left_out,
            "figures": figures(infos, hour, len(workers), sum(each.slots for each in workers)),
            "over": over,
            "ranges": RANGES,
            "charts": desk.lately(
                ("charts", over), lambda: charts(queue, over, hour=hour if over == "1h" else None)
            ),
            "queues": by_trouble(infos, urgent)[:QUEUES_SHOWN],
            "queues_left_out": max(0, len(infos) - QUEUES_SHOWN),
            "failures": failures[:FAILURES_SHOWN],
            "deploy": deploy,
            "came_with_deploy": brought_by(deploy, failures) if urgent else [],
        },
    )


def address_of(store: Mapping[str, Any]) -> str | None:
    """The URL of a store, from its description, as another process would open it; None if none can.

    >>> address_of({"kind": "postgresql", "path": "postgresql://db/jobs (schema tests)"})
    'postgresql://db/jobs?schema=tests'
    >>> address_of({"kind": "sqlite", "path": "/srv/jobs.db"}), address_of({"kind": "memory"})
    ('/srv/jobs.db', None)
    """
    path = str(store.get("url") or store.get("path") or "")
    return _SCHEMA.sub(r"?schema=\1", path) or None


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


def brought_by(deploy: Pin | None, failures: Sequence[Failure]) -> list[Failure]:
    """Failures first seen since a deploy, the most frequent first: often the cause of an alert."""
    if deploy is None:
        return []
    new = (each for each in failures if each.first_at >= deploy.at)
    return sorted(new, key=lambda each: -each.count)


def newest_failures(desk: Desk) -> list[Failure]:
    """Failures, the group that appeared last first: a change brought the new ones."""
    recent = desk.queue.now() - timedelta(days=7)
    found = [each for each in desk.queue.failures(limit=FAILURES_MAX) if each.last_at >= recent]
    return sorted(found, key=lambda each: each.first_at, reverse=True)

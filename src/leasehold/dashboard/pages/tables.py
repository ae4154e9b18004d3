"""Schedules, workers, audit and health: one table each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leasehold.core.model.phrases import counted
from leasehold.core.model.records import WorkerInfo, is_at_work, is_late
from leasehold.core.model.settings import beat_seconds
from leasehold.dashboard.audit_details import details_of
from leasehold.dashboard.pages.overview import URGENT, headline
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.documents.schedules import schedule_document
from leasehold.observe.findings import Finding, Level

AUDIT_PAGE_SIZE: Final = 100
TOTALS_SHOWN: Final = 50
WELL: Final = ("at work", "idle")


def schedules(desk: Desk, visit: Visit) -> FilledPage:
    now = desk.queue.now()
    documents = [schedule_document(each, now) for each in desk.queue.schedules.list()]
    documents.sort(key=lambda each: (each["error"] is None, not each["overdue"], each["name"]))
    for each in documents:
        # However often its button is pressed, it is run once.
        each["request_id"] = desk.env.new_id()
    values = {"title": "Schedules", "page": "schedules", "now": now, "schedules": documents}
    return FilledPage("schedules.html", values)


def workers(desk: Desk, visit: Visit) -> FilledPage:
    now = desk.queue.now()
    registered = desk.queue.workers()
    gone = desk.gone(registered)
    settings = desk.store.settings()
    every = beat_seconds(settings.values)
    known = [(each, _state(each, gone, now, every)) for each in registered]
    # Healthy workers are sorted by name: by heartbeats, they would constantly change places.
    known.sort(key=lambda each: (_rank(*each), *_place(*each)))
    alive = {each.id for each, _ in known}
    stops = settings.stops
    totals = desk.queue.worker_totals(limit=TOTALS_SHOWN)
    return FilledPage(
        "workers.html",
        {
            "title": "Workers",
            "page": "workers",
            "now": now,
            "workers": known,
            "stopping": {
                each.id for each, _ in known if stops.get(each.id) == each.started_at.isoformat()
            },
            "totals": {each.worker: each for each in totals},
            "gone": [each for each in totals if each.worker not in alive][:20],
        },
    )


def _rank(worker: WorkerInfo, state: str) -> int:
    """Trouble comes first, and last those that have gone and left nothing behind."""
    if state in WELL:
        return 1
    return 2 if state in ("gone", "dead") and not worker.jobs else 0


def _place(worker: WorkerInfo, state: str) -> tuple[str, str]:
    return ("" if state in WELL else worker.heartbeat_at.isoformat(), worker.id)


def _state(worker: WorkerInfo, gone: set[str], now: Any, every: float) -> str:
    if worker.id in gone:
        return "gone" if worker.is_consumer else "dead"
    if not is_at_work(worker, now):
        return "silent"
    if is_late(worker, now, every):
        return "late"
    return "at work" if worker.running else "idle"


def audit(desk: Desk, visit: Visit) -> FilledPage:
    page = desk.queue.audit_page(limit=AUDIT_PAGE_SIZE, cursor=visit.text("cursor") or None)
    return FilledPage(
        "audit.html",
        {
            "title": "Audit",
            "page": "audit",
            "now": desk.queue.now(),
            "records": [(each, details_of(each.detail)) for each in page.records],
            "next_cursor": page.next_cursor,
        },
    )


def by_check(fine: Sequence[Finding]) -> list[Finding]:
    """Findings that ask for nothing: one line for a rule that says the same of several queues.

    >>> quiet = [Finding(check="depth", level=Level.OK, found="0", queue=f"q{n}") for n in range(9)]
    >>> [(each.check, each.queue, each.found) for each in by_check(quiet)]
    [('depth', None, 'in all 9 queues')]
    """
    same: dict[tuple[Level, str], list[Finding]] = {}
    for each in fine:
        same.setdefault((each.level, each.check), []).append(each)
    return [
        alike[0]
        if len(alike) == 1
        else Finding(
            check=check,
            level=level,
            found=f"in all {counted(len(alike), 'queue')}",
            meaning=alike[0].meaning if len({each.meaning for each in alike}) == 1 else "",
        )
        for (level, check), alike in same.items()
    ]


def health(desk: Desk, visit: Visit) -> FilledPage:
    findings = desk.findings()
    order = [Level.CRITICAL, Level.WARNING, Level.UNKNOWN, Level.OK]
    ordered = sorted(findings, key=lambda each: order.index(each.level))
    urgent = [each for each in ordered if each.level in URGENT]
    fine = [each for each in ordered if each.level not in URGENT]
    return FilledPage(
        "health.html",
        {
            "title": "Health",
            "page": "health",
            "verdict": headline(urgent),
            "urgent": urgent,
            "fine": by_check(fine),
            "fine_checks": len(fine),
            "store": desk.queue.describe(),
        },
    )

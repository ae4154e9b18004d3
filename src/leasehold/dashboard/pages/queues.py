"""Queues: is each of them keeping up?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.records import WorkerInfo, at_work, who_serves
from leasehold.core.rules.metrics import QueueMetrics
from leasehold.dashboard.charts import RANGES, charts
from leasehold.dashboard.pages.overview import URGENT, alerts_of, by_trouble, chosen_range
from leasehold.dashboard.rule_words import rules_in_words
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.queue.health import ALERT_SECONDS

TASKS_SHOWN: Final = 20
FEW: Final = 10
"""So many queues are found without a search."""


@dataclass(frozen=True)
class QueueRow:
    """A queue, and how it did in the last minutes."""

    info: QueueInfo
    level: str
    lately: QueueMetrics
    workers: int
    slots: int

    @property
    def in_per_minute(self) -> float:
        return self.lately.submitted / (ALERT_SECONDS / 60)

    @property
    def out_per_minute(self) -> float:
        """Jobs that ended, in whichever way: those that die leave the queue, too."""
        ended = self.lately.completed + self.lately.dead + self.lately.cancelled
        return ended / (ALERT_SECONDS / 60)

    @property
    def failing(self) -> float | None:
        """The share of attempts that failed; None if none ended."""
        return self.lately.error_rate if self.lately.completed + self.lately.failed else None

    @property
    def drain_seconds(self) -> float | None:
        """How long until nothing is pending, at the rates of the last minutes; None for never."""
        gain = self.out_per_minute - self.in_per_minute
        return 60 * self.info.pending / gain if gain > 0 else None


def queues(desk: Desk, visit: Visit) -> FilledPage:
    infos = desk.queue.list_queues()
    known = desk.queue.workers()
    urgent = [each for each in desk.findings(infos, known) if each.level in URGENT]
    asked = visit.text("q").strip()
    wanted = [info for info in infos if asked.casefold() in info.name.casefold()]
    ordered = by_trouble(wanted, urgent)
    now = desk.queue.now()
    workers = at_work(known, desk.gone(known), now)
    serving = who_serves(workers, (info.name for info in wanted))
    lately = {each.queue: each for each in desk.measured()}
    rows = [
        # A queue created after the measurement is measured separately.
        _row(info, level, serving[info.name], lately.get(info.name) or _measured(desk, info.name))
        for info, level in ordered
    ]
    return FilledPage(
        "queues.html",
        {
            "title": "Queues",
            "page": "queues",
            "now": now,
            "rows": rows,
            "q": asked,
            "all": len(infos),
            "is_long": len(infos) > FEW,
        },
    )


def queue(desk: Desk, visit: Visit) -> FilledPage:
    name = visit.text("name")
    info = desk.queue.queue_info(name)
    now = desk.queue.now()
    findings = [each for each in desk.findings() if each.queue == name]
    known = desk.queue.workers()
    workers = at_work(known, desk.gone(known), now)
    over = chosen_range(visit)
    alerts = alerts_of((each for each in findings if each.level in URGENT), on="queue")
    drawn = desk.lately(("charts", over, name), lambda: charts(desk.queue, over, name))
    return FilledPage(
        "queue.html",
        {
            "title": f"Queue {name}",
            "page": "queues",
            "now": now,
            "row": _row(
                info,
                "",
                who_serves(workers, [name])[name],
                _measured(desk, name),
            ),
            "alerts": alerts if visit.may_oversee else [replace(each, to="") for each in alerts],
            "rules": rules_in_words(info.config),
            "over": over,
            "ranges": RANGES,
            "charts": drawn if visit.may_oversee else [replace(each, marks=()) for each in drawn],
            "tasks": desk.tasks_of(name),
            "tasks_shown": TASKS_SHOWN,
            "failures": desk.queue.failures(name, limit=5) if visit.may_oversee else [],
            "deploy": next(iter(desk.queue.deploys()[::-1]), None),
        },
    )


def _measured(desk: Desk, name: str) -> QueueMetrics:
    return desk.queue.metrics(name, window_seconds=ALERT_SECONDS)


def _row(
    info: QueueInfo, level: str, serving: Sequence[WorkerInfo], lately: QueueMetrics
) -> QueueRow:
    return QueueRow(info, level, lately, len(serving), sum(each.slots for each in serving))

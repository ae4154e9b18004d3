"""Queues: is each of them keeping up?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import asdict

from leasehold.core.model.queue_config import DEFAULT_CONFIG, QueueInfo
from leasehold.core.model.records import at_work, serves
from leasehold.core.rules.metrics import QueueMetrics
from leasehold.dashboard.charts import RANGES, charts
from leasehold.dashboard.pages.overview import URGENT, by_trouble, chosen_range
from leasehold.dashboard.visit import Desk, FilledPage, Visit

LATELY_SECONDS: Final = 300.0
MEASURED_SECONDS: Final = 0.15
"""For so long it is measured how queues do, those in trouble first; the others show how they stand.
"""


@dataclass(frozen=True)
class QueueRow:
    """A queue, and how it did in the last minutes."""

    info: QueueInfo
    level: str
    lately: QueueMetrics | None
    workers: int
    slots: int

    @property
    def in_per_minute(self) -> float | None:
        return None if self.lately is None else self.lately.submitted / (LATELY_SECONDS / 60)

    @property
    def out_per_minute(self) -> float | None:
        return None if self.lately is None else self.lately.completed / (LATELY_SECONDS / 60)

    @property
    def drain_seconds(self) -> float | None:
        """How long until nothing is pending, at the rates of the last minutes; None for never."""
        if self.in_per_minute is None or self.out_per_minute is None:
            return None
        gain = self.out_per_minute - self.in_per_minute
        return 60 * self.info.pending / gain if gain > 0 else None


def queues(desk: Desk, visit: Visit) -> FilledPage:
    infos = desk.queue.list_queues()
    urgent = [each for each in desk.findings() if each.level in URGENT]
    ordered = by_trouble(infos, urgent)
    now = desk.queue.now()
    workers = at_work(desk.queue.workers(), desk.queue.lost_workers(), now)
    clock = desk.env.clock
    end = clock.monotonic() + MEASURED_SECONDS
    rows = [
        _row(desk, info, level, workers, measured=clock.monotonic() < end)
        for info, level in ordered
    ]
    return FilledPage(
        "queues.html", {"title": "Queues", "page": "queues", "now": now, "rows": rows}
    )


def queue(desk: Desk, visit: Visit) -> FilledPage:
    name = visit.text("name")
    info = desk.queue.queue_info(name)
    now = desk.queue.now()
    findings = [each for each in desk.findings() if each.queue == name]
    workers = at_work(desk.queue.workers(), desk.queue.lost_workers(), now)
    over = chosen_range(visit)
    rules = {
        rule: value
        for rule, value in asdict(info.config).items()
        if value != getattr(DEFAULT_CONFIG, rule)
    }
    return FilledPage(
        "queue.html",
        {
            "title": f"Queue {name}",
            "page": "queues",
            "now": now,
            "row": _row(desk, info, "", workers, measured=True),
            "alerts": [(each, None) for each in findings if each.level in URGENT],
            "rules": rules,
            "over": over,
            "ranges": RANGES,
            "charts": desk.lately(("charts", over, name), lambda: charts(desk.queue, over, name)),
            "failures": desk.queue.failures(name, limit=5),
        },
    )


def _row(
    desk: Desk, info: QueueInfo, level: str, workers: list[Any], *, measured: bool
) -> QueueRow:
    serving = [each for each in workers if serves(each.queues, info.name)]
    return QueueRow(
        info,
        level,
        desk.queue.metrics(info.name, window_seconds=LATELY_SECONDS) if measured else None,
        len(serving),
        sum(each.slots for each in serving),
    )

"""Charts, drawn on the server: lines in a box 100 units high, and the same data as a table.

The box is stretched to the available room; labels around it are text, so they are not stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeVar

from leasehold.core.model.pins import Pin
from leasehold.core.rules.timeline import Timeline
from leasehold.dashboard.deploys import places
from leasehold.dashboard.shown import compact
from leasehold.documents.spans import took
from leasehold.queue.facade import TaskQueue

T = TypeVar("T")

HEIGHT: Final = 100.0
HEADROOM: Final = 4.0
"""The space above the highest value, so that its line is not cut."""

TICKS: Final = 4
MINUTE, _HOUR, _DAY = 60, 3600, 86_400
DURATION_TOPS: Final = (
    *(MINUTE * each for each in (1, 2, 4, 10, 20, 40)),
    *(_HOUR * each for each in (1, 2, 4, 8, 12, 24)),
    *(_DAY * each for each in (2, 4, 10, 20, 40, 100)),
)
"""Where scales of durations end."""

Range = Literal["1h", "24h", "30d"]
RANGES: Final[dict[Range, str]] = {"1h": "1 hour", "24h": "24 hours", "30d": "30 days"}
MINUTES_IN_A_STEP: Final = {"1h": 1, "24h": 10}
Value = float | None


@dataclass(frozen=True)
class ChartLine:
    """One line of a chart."""

    name: str
    colour: str
    """A class of the stylesheet."""
    values: Sequence[Value]
    path: str
    area: str
    dots: str
    """Points without neighbours, which no line shows."""


@dataclass(frozen=True)
class Chart:
    """A chart, ready to be drawn."""

    title: str
    note: str
    lines: Sequence[ChartLine]
    at: Sequence[datetime]
    top: float
    show: Callable[[Value], str]
    by_day: bool
    marks: Sequence[tuple[float, Pin]]
    """Deploys, each with its place."""
    empty: str
    """What it says if nothing happened: that is often good news."""
    is_measured: bool = False
    """Whether a value is None if there was nothing to measure."""

    @property
    def width(self) -> int:
        return max(1, len(self.at) - 1)

    @property
    def ticks(self) -> list[int]:
        """The steps whose times stand below the chart."""
        last = len(self.at) - 1
        return sorted({round(last * share / TICKS) for share in range(TICKS + 1)})

    @property
    def begin(self) -> int:
        """The first moment, in seconds since 1970."""
        return int(self.at[0].timestamp())

    @property
    def step_seconds(self) -> int:
        return int((self.at[1] - self.at[0]).total_seconds()) if len(self.at) > 1 else MINUTE

    @property
    def is_in_seconds(self) -> bool:
        return self.show is _seconds

    @property
    def values(self) -> str:
        """All values as JSON, for the script that draws the chart anew: a list for each line."""
        lines = (
            ",".join("null" if value is None else f"{value:.6g}" for value in line.values)
            for line in self.lines
        )
        return f"[{','.join(f'[{line}]' for line in lines)}]"

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened; a wait of zero seconds counts as something."""
        values = [value for line in self.lines for value in line.values]
        return all(value is None for value in values) if self.is_measured else not any(values)


@dataclass(frozen=True)
class ChartShape:
    """The contents of a chart: metrics of a timeline, and how several minutes become one step."""

    title: str
    note: str
    metrics: dict[str, tuple[str, str]]
    """The name for people and the colour of each metric."""
    together: Callable[[Sequence[float]], float]
    show: Callable[[Value], str]
    empty: str


def _count(value: Value) -> str:
    return compact(value)


def _seconds(value: Value) -> str:
    return "–" if value is None else took(value)


WANTED: Final = (
    ChartShape(
        "Throughput",
        "jobs that came in, and jobs that were completed",
        {"submitted": ("submitted", "c-in"), "completed": ("completed", "c-completed")},
        sum,
        _count,
        "No job came or was completed",
    ),
    ChartShape(
        "Failures",
        "attempts that failed, and jobs that became dead letters",
        {"failed": ("failed attempts", "c-failed"), "dead": ("dead letters", "c-dead")},
        sum,
        _count,
        "Nothing failed",
    ),
    ChartShape(
        "Waiting jobs",
        "pending jobs at the end of each step",
        {"pending": ("pending", "c-pending")},
        lambda values: values[-1],
        _count,
        "Nothing waited",
    ),
    ChartShape(
        "Oldest waiting job",
        "for how long the job had waited that waited longest; of several minutes, the worst counts",
        {"oldest_pending_age_seconds": ("age", "c-age")},
        max,
        _seconds,
        "Nothing waited",
    ),
    ChartShape(
        "Wait time",
        "half of the jobs, and 95 of 100, waited no longer; of several minutes, the worst counts",
        {"wait_p50_seconds": ("p50", "c-in"), "wait_p95_seconds": ("p95", "c-wait")},
        max,
        _seconds,
        "No job was leased",
    ),
    ChartShape(
        "Run time",
        "half of the attempts, and 95 of 100, ran no longer; of several minutes, the worst counts",
        {"run_p50_seconds": ("p50", "c-in"), "run_p95_seconds": ("p95", "c-running")},
        max,
        _seconds,
        "No attempt ended",
    ),
)
MEASURED: Final = ("wait_p50_seconds", "wait_p95_seconds", "run_p50_seconds", "run_p95_seconds")
METRICS: Final = [metric for wanted in WANTED for metric in wanted.metrics]


def hour_of(queue: TaskQueue, name: str | None = None) -> Timeline:
    """The last hour of a queue, or of the whole store, with all data for charts."""
    return queue.timeline(METRICS, name, since=timedelta(minutes=59))


def charts(
    queue: TaskQueue, over: Range, name: str | None = None, *, hour: Timeline | None = None
) -> list[Chart]:
    """The charts of a queue, or of the whole store; a page that has already read the hour passes
    it.
    """
    marks = queue.deploys()
    if over == "30d":
        line = queue.timeline(METRICS, name, since=timedelta(days=29), resolution="day")
        return [_chart(wanted, line, 1, marks, by_day=True) for wanted in WANTED]
    if over == "1h":
        line = hour or hour_of(queue, name)
    else:
        line = queue.timeline(METRICS, name, since=timedelta(minutes=24 * 60 - 1))
    step = MINUTES_IN_A_STEP[over]
    return [_chart(wanted, line, step, marks, by_day=False) for wanted in WANTED]


def _chart(
    wanted: ChartShape, timeline: Timeline, step: int, marks: Sequence[Pin], *, by_day: bool
) -> Chart:
    at = [part[0] for part in _parts(timeline.at, step)]
    values = {
        metric: [_one(part, wanted.together) for part in _parts(timeline.values[metric], step)]
        for metric in wanted.metrics
    }
    highest = max((value or 0 for each in values.values() for value in each), default=0)
    top = nice_duration(highest) if wanted.show is _seconds else nice_count(highest)
    lines = [
        ChartLine(name, colour, values[metric], *_paths(values[metric], top))
        for metric, (name, colour) in wanted.metrics.items()
    ]
    return Chart(
        wanted.title,
        wanted.note,
        lines,
        at,
        top,
        wanted.show,
        by_day,
        places(marks, at),
        wanted.empty,
        is_measured=all(metric in MEASURED for metric in wanted.metrics),
    )


def _parts(values: Sequence[T], step: int) -> list[Sequence[T]]:
    return [values[start : start + step] for start in range(0, len(values), step)]


def _one(values: Sequence[Value], together: Callable[[Sequence[float]], float]) -> Value:
    known = [value for value in values if value is not None]
    return together(known) if known else None


def _paths(values: Sequence[Value], top: float) -> tuple[str, str, str]:
    """A line, the area below it, and dots. An unknown value is a gap; a lone point is a dot."""
    line, area, dots = "", "", ""
    start: int | None = None
    for place, value in enumerate((*values, None)):
        if value is not None:
            line += f"{'M' if start is None else 'L'}{place} {_height(value, top)}"
            start = place if start is None else start
        elif start is not None:
            last = place - 1
            tops = "".join(f"L{n} {_height(values[n], top)}" for n in range(start, place))
            area += f"M{start} {HEIGHT:g}{tops}L{last} {HEIGHT:g}Z"
            if last == start:
                dots += f"M{start} {_height(values[start], top)}h0.01"
            start = None
    return line, area, dots


def _height(value: Value, top: float) -> str:
    return f"{HEIGHT - (HEIGHT - HEADROOM) * (value or 0) / top:.4g}"


def nice_top(highest: float) -> float:
    """A readable end of a scale: 1, 2 or 5 times a power of ten.

    >>> nice_top(0), nice_top(7), nice_top(130), nice_top(0.03)
    (1.0, 10.0, 200.0, 0.05)
    """
    if highest <= 0:
        return 1.0
    size = 10.0 ** (len(str(int(highest))) - 1) if highest >= 1 else 1.0
    while size > highest:
        size /= 10
    return next(round(size * by, 9) for by in (1, 2, 5, 10) if size * by >= highest)


def nice_count(highest: float) -> float:
    """The same for counts, whose middle must be a whole number.

    >>> nice_count(0), nice_count(3), nice_count(5), nice_count(130)
    (2.0, 4.0, 10.0, 200.0)
    """
    return next((float(top) for top in (2, 4, 10) if top >= highest), nice_top(highest))


def nice_duration(highest: float) -> float:
    """The same for seconds: from a minute on, the end and its half need few units.

    >>> nice_duration(0.3), nice_duration(70), nice_duration(5000), nice_duration(200_000)
    (0.5, 120.0, 7200.0, 345600.0)
    """
    if highest <= DURATION_TOPS[0] / 2:
        return nice_top(highest)
    longest = DURATION_TOPS[-1]
    return next(
        (float(top) for top in DURATION_TOPS if top >= highest),
        nice_top(highest / longest) * longest,
    )

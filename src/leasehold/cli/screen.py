"""The contents of `top`, and the effects of its keys, independent of terminal and store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from leasehold.cli.layout import ELLIPSIS, by_their_ends, cut_in_the_middle
from leasehold.cli.overview import Overview
from leasehold.cli.safe import safe
from leasehold.cli.times import time_text
from leasehold.core.model.queue_config import QueueState
from leasehold.core.model.status import WAITING, Status
from leasehold.documents.spans import age_of, took

HELP: Final = "q quit  p hold  s sort  j/k select  space pause/resume queue"
NAME_WIDTH_MIN: Final = 12
WORKER_ROWS_MIN: Final = 2
ALWAYS_SHOWN: Final = (Status.PENDING, Status.RUNNING)


class Quit:
    """A key asks to leave."""


class SetState(NamedTuple):
    """A person agreed to pause a queue, or to resume it."""

    queue: str
    verb: Literal["pause", "resume"]


class Figure(NamedTuple):
    """One column of numbers."""

    field: str
    heading: str
    width: int
    show: Callable[[Any], str] = "{:,}".format


FIGURES: Final = (
    Figure("pending", "PENDING", 10),
    Figure("running", "RUNNING", 8),
    Figure("waiting", "WAITING", 8),
    Figure("dead", "DEAD", 7),
    Figure("throughput_per_second", "DONE/S", 8, "{:,.1f}".format),
    Figure("oldest_pending_age_seconds", "OLDEST", 8, age_of),
    Figure("error_rate", "FAIL%", 7, lambda rate: f"{100 * rate:.1f}"),
    Figure("run_p95_seconds", "RUN P95", 9, took),
    Figure("wait_p95_seconds", "WAIT P95", 10, took),
)
"""On a narrow terminal the last ones are left out. Counts of events are those of the window."""
SORTS: Final = ("queue", *(figure.field for figure in FIGURES))

Row = Mapping[str, Any]


class View:
    """The state of the screen: the selection, the order, whether it stands still."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.held = False
        self.asking: SetState | None = None
        """The meaning of a yes; a look in between does not change it."""
        self.message = ""
        self.trouble = ""
        """Why the figures on the screen may be old."""
        self.sort = SORTS[0]
        self.selected: str | None = None
        self._now: Overview | None = None

    # -- what happens --------------------------------------------------------------------------

    def saw(self, overview: Overview) -> None:
        """Take a new look."""
        self._now = overview
        self.trouble = ""
        names = [row["queue"] for row in self.rows()]
        if self.selected not in names:
            self.selected = names[0] if names else None

    def press(self, key: str) -> Quit | SetState | None:
        """Act on a key, and answer with the next step for the driver of the view."""
        self.message = ""
        if self.asking is not None:
            asked, self.asking = self.asking, None
            return asked if key in ("y", "Y") else None
        match key:
            case "q" | "Q":
                return Quit()
            case "p":
                self.held = not self.held
            case "s":
                self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
            case "j" | "down":
                self._select(1)
            case "k" | "up":
                self._select(-1)
            case " ":
                self.asking = self._order()
        return None

    def _order(self) -> SetState | None:
        """What space means for the selected queue."""
        for row in self.rows():
            if row["queue"] == self.selected:
                active = row["state"] == QueueState.ACTIVE
                return SetState(row["queue"], "pause" if active else "resume")
        return None

    def _select(self, step: int) -> None:
        names = [row["queue"] for row in self.rows()]
        if self.selected in names:
            place = names.index(self.selected) + step
            self.selected = names[min(max(place, 0), len(names) - 1)]

    # -- the lines of the screen ---------------------------------------------------------------

    def rows(self) -> list[Row]:
        """The queues with their figures, in order."""
        if self._now is None:
            return []
        rows = [self._row(queue) for queue in self._now.queues]
        rows.sort(key=lambda row: str(row["queue"]))
        if self.sort != "queue":
            rows.sort(key=lambda row: -(row[self.sort] or 0))
        return rows

    def frame(self, width: int, height: int) -> list[Text]:
        """The whole screen, line by line, the keys at the bottom."""
        body = self.body(width, max(height - 1, 0))
        return [*body, *(Text() for _ in range(height - 1 - len(body))), self._bottom(width)]

    def body(self, width: int, height: int) -> list[Text]:
        """The contents of the screen, in a limited number of lines."""
        now = self._now
        if now is None:
            return []
        workers = [_worker_line(worker, now, width) for worker in now.workers]
        jobs = [_job_line(job, width) for job in now.running]
        # Five lines stand above the queues' rows, two or three around each of the other headings.
        room = max(height - 8 - (2 if jobs else 0), 1)
        worker_room = max(min(len(workers), room // 3), min(len(workers), WORKER_ROWS_MIN))
        rows = self.rows()
        figures = _figures_for(width)
        job_room = min(len(jobs), max(room // 3, min(room - worker_room - len(rows), len(jobs))))
        shown = _around(rows, self.selected, room - worker_room - job_room)
        lines = [
            *self._head(now, width),
            Text(),
            Text(_heading(figures, width), style="bold"),
            *(self._queue_line(row, figures, width) for row in shown),
            *([] if rows else [Text(_fitted("  there is no queue yet", width))]),
            Text(),
            Text(_worker_heading(width), style="bold"),
            *workers[:worker_room],
            *([] if workers else [Text(_fitted(f"  {now.no_worker}", width))]),
            *([Text(), Text(_job_heading(width), style="bold"), *jobs[:job_room]] if jobs else []),
            *_failure_lines(now, width),
        ]
        return lines[:height]

    def _row(self, queue: Mapping[str, Any]) -> Row:
        return {
            **queue,
            "waiting": sum(queue[status.value] for status in WAITING) - queue["pending"],
        }

    def _head(self, now: Overview, width: int) -> list[Text]:
        state = "held" if self.held else f"every {self.interval:g} s"
        counts = "  ".join(
            f"{status.value} {now.total[status.value]:,}"
            for status in Status
            if status in ALWAYS_SHOWN or now.total[status.value]
        )
        rates = "  ".join(f"{name} {rate:,.1f}/s" for name, rate in now.rates.items())
        rates += f"  in the last {_window(now)}"
        clock = f"{time_text(now.at, '%H:%M:%S')}  {state}  by {self.sort}"
        room = width - len(clock) - 1
        title = f"leasehold  {safe(now.store)}"
        if len(title) > room and "://" not in now.store:
            # The end of a path says more than its beginning.
            title = f"leasehold  {safe(now.store.rpartition('/')[2])}"
        return [
            Text(f"{_fitted(title, room)} {clock}"[:width], style="reverse"),
            Text(_fitted(counts, width)),
            Text(_fitted(rates, width)),
        ]

    def _queue_line(self, row: Row, figures: Sequence[Figure], width: int) -> Text:
        selected = row["queue"] == self.selected
        name = f"{'>' if selected else ' '} {safe(row['queue'])}"
        cells = "".join(_cell(each, row[each.field]) for each in figures)
        line = _fitted(name, _name_width(figures, width)) + f" {row['state']:<9}" + cells
        return Text(_fitted(line, width), style="bold" if selected else "")

    def _bottom(self, width: int) -> Text:
        if self.asking is not None:
            text = f"{self.asking.verb} queue {safe(self.asking.queue)!r}? y/n"
        else:
            text = safe(self.trouble or self.message) or HELP
        return Text(_fitted(text, width), style="reverse")


def _figures_for(width: int) -> list[Figure]:
    figures = list(FIGURES)
    while len(figures) > 1 and _name_width(figures, width) < NAME_WIDTH_MIN:
        figures.pop()
    return figures


def _name_width(figures: Sequence[Figure], width: int) -> int:
    state = 10
    return max(1, width - state - sum(figure.width for figure in figures))


def _heading(figures: Sequence[Figure], width: int) -> str:
    cells = "".join(figure.heading.rjust(figure.width) for figure in figures)
    return _fitted(_fitted("  QUEUE", _name_width(figures, width)) + " STATE    " + cells, width)


def _worker_heading(width: int) -> str:
    return _worker_cells(("  WORKER", "QUEUES", "PID", "SLOTS", "RUNNING", "SEEN"), width)


def _worker_line(worker: Mapping[str, Any], now: Overview, width: int) -> Text:
    seen = max(0.0, (now.at - worker["heartbeat_at"]).total_seconds())
    cells = (
        f"  {safe(worker['id'])}", safe(",".join(worker["queues"])), str(worker["pid"]),
        str(worker["slots"]), str(worker["running"]), f"{seen:.0f}s",
    )  # fmt: skip
    return Text(_worker_cells(cells, width))


def _worker_cells(cells: Sequence[str], width: int) -> str:
    name, queues, *numbers = cells
    right = "".join(number.rjust(9) for number in numbers)
    left = max(2, width - len(right))
    name = cut_in_the_middle(name, left * 2 // 3)
    names = _fitted(name, left * 2 // 3) + " " + _fitted(queues, left - left * 2 // 3 - 1)
    return _fitted(names + right, width)


def _job_heading(width: int) -> str:
    return _job_cells(("  RUNNING JOB", "TASK", "WORKER", "FOR"), width)


def _job_line(job: Mapping[str, Any], width: int) -> Text:
    short = by_their_ends([safe(job["id"])])[0]
    cells = (
        f"  {short}", safe(job["task"]), safe(job["worker"] or "-"), age_of(job["running_seconds"]),
    )  # fmt: skip
    return Text(_job_cells(cells, width))


def _job_cells(cells: Sequence[str], width: int) -> str:
    name, task, worker, age = cells
    left = max(0, width - 24 - 8)
    middle = _fitted(task, left * 3 // 5) + " " + _fitted(worker, left - left * 3 // 5 - 1)
    return _fitted(_fitted(name, 23) + " " + middle + age.rjust(8), width)


def _window(now: Overview) -> str:
    return age_of(now.window_seconds or 0.0)


def _failure_lines(now: Overview, width: int) -> list[Text]:
    """What failed in the window, the most frequent first, if there is room below the rest."""
    if not now.failures:
        return []
    lines = [
        f"{age_of(max(0.0, (now.at - failure['last_at']).total_seconds())):>6} ago  "
        f"{safe(failure['task'])}: {safe(failure['error_type'])}: {safe(failure['message'])}"
        for failure in now.failures
    ]
    heading = _fitted(f"  FAILED    in the last {_window(now)}: `stats --by error`", width)
    return [Text(), Text(heading, style="bold"), *(Text(_fitted(line, width)) for line in lines)]


def _around(rows: Sequence[Row], selected: str | None, room: int) -> Sequence[Row]:
    """As many rows as there is room for, the selected one among them."""
    room = max(room, 1)
    place = next((n for n, row in enumerate(rows) if row["queue"] == selected), 0)
    start = min(max(0, place - room // 2), max(0, len(rows) - room))
    return rows[start : start + room]


def _cell(figure: Figure, value: float | None) -> str:
    return ("-" if value is None else figure.show(value)).rjust(figure.width)


def _fitted(text: str, width: int) -> str:
    """Text of exactly this width on a terminal, filled up, or cut where an ellipsis says so."""
    if 1 < width < cell_len(text):
        return set_cell_size(text, width - 1) + ELLIPSIS
    return set_cell_size(text, max(0, width))

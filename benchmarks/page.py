"""The part of docs/benchmarks.md about other queues, from the figures of one run.

`python -m benchmarks.page FILE` makes it again from what a run has saved with `--json FILE`.
"""

from __future__ import annotations

import sys

from benchmarks.chart import chart
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.contest import ROOT
from benchmarks.results import Results, Row
from benchmarks.rivals.run import CHUNK

PAGE = ROOT / "docs" / "benchmarks.md"
CHART = ROOT / "docs" / "benchmarks.svg"
BEGIN, END = "<!-- contenders -->", "<!-- end of contenders -->"
RATES = {
    "submit": "submit, jobs/s",
    "in bulk": "submit in bulk, jobs/s",
    "drain": "drain, jobs/s",
    "drain among many": "drain among many, jobs/s",
    "end to end": "end to end, jobs/s",
    "4 producers": "end to end, 4 producers, jobs/s",
}
WAITS = {
    "idle p50": "pick-up p50, ms",
    "idle p99": "pick-up p99, ms",
    "half load p50": "pick-up at half load p50, ms",
    "half load p99": "pick-up at half load p99, ms",
}
KILLS = {
    "not run again": "kill -9, jobs not run again",
    "run twice": "kill -9, jobs run twice",
    "seconds": "kill -9, seconds until all have run",
}
OURS_ON = {"postgres": "Leasehold, PostgreSQL"}
"""Whom a rival is compared with, by the place of its jobs; else our SQLite store."""
_INTRODUCTION = """\
Made by `python -m benchmarks.against --page` in {minutes:.0f} minutes, each figure measured once:
{machine}."""
_OF_RATES = """\
Jobs per second. *Among many* is the drain of the first jobs while {sizes.pending:,} wait; a dash
means that the queue has no call to submit in bulk."""
_OF_WAITS = """\
Milliseconds from `submit` to the start of the job: in an idle worker, and while jobs come at half
of the rate that the queue has reached *end to end*."""
_OF_KILLS = """\
{sizes.killed} jobs of 20 ms; the worker is killed (`kill -9`) after a third of them, and another is
started at once. *Not run again* is counted after {sizes.recovery_seconds_max:.0f} seconds: some
queues find such jobs later, after a longer timeout. *Seconds* are until all have run."""
_OF_WINS = """\
In brackets what Leasehold did in the same run: its PostgreSQL store beside queues on PostgreSQL,
its SQLite store, each write synced, beside all others."""


def write_page(results: Results) -> None:
    """Put the figures between the marks of the page, and draw the chart beside it."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{contents(results)}\n{END}{after}")
    CHART.write_text(chart(results.rows))


def contents(results: Results) -> str:
    """The tables, what others do better, how each was set up, and what failed."""
    rows = results.rows
    parts = [
        _INTRODUCTION.format(minutes=results.minutes, machine=results.machine),
        "![Jobs per second of each queue](benchmarks.svg)",
        _OF_RATES.format(sizes=results.sizes),
        _table(RATES, rows),
        _OF_WAITS,
        _table(WAITS, rows),
        _OF_KILLS.format(sizes=results.sizes),
        _table(KILLS, rows),
        "### Where others win",
        _OF_WINS,
        _wins(rows),
        "### How each was set up",
        f"Jobs in bulk are submitted {CHUNK} a call. Each worker is the queue's own.",
        _set_up(rows),
    ]
    if failed := _failures(rows):
        parts += ["### What failed", failed]
    return "\n\n".join(parts) + "\n"


def _table(columns: dict[str, str], rows: dict[str, Row]) -> str:
    lines = [f"| | durability | {' | '.join(columns)} |", f"| --- | --- |{' --- |' * len(columns)}"]
    for contender, row in _measured(rows):
        if row.figures:
            cells = " | ".join(_cell(row.figures.get(figure)) for figure in columns.values())
        else:
            cells = f"failed: {_why(row)}" + " |" * (len(columns) - 1)
        lines.append(f"| {contender.name} | {contender.durability} | {cells} |")
    return "\n".join(lines)


def _cell(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) else f"{figure:.1f}"


def _wins(rows: dict[str, Row]) -> str:
    """Whatever a rival does better than Leasehold on the same kind of store, or on SQLite."""
    lines = []
    for shown, figure in (RATES | WAITS | KILLS).items():
        better = [win for rival, row in _measured(rows) if (win := _win(rival, row, rows, figure))]
        if better:
            lines.append(f"- **{_group(figure)}{shown}**: {'; '.join(better)}.")
    return "\n".join(lines) or "Nowhere in this run."


def _win(rival: Contender, row: Row, rows: dict[str, Row], figure: str) -> str | None:
    our_row = rows.get(OURS_ON.get(rival.place, "Leasehold, SQLite"), Row())
    theirs, ours = row.figures.get(figure), our_row.figures.get(figure)
    if rival.is_ours or theirs is None or ours is None:
        return None
    is_better = theirs > ours if figure.endswith("jobs/s") else theirs < ours
    besides = "" if rival.is_durable else ", not durable"
    return f"{rival.name} {_cell(theirs)} ({_cell(ours)}{besides})" if is_better else None


def _group(figure: str) -> str:
    return (
        "kill -9, " if figure in KILLS.values() else "pick-up " if figure in WAITS.values() else ""
    )


def _set_up(rows: dict[str, Row]) -> str:
    lines = ["| | version | worker |", "| --- | --- | --- |"]
    for contender, row in _measured(rows):
        lines.append(f"| {contender.name} | {row.version} | {contender.configuration} |")
    return "\n".join(lines)


def _failures(rows: dict[str, Row]) -> str:
    return "\n".join(
        f"- {contender.name}, {scenario}: {why}"
        for contender, row in _measured(rows)
        for scenario, why in row.failures.items()
    )


def _why(row: Row) -> str:
    return "; ".join(dict.fromkeys(row.failures.values())) or "nothing was measured"


def _measured(rows: dict[str, Row]) -> list[tuple[Contender, Row]]:
    return [(each, rows[each.name]) for each in CONTENDERS if each.name in rows]


if __name__ == "__main__":
    write_page(Results.load(sys.argv[1]))

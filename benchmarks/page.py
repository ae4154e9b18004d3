"""The page docs/benchmarks.md: its table of contenders and its chart, from one run's figures."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from benchmarks.contest import CONTENDERS, ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
CHART = ROOT / "docs" / "benchmarks.svg"
BEGIN, END = "<!-- contenders -->", "<!-- end of contenders -->"
CHARTED = ("submit, jobs/s", "drain, jobs/s", "end to end, jobs/s")
COLUMNS = (
    *("submit, jobs/s", "submit in bulk, jobs/s", "drain, jobs/s", "end to end, jobs/s"),
    *("end to end, 4 producers, jobs/s", "pick-up p50, ms", "pick-up p99, ms"),
    *("kill -9, jobs lost", "kill -9, jobs run twice", "kill -9, seconds until all have run"),
)
BAR_PIXELS, ROW_PIXELS, NAME_PIXELS = 420, 20, 200

Rows = Mapping[str, Mapping[str, float]]


def write_page(machine: str, rows: Rows) -> None:
    """Put the figures between the marks of the page, and draw the chart beside it."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(machine, rows)}\n{END}{after}")
    CHART.write_text(chart(rows))


def table(machine: str, rows: Rows) -> str:
    """One line per contender, with a dash for what it does not offer or did not finish.

    >>> print(table("here", {"huey, SQLite": {"submit, jobs/s": 2820.4}}).splitlines()[6])
    | huey, SQLite | each write synced | 2,820 |
    """
    durability = {each.name: each.durability for each in CONTENDERS}
    columns = [name for name in COLUMNS if any(name in figures for figures in rows.values())]
    lines = [
        f"Made by `python -m benchmarks.against --page`: {machine}.",
        "",
        "![Jobs per second](benchmarks.svg)",
        "",
        f"| | durability | {' | '.join(columns)} |",
        f"| --- | --- |{' --- |' * len(columns)}",
    ]
    for name, figures in rows.items():
        cells = " | ".join(_cell(figures.get(column)) for column in columns)
        lines.append(f"| {name} | {durability[name]} | {cells} |")
    best = [f"{column}: {_best(column, rows)}" for column in columns]
    return "\n".join([*lines, "", f"Best of each column: {'; '.join(best)}.", ""])


def _cell(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if figure >= 100 or figure == int(figure) else f"{figure:.1f}"


def _best(column: str, rows: Rows) -> str:
    found = {name: figures[column] for name, figures in rows.items() if column in figures}
    choose = max if column.endswith("jobs/s") else min
    return choose(found, key=lambda name: found[name])


def chart(rows: Rows) -> str:
    """Bars of jobs per second, one group per scenario, each on a scale of its own."""
    parts: list[str] = []
    y = 0
    for scenario in CHARTED:
        figures = {name: each[scenario] for name, each in rows.items() if scenario in each}
        if not figures:
            continue
        y += 2 * ROW_PIXELS
        parts.append(f'<text x="0" y="{y - 6}" font-weight="bold">{escape(scenario)}</text>')
        for name, figure in sorted(figures.items(), key=lambda item: -item[1]):
            width = round(BAR_PIXELS * figure / max(figures.values()), 1)
            colour = "#2563eb" if name.startswith("Leasehold") else "#94a3b8"
            middle = y + ROW_PIXELS - 6
            parts.append(f'<text x="0" y="{middle}">{escape(name)}</text>')
            bar = f'<rect x="{NAME_PIXELS}" y="{y + 3}" width="{width}" height="{ROW_PIXELS - 6}"'
            parts.append(f'{bar} fill="{colour}"/>')
            parts.append(f'<text x="{NAME_PIXELS + width + 6}" y="{middle}">{figure:,.0f}</text>')
            y += ROW_PIXELS
    width = NAME_PIXELS + BAR_PIXELS + 80
    size = f'width="{width}" height="{y + ROW_PIXELS}" viewBox="0 0 {width} {y + ROW_PIXELS}"'
    style = 'font-family="sans-serif" font-size="12" fill="#475569"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{body}\n</svg>\n'

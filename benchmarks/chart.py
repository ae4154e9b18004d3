"""The chart of docs/benchmarks.md: bars of jobs per second, one group per scenario."""

from __future__ import annotations

from xml.sax.saxutils import escape

from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.results import Row

CHARTED = {
    "submit, jobs/s": "submit one by one, jobs/s",
    "drain, jobs/s": "drain, jobs/s",
    "end to end, jobs/s": "end to end, one producer, jobs/s",
    "end to end, 4 producers, jobs/s": "end to end, four producers, jobs/s",
}
OURS, DURABLE, NOT_DURABLE = "#2563eb", "#64748b", "#cbd5e1"
LEGEND = {OURS: "Leasehold", DURABLE: "each write synced", NOT_DURABLE: "not durable"}
BAR_PIXELS, ROW_PIXELS, NAME_PIXELS = 420, 20, 200
WIDTH = NAME_PIXELS + BAR_PIXELS + 80


def chart(rows: dict[str, Row]) -> str:
    """An SVG; each scenario has a scale of its own."""
    parts: list[str] = []
    for index, (colour, name) in enumerate(LEGEND.items()):
        x = NAME_PIXELS + 140 * index
        parts += [_bar(x, 0, 14, colour), _text(x + 20, 0, name)]
    y = ROW_PIXELS
    for figure, title in CHARTED.items():
        found = {
            each: rows[each.name].figures[figure]
            for each in CONTENDERS
            if each.name in rows and figure in rows[each.name].figures
        }
        if not found:
            continue
        y += ROW_PIXELS
        parts.append(_text(0, y - ROW_PIXELS // 2, title, ' font-weight="bold"'))
        y += ROW_PIXELS // 2
        for each, rate in sorted(found.items(), key=lambda item: -item[1]):
            width = round(BAR_PIXELS * rate / max(found.values()), 1)
            parts += [_text(0, y, each.name), _bar(NAME_PIXELS, y, width, _colour(each))]
            parts.append(_text(NAME_PIXELS + width + 6, y, f"{rate:,.0f}"))
            y += ROW_PIXELS
    size = f'width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
    style = 'font-family="sans-serif" font-size="12" fill="#475569"'
    paper = f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>'
    body = "\n".join([paper, *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{body}\n</svg>\n'


def _colour(contender: Contender) -> str:
    if contender.is_ours:
        return OURS
    return DURABLE if contender.is_durable else NOT_DURABLE


def _bar(x: float, y: int, width: float, colour: str) -> str:
    height = ROW_PIXELS - 6
    return f'<rect x="{x}" y="{y + 3}" width="{width}" height="{height}" fill="{colour}"/>'


def _text(x: float, y: int, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y + ROW_PIXELS - 6}"{more}>{escape(text)}</text>'

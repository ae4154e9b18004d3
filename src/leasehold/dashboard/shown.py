"""How things are shown: templates that escape everything, and the words for times and numbers."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
import msgspec

from leasehold.core.model.safe_text import safe
from leasehold.core.model.status import Status
from leasehold.dashboard.searching import quoted
from leasehold.documents.spans import age_of, took

GLYPHS: Final = {
    Status.SCHEDULED: "◷",
    Status.BLOCKED: "◇",
    Status.PENDING: "○",
    Status.RUNNING: "▶",
    Status.FAILED: "↻",
    Status.COMPLETED: "✓",
    Status.DEAD: "✕",
    Status.CANCELLED: "⊘",
}
"""A status is told by a glyph, a word and a colour: never by the colour alone."""
TEXT_LENGTH_MAX: Final = 64 * 1024
LINE_LENGTH_MAX: Final = 300


def templates() -> jinja2.Environment:
    """The environment of all templates: everything is escaped, and a misspelt name is an error."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("leasehold.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(glyphs=GLYPHS, statuses=list(Status), link=link, static=static)
    env.filters.update(
        line=line,
        text=text,
        number=number,
        compact=compact,
        age=lambda seconds: "–" if seconds is None else age_of(seconds),
        took=lambda seconds: "–" if seconds is None else took(seconds),
        utc=utc,
        relative=relative,
        percent=percent,
        short=short,
        quoted=quoted,
        words=lambda name: str(name).replace("_", " "),
    )
    return env


def link(page: str, **query: Any) -> str:
    """A link from any page to any other: all stand side by side, so it works under every path.

    >>> link("job", id="a/b?c")
    'job?id=a%2Fb%3Fc'
    >>> link("jobs", q="", status=None)
    'jobs'
    """
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{page}?{urlencode(given)}" if given else page


def static(name: str) -> str:
    """A file of the dashboard's own, under a name that changes with it: it may be kept for ever."""
    return f"static/{name}?v={_DIGESTS[name]}"


def line(value: object) -> str:
    """What others wrote, on one line, with everything unprintable spelled out."""
    return safe(str(value), limit=LINE_LENGTH_MAX)


def text(value: object) -> str:
    """The same with its lines."""
    return safe(str(value), lines=True, limit=TEXT_LENGTH_MAX)


def number(value: float | None) -> str:
    """A number with its thousands; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def compact(value: float | None) -> str:
    """A number for a place where there is little room.

    >>> compact(950), compact(12_345), compact(3_400_000), compact(0.25)
    ('950', '12.3k', '3.4M', '0.25')
    """
    if value is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.2g}"


def percent(share: float | None) -> str:
    """A share as a percentage."""
    if share is None:
        return "–"
    return f"{100 * share:.1f} %" if share else "0 %"


def utc(moment: datetime | None) -> str:
    """A moment in UTC."""
    return "–" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def relative(moment: datetime, now: datetime) -> str:
    """How long ago, or how far ahead.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> relative(noon, noon.replace(hour=13)), relative(noon, noon.replace(hour=11, minute=55))
    ('60m ago', 'in 5m')
    """
    seconds = (now - moment).total_seconds()
    return f"{age_of(seconds)} ago" if seconds >= 0 else f"in {age_of(-seconds)}"


def short(job_id: str) -> str:
    """A job's id, where all of it would take too much room: time-ordered ids differ at the end."""
    shown = safe(job_id, limit=80)
    return shown if len(shown) <= 14 else f"{shown[:4]}…{shown[-8:]}"


def json_text(value: Any) -> str:
    """Data as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode(errors="replace")


def _digests() -> dict[str, str]:
    folder = files("leasehold.dashboard") / "static"
    return {
        each.name: hashlib.blake2b(each.read_bytes(), digest_size=6).hexdigest()
        for each in folder.iterdir()
        if each.is_file()
    }


_DIGESTS: Final = _digests()

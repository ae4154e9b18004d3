"""How things are shown: templates that escape everything, and the words for times and numbers."""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
import msgspec

from leasehold.core.model.advice import word, words
from leasehold.core.model.job import Job
from leasehold.core.model.phrases import counted
from leasehold.core.model.safe_text import safe
from leasehold.core.model.status import Status
from leasehold.dashboard.searching import quoted, search_of_tag
from leasehold.dashboard.static_files import address
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
"""A status is shown by a glyph, a word and a colour, never by the colour alone."""
ORDER_WORDS: Final = {
    "pin_deploy": "mark deploy",
    "unpin_deploy": "forget deploy",
    "pin_view": "save view",
    "unpin_view": "forget view",
    "pin_stop": "stop worker",
    "unpin_stop": "worker stopped",
}
"""Orders whose stored names describe their encoding, not a person's intention."""
TEXT_LENGTH_MAX: Final = 64 * 1024
LINE_LENGTH_MAX: Final = 300
SHORT_MAX: Final = 24
NAMED: Final = 10
"""How many of many names are shown at once; the others are counted, and shown on request."""
_MADE_UP: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00)")


@functools.cache
def templates() -> jinja2.Environment:
    """The environment of all templates: everything is escaped, and a misspelt name is an error."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("leasehold.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(glyphs=GLYPHS, statuses=list(Status), link=link, static=address, NAMED=NAMED)
    env.globals.update(search_of_tag=search_of_tag)
    env.filters.update(
        line=line,
        seen=seen,
        shell=words,
        shell_value=word,
        text=text,
        number=number,
        compact=compact,
        rate=rate,
        counted=counted,
        age=lambda seconds: "–" if seconds is None else age_of(seconds),
        took=lambda seconds: "–" if seconds is None else took(seconds),
        utc=utc,
        relative=relative,
        until=until,
        percent=percent,
        short=short,
        quoted=quoted,
        with_moments=with_moments,
        stored=lambda value, name: stored(name, value),
        opening=opening,
        words=lambda name: str(name).replace("_", " "),
        order_words=lambda name: ORDER_WORDS.get(name, name.replace("_", " ")),
    )
    return env


@functools.cache
def compile_templates() -> None:
    """Compile every template of this process once, so that no first page has to wait for it."""
    for name in templates().list_templates():
        templates().get_template(name)


def link(page: str, **query: Any) -> str:
    """A link from any page to any other: all are side by side, so it works under every path.

    >>> link("job", id="a/b?c")
    'job?id=a%2Fb%3Fc'
    >>> link("jobs", q="", status=None)
    'jobs'
    """
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{page}?{urlencode(given)}" if given else page


def line(value: object) -> str:
    """Untrusted text on one line, with everything unprintable spelled out."""
    return safe(str(value), limit=LINE_LENGTH_MAX)


def seen(job: Job) -> str:
    """Which end of a job a form is about: each attempt, and each cancellation, has its own."""
    return f"{job.attempts} {job.completed_at}"


def text(value: object) -> str:
    """The same with its lines."""
    return safe(str(value), lines=True, limit=TEXT_LENGTH_MAX)


def number(value: float | None) -> str:
    """A number with its thousands; a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def compact(value: float | None) -> str:
    """A number for places with little room.

    >>> compact(950), compact(12_345), compact(3_400_000), compact(0.25)
    ('950', '12.3k', '3.4M', '0.25')
    """
    if value is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.0f}" if value >= 100 or float(value).is_integer() else f"{value:.2g}"


def rate(value: float) -> str:
    """A rate per minute; only small ones show a fraction.

    >>> rate(0), rate(0.24), rate(2000.2)
    ('0.0', '0.2', '2,000')
    """
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def opening(words: str) -> str:
    """Words at the beginning of a sentence.

    >>> opening("nobody runs these jobs")
    'Nobody runs these jobs'
    """
    return words[:1].upper() + words[1:]


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.414), percent(1.0), percent(0.0), percent(None)
    ('41.4 %', '100 %', '0 %', '–')
    """
    if share is None:
        return "–"
    return f"{100 * share:.0f} %" if share in (0, 1) else f"{100 * share:.1f} %"


def utc(moment: datetime | None) -> str:
    """A time in UTC."""
    return "–" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def relative(moment: datetime, now: datetime) -> str:
    """How long ago, or how far ahead.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> relative(noon, noon.replace(hour=13)), relative(noon, noon.replace(hour=11, minute=55))
    ('60m ago', 'in 5m')
    """
    seconds = (now - moment).total_seconds()
    return f"{age_of(seconds)} ago" if seconds >= 0 else f"in {age_of(-seconds)}"


def until(moment: datetime, now: datetime) -> str:
    """The same by the second for the next two hours: it is watched as it counts down.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> until(noon.replace(minute=4, second=5), noon), until(noon.replace(minute=1), noon)
    ('in 4m05s', 'in 60s')
    >>> until(noon.replace(hour=15), noon), until(noon, noon.replace(second=3))
    ('in 3h', '3s ago')
    """
    seconds = int((moment - now).total_seconds())
    if not 2 * 60 <= seconds < 2 * 3600:
        return relative(moment, now)
    return f"in {seconds // 60}m{seconds % 60:02}s"


def short(job_id: str) -> str:
    """A shortened id for places with little room; generated ids differ at the end.

    >>> short("0199c0de-0000-7000-8000-00004eb9b818"), short("nightly:2026-11-16T10:08:06Z")
    ('0199…4eb9b818', 'nightl…26-11-16T10:08:06Z')
    >>> short("0199c0de-0000-7000-8000-00004eb9b818:publish")
    '0199…4eb9b818:publish'
    """
    shown = safe(job_id, limit=200)
    if (made_up := _MADE_UP.match(shown)) is not None:
        # Of a job of a workflow, its name in it follows.
        shown = f"{shown[:4]}…{made_up[0][-8:]}{shown[made_up.end() :]}"
    return shown if len(shown) <= SHORT_MAX else f"{shown[:6]}…{shown[6 - SHORT_MAX :]}"


def with_moments(sentence: str) -> list[tuple[str, datetime | None]]:
    """A sentence in parts: words, and the moments in it that pages show as "2m ago" or "in 5m".

    >>> [part for part, _ in with_moments("due at 2030-01-31T12:00:00+00:00, not before.")]
    ['due ', '2030-01-31T12:00:00+00:00', ', not before.']
    >>> [part for part, _ in with_moments("held until 2030-01-31T12:00:00+00:00.")]
    ['held until ', '2030-01-31 12:00:00 UTC', '.']
    >>> [part for part, _ in with_moments("said at 2030-02-31T12:00:00+00:00")]
    ['said at ', '2030-02-31T12:00:00+00:00']
    """
    parts: list[tuple[str, datetime | None]] = []
    for part in filter(None, _MOMENT.split(sentence)):
        moment = _moment(part)
        before = parts[-1][0] if parts else ""
        if moment is None:
            parts.append((part, moment))
        elif before.endswith(" at "):
            parts[-1] = (before.removesuffix("at "), None)
            parts.append((part, moment))
        else:
            # "Until 5m ago" and "since 5m ago" would be no English.
            parts.append((utc(moment), None))
    return parts


def _moment(part: str) -> datetime | None:
    try:
        return datetime.fromisoformat(part) if _MOMENT.fullmatch(part) else None
    except ValueError:
        # Sentences quote foreign text, which may look like a time and be none.
        return None


def stored(name: str, value: object) -> str | None:
    """A store's own description, for people; None if it has none.

    >>> stored("size_bytes", 446464), stored("writing", []), stored("kind", "sqlite")
    ('436.0 KiB', None, 'sqlite')
    >>> stored("heap", {"size": 1872, "last_rebuild_at": None, "health": 0.99541284})
    'size 1,872, health 0.9954'
    """
    if value is None or value in ([], (), {}, ""):
        return None
    if name.endswith("_bytes") and isinstance(value, int | float):
        size = float(value)
        for unit in ("bytes", "KiB", "MiB", "GiB"):
            if size < 1024 or unit == "GiB":
                break
            size /= 1024
        return f"{size:,.0f} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        parts = {str(key): stored(str(key), each) for key, each in value.items()}
        told = (f"{key.replace('_', ' ')} {each}" for key, each in parts.items() if each)
        return ", ".join(told) or None
    if isinstance(value, float):
        return f"{value:,.4g}"
    return ", ".join(str(each) for each in value) if isinstance(value, list | tuple) else str(value)


def json_text(value: Any) -> str:
    """Data as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode(errors="replace")

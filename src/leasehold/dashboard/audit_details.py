"""The details of an audit record: a few names and words instead of its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs

from leasehold.dashboard.shown import link, short, utc

JOBS_NAMED: Final = 3
MOMENTS: Final = ("created_from", "created_before", "finished_from", "finished_before")
PAGES: Final = {
    "queue": ("queue", "name"),
    "job": ("job", "id"),
    "operation": ("operation", "id"),
}
"""The page about each detail, by name, and that page's parameter."""


@dataclass(frozen=True)
class Detail:
    """One detail, and the page that shows more of it."""

    name: str
    words: str
    to: str | None = None


def details_of(detail: Mapping[str, Any]) -> list[Detail]:
    """The details of a record, without empty ones.

    >>> [(each.name, each.words) for each in details_of(
    ...     {"queue": "mail", "config": {"max_depth": 5, "retry": None}, "force": False}
    ... )]
    [('queue', 'mail'), ('max depth', '5')]
    >>> [each.words for each in details_of({"jobs": ["a", "b", "c", "d", "e"]})]
    ['a', 'b', 'c', '2 more']
    >>> [each.words for each in details_of({"created_before": "2030-01-31T12:00:00.123456Z"})]
    ['2030-01-31 12:00:00 UTC']
    >>> [(each.name, each.words) for each in details_of({"view": "due", "text": "q=queue%3Amail"})]
    [('view', 'due'), ('search', 'queue:mail')]
    >>> [each.name for each in details_of({"stop": "w1", "text": "2030-01-31T12:00:00+00:00"})]
    ['stop', 'which started at']
    """
    return list(_details(detail))


def _details(detail: Mapping[str, Any]) -> Iterator[Detail]:
    for key, value in detail.items():
        name = key.replace("_", " ")
        if value in (None, "", False, [], {}):
            continue
        if isinstance(value, Mapping):
            yield from _details(value)
        elif key == "jobs" and isinstance(value, list):
            yield from _jobs(value)
        elif key == "text" and "view" in detail:
            search = parse_qs(str(value)).get("q", ["all jobs"])[0]
            yield Detail("search", search, f"jobs?{value}")
        elif key == "text" and "stop" in detail:
            # A worker that begins anew under this id is not asked to stop.
            yield Detail("which started at", _shown("created_from", value))
        elif isinstance(value, list):
            yield Detail(name, ", ".join(map(str, value)))
        else:
            yield Detail(name, "yes" if value is True else _shown(key, value), _page(key, value))


def _jobs(jobs: list[Any]) -> Iterator[Detail]:
    for job in jobs[:JOBS_NAMED]:
        yield Detail("job", short(str(job)), _page("job", job))
    if len(jobs) > JOBS_NAMED:
        yield Detail("and", f"{len(jobs) - JOBS_NAMED:,} more")


def _shown(key: str, value: Any) -> str:
    if key in MOMENTS:
        # A value recorded by others may not be a time.
        with suppress(ValueError):
            return utc(datetime.fromisoformat(str(value)))
    return short(str(value)) if key in ("job", "operation") else str(value)


def _page(key: str, value: Any) -> str | None:
    known = PAGES.get(key)
    if known is None or not isinstance(value, str):
        return None
    page, asked_with = known
    return link(page, **{asked_with: value})

"""What an audit record tells beyond who did what: a few names and words, in place of its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from leasehold.dashboard.shown import link, short

JOBS_NAMED: Final = 3
PAGES: Final = {
    "queue": ("queue", "name"),
    "job": ("job", "id"),
    "operation": ("operation", "id"),
}
"""By the name of a detail: the page about it, and what that page is asked with."""


@dataclass(frozen=True)
class Detail:
    """One detail, and the page that shows more of it."""

    name: str
    words: str
    to: str | None = None


def details_of(detail: Mapping[str, Any]) -> list[Detail]:
    """The details of a record, without those that say nothing.

    >>> [(each.name, each.words) for each in details_of(
    ...     {"queue": "mail", "config": {"max_depth": 5, "retry": None}, "force": False}
    ... )]
    [('queue', 'mail'), ('max depth', '5')]
    >>> [each.words for each in details_of({"jobs": ["a", "b", "c", "d", "e"]})]
    ['a', 'b', 'c', '2 more']
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
    return short(str(value)) if key in ("job", "operation") else str(value)


def _page(key: str, value: Any) -> str | None:
    known = PAGES.get(key)
    if known is None or not isinstance(value, str):
        return None
    page, asked_with = known
    return link(page, **{asked_with: value})

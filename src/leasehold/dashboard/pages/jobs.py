"""Jobs: where is it? A search, kept in the address; pages by cursor."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.contract.looking import looking
from leasehold.core.model.job import Job
from leasehold.core.model.search import Count, JobFilter, Page, looked_through
from leasehold.core.model.status import Status
from leasehold.dashboard.id_search import jobs_named
from leasehold.dashboard.job_columns import (
    COLUMNS,
    NARROW,
    NUMBERS,
    USUAL,
    chosen_columns,
    in_address,
)
from leasehold.dashboard.payloads import without_secrets
from leasehold.dashboard.searching import QUALIFIERS, SearchError, parse, quoted
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.errors import InvalidFilterError, InvalidPageError

PAGE_SIZE: Final = 50
READ_MAX: Final = 50_000
"""About how many jobs are read at once if each has to be read to see whether it matches."""
COMPLETED_MAX: Final = 200
"""How many queues, and how many tasks, are offered while a search is typed."""


def jobs(desk: Desk, visit: Visit) -> FilledPage:
    query = _of_the_job(desk, visit.text("q").strip())
    now = desk.queue.now()
    columns = chosen_columns(visit.query.getlist("show"))
    values: dict[str, Any] = {
        "title": "Jobs",
        "page": "jobs",
        "now": now,
        "q": query,
        "qualifiers": QUALIFIERS,
        "completions": _completions(desk),
        "views": desk.store.pins("view") if visit.may_oversee else [],
        "tabs": _tabs(desk, query),
        "columns": columns,
        "all_columns": COLUMNS,
        "show": in_address(columns),
        "wide": set() if columns != list(USUAL) else set(COLUMNS) - set(NARROW),
        "numbers": NUMBERS,
        "problem": None,
        "search": None,
        "read_max": READ_MAX,
        "jobs": [],
        "next_cursor": None,
        "total": None,
        "stopped": False,
        "is_first": not visit.text("cursor"),
        "named": [],
    }
    try:
        search = parse(query, now)
        found = looking(desk.store).search(
            search.where,
            limit=PAGE_SIZE,
            cursor=visit.text("cursor") or None,
            without=("payload", "result"),
            read_max=READ_MAX,
        )
        values |= {
            "search": search,
            "named": _named(desk, search.where, found),
            "read_max": looked_through(search.where, READ_MAX) or READ_MAX,
            "jobs": [(each, _tags(each)) for each in found.jobs],
            "next_cursor": found.next_cursor,
            "total": _total(desk, search.where, found, is_first=not visit.text("cursor")),
            "stopped": found.next_cursor is not None and len(found.jobs) < PAGE_SIZE,
        }
    except (SearchError, InvalidFilterError, InvalidPageError) as error:
        values["problem"] = str(error)
        return FilledPage("jobs.html", values, status=400)
    return FilledPage("jobs.html", values)


def _of_the_job(desk: Desk, query: str) -> str:
    """The search itself; or, if it is an id that would be taken for a qualifier, a search for it.

    Jobs of workflows have such ids: `order-17:charge`.
    """
    begins, colon, _ = query.partition(":")
    is_search = begins in QUALIFIERS or begins.startswith("meta.") or quoted(query) != query
    if not colon or is_search or desk.store.get(query) is None:
        return query
    return f"id:{query}"


def _named(desk: Desk, where: JobFilter, page: Page) -> list[str]:
    """Jobs that are named by an id; those that the search has found are on the page anyway."""
    found = {job.id for job in page.jobs}
    return [each for each in jobs_named(desk, where) if each not in found]


def _total(desk: Desk, where: JobFilter, page: Page, *, is_first: bool) -> Count:
    """How many jobs match; if they have to be read, only among the newest."""
    if is_first and len(page.jobs) < PAGE_SIZE:
        return Count(len(page.jobs), is_exact=page.next_cursor is None)
    return looking(desk.store).count(where, read_max=READ_MAX)


def _tags(job: Job) -> str:
    """A job's metadata on one line."""
    tags = without_secrets(job.metadata or {})
    return " ".join(f"{name}={value}" for name, value in tags.items())


def _completions(desk: Desk) -> list[str]:
    """Completions of a search: the qualifiers, and values where there are few."""
    tasks = [name for name in desk.known_tasks() if "*" not in name and name.isprintable()]
    values = {
        "status": [status.value for status in Status],
        "queue": desk.known_queues()[:COMPLETED_MAX],
        "task": sorted(tasks)[:COMPLETED_MAX],
    }
    signs = {"priority": ">", "created": ">-", "meta.": ""}
    return [
        *(f"{name}{signs.get(name, ':')}" for name in QUALIFIERS),
        *(f"{name}:{quoted(value)}" for name, several in values.items() for value in several),
    ]


def _tabs(desk: Desk, query: str) -> list[tuple[str, str, int | None, bool]]:
    """A tab for each status: its name, the search it leads to, how many jobs if that is known
    without counting, and whether it is on.
    """
    kept = [term for term in query.split() if not term.lower().startswith("status:")]
    chosen = [term for term in query.split() if term.lower().startswith("status:")]
    # The store counts all its jobs, not those that match a search.
    counts = None if kept else desk.store.stats().counts
    total = None if counts is None else sum(counts.values())
    tabs = [("all", " ".join(kept), total, not chosen)]
    for status in Status:
        term = f"status:{status.value}"
        count = None if counts is None else counts.get(status, 0)
        tabs.append((status.value, " ".join((*kept, term)), count, chosen == [term]))
    return tabs

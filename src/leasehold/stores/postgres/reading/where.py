"""A JobFilter in SQL, as far as the server can say what JobFilter.matches says.

Texts and metadata are compared in Python, page by page: the equality of texts in any case, and of
JSON values, is decided in one place for every store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import to_micros
from leasehold.stores.postgres.server.connection import SqlConnection

Clause = tuple[str, Any]
"""A condition with {} where its value goes, and the value."""


def conditions(where: JobFilter) -> tuple[list[str], list[Any]]:
    """The clauses that must all hold, and the values for their placeholders."""
    clauses, values = numbered(_of_the_job(where))
    if where.has_parent:
        clauses.append("job.parent_id IS NOT NULL")
    if where.statuses is not None:
        clauses.append(_one_of(where.statuses))
    if where.error_text:
        # Most never failed: only the others need be compared.
        clauses.append("job.seq IN (SELECT seq FROM failed_job)")
    return clauses, values


def counted_jobs(db: SqlConnection, where: JobFilter) -> int:
    """How many jobs there are in the queues, of the tasks and in the statuses of a filter."""
    statuses = tuple(Status) if where.statuses is None else where.statuses
    counted = " + ".join(each.value for each in statuses) or "0"
    listed = (("queue = ANY({})", _list(where.queues)), ("task = ANY({})", _list(where.tasks)))
    clauses, values = numbered([each for each in listed if each[1] is not None])
    found: Any = db.execute(
        f"SELECT coalesce(sum({counted}), 0)::bigint FROM lane_now "  # noqa: S608  # our own names
        f"WHERE {' AND '.join(clauses) or 'true'}",
        values,
    ).fetchone()
    return int(found[0])


def numbered(found: Sequence[Clause]) -> tuple[list[str], list[Any]]:
    """Conditions with numbered placeholders, and their values."""
    clauses = [clause.format(f"${n}") for n, (clause, _) in enumerate(found, start=1)]
    return clauses, [value for _, value in found]


def compares_texts(where: JobFilter) -> bool:
    """Whether each job has to be looked at in Python."""
    return not (where.text is None and where.error_text is None and where.metadata is None)


def _of_the_job(where: JobFilter) -> list[Clause]:
    compared = (
        ("job.priority >= {}", where.priority_min),
        ("job.priority <= {}", where.priority_max),
        ("job.created_at >= {}", where.created_from and to_micros(where.created_from)),
        ("job.created_at < {}", where.created_before and to_micros(where.created_before)),
        ("finished.finished_at >= {}", where.finished_from and to_micros(where.finished_from)),
        ("finished.finished_at < {}", where.finished_before and to_micros(where.finished_before)),
        ("job.idempotency_key = {}", where.idempotency_key),
        ("job.parent_id = {}", where.parent_id),
        ("job.limit_key = {}", where.limit_key),
        ("job.id = ANY({})", _list(where.ids)),
        ("lane.queue = ANY({})", _list(where.queues)),
        ("lane.task = ANY({})", _list(where.tasks)),
    )
    return [(clause, value) for clause, value in compared if value is not None]


def _list(wanted: Sequence[str] | None) -> list[str] | None:
    return None if wanted is None else list(wanted)


def _one_of(statuses: Sequence[Status]) -> str:
    """The few of one status are found in their own table or index; the many that completed do not
    matter then.

    Of several, each job is asked what it has beside it: among lists that are joined by OR, the
    server would look through the whole of each for every job.
    """
    if len(statuses) == 1 and not statuses[0].is_terminal:
        return f"job.seq IN (SELECT seq FROM {_table_of(statuses[0])})"  # noqa: S608  # our own names
    return f"({' OR '.join(map(_has, statuses)) or 'false'})"


def _table_of(status: Status) -> str:
    if status is Status.PENDING:
        return "ready"
    return (
        "running" if status is Status.RUNNING else f"waiting WHERE status = {STATUS_CODE[status]}"
    )


def _has(status: Status) -> str:
    if status.is_terminal:
        return f"finished.status = {STATUS_CODE[status]}"
    if status is Status.PENDING:
        return "(finished.seq IS NULL AND waiting.seq IS NULL AND running.seq IS NULL)"
    if status is Status.RUNNING:
        return "running.seq IS NOT NULL"
    return f"waiting.status = {STATUS_CODE[status]}"

"""A JobFilter in SQL: it must say what JobFilter.matches says, and a test compares the two.

A SQL function for searches: SQLite's own `lower` knows no letters beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.text import mentions
from leasehold.env import to_micros

# As bytes, as a payload is: what is no UTF-8 could not even be given to a function as text.
_ERROR_TEXT: Final = """
    coalesce((SELECT CAST(error_type || ': ' || error_message AS BLOB) FROM attempt
     WHERE attempt.seq = job.seq AND error_type IS NOT NULL ORDER BY version DESC LIMIT 1), '')
"""
_HAS_TAG: Final = """
    EXISTS (SELECT 1
            FROM json_each(iif(json_valid(job.metadata), job.metadata, NULL)) AS tag,
                json_each(?) AS wanted
            WHERE tag.key = wanted.key AND tag.value IS wanted.value)
"""

Clause = tuple[str, tuple[Any, ...]]


def conditions(where: JobFilter) -> tuple[list[str], list[Any]]:
    """The clauses that must all hold, and the values for their placeholders."""
    found = [*_of_the_job(where), *_of_its_texts(where)]
    return [clause for clause, _ in found], [value for _, values in found for value in values]


def _of_the_job(where: JobFilter) -> list[Clause]:
    compared = (
        ("job.priority >= ?", where.priority_min),
        ("job.priority <= ?", where.priority_max),
        ("job.created_at >= ?", where.created_from and to_micros(where.created_from)),
        ("job.created_at < ?", where.created_before and to_micros(where.created_before)),
        ("finished.finished_at >= ?", where.finished_from and to_micros(where.finished_from)),
        ("finished.finished_at < ?", where.finished_before and to_micros(where.finished_before)),
        ("job.idempotency_key = ?", where.idempotency_key),
        ("job.parent_id = ?", where.parent_id),
        ("job.limit_key = ?", where.limit_key),
    )
    listed = (("job.id", where.ids), ("lane.queue", where.queues), ("lane.task", where.tasks))
    clauses: list[Clause] = [(clause, (value,)) for clause, value in compared if value is not None]
    for column, wanted in listed:
        if wanted is not None:
            one_of = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608  # our own names
            clauses.append((one_of, (msgspec.json.encode(wanted).decode(),)))
    if where.has_parent:
        clauses.append(("job.parent_id IS NOT NULL", ()))
    if where.statuses is not None:
        clauses.append((_one_of(where.statuses), ()))
    for key, value in (where.metadata or {}).items():
        clauses.append((_HAS_TAG, (msgspec.json.encode({key: value}).decode(),)))
    return clauses


def _of_its_texts(where: JobFilter) -> list[Clause]:
    clauses: list[Clause] = []
    if where.error_text is not None:
        clauses.append((f"mentions({_ERROR_TEXT}, ?)", (where.error_text,)))
    if where.text is not None:
        either = f"(mentions(CAST(job.payload AS BLOB), ?) OR mentions({_ERROR_TEXT}, ?))"
        clauses.append((either, (where.text, where.text)))
    return clauses


def _one_of(statuses: Sequence[Status]) -> str:
    """The few are found in their own table or index; the many that completed do not matter then.

    `status <> 5` is said again because SQLite uses a partial index only for its very words.
    """
    either = []
    for status in statuses:
        code = STATUS_CODE[status]
        if status is Status.COMPLETED:
            either.append(f"finished.status = {code}")
            continue
        if status.is_terminal:
            among = f"finished WHERE status = {code} AND status <> 5"
        elif status is Status.PENDING:
            among = "ready"
        elif status is Status.RUNNING:
            among = "running"
        else:
            among = f"waiting WHERE status = {code}"
        either.append(f"job.seq IN (SELECT seq FROM {among})")  # noqa: S608  # our own names
    return f"({' OR '.join(either) or '0'})"


def add_mentions(db: apsw.Connection) -> None:
    """Let statements of a connection say `mentions(text or bytes, part)`."""
    db.create_scalar_function("mentions", _mentions, 2, deterministic=True)


def _mentions(*values: Any) -> int:
    text, part = values
    # Payloads and messages come as bytes, which need not be UTF-8.
    return mentions(text.decode(errors="replace") if isinstance(text, bytes) else text, part)

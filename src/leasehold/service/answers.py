"""Answers that several operations share: jobs, leases, pages, and refusals."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.core.model.error_documents import error_document
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import Job
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.search import Count
from leasehold.core.model.status import Status
from leasehold.documents.jobs import AS_STORED
from leasehold.errors import LeaseholdError
from leasehold.service.descriptions import SOURCE
from leasehold.service.operation import Answer


def document_type(
    name: str, record: type[msgspec.Struct], *, without: Collection[str] = (), **more: Any
) -> Any:
    """The type of a document made by `leasehold.documents`, for the OpenAPI document."""
    fields = [
        (field.name, field.type)
        for field in msgspec.structs.fields(record)
        if field.name not in without
    ]
    described = {SOURCE: record}
    return msgspec.defstruct(name, [*fields, *more.items()], kw_only=True, namespace=described)


if TYPE_CHECKING:
    # The return values of the functions of `leasehold.documents`.
    JobDocument = dict[str, Any]
    AttemptDocument = dict[str, Any]
    LetterDocument = dict[str, Any]
    QueueDocument = dict[str, Any]
else:
    _shown = {
        "payload": Any,
        "result": Any,
        "stdout_path": str | None,
        "stderr_path": str | None,
    }
    JobDocument = document_type("Job", Job, without=AS_STORED, **_shown)
    LetterDocument = document_type("DeadLetter", Job, without=AS_STORED, **_shown, why=str | None)
    AttemptDocument = document_type("Attempt", Attempt, duration_seconds=float | None)
    QueueDocument = msgspec.defstruct(
        "Queue",
        [
            ("queue", str),
            ("state", QueueState),
            *((status.value, int) for status in Status),
            ("config", QueueConfig),
            ("held_until", dict[str, datetime]),
            ("next_start_at", datetime | None, None),
            ("created_at", datetime | None, None),
            ("created_by", str | None, None),
            ("changed_at", datetime | None, None),
            ("changed_by", str | None, None),
        ],
    )


class Problem(Answer):
    """An error: its stable code, what happened, and what else it carries."""

    code: str
    message: str
    fields: dict[str, Any]

    @classmethod
    def of(cls, error: LeaseholdError) -> Problem:
        return cls(**error_document(error))


class JobPage(Answer):
    """Jobs, and the cursor with which to ask for more (none at the end)."""

    jobs: list[JobDocument]
    next_cursor: str | None = None
    total: Count | None = None
    """How many fit on all pages, if that was asked; exact up to a bound."""


class History(Answer):
    """Events of a job's history, oldest first, and the cursor of the next page."""

    events: list[HistoryEvent]
    next_cursor: str | None = None


class Log(Answer):
    """Lines of a job's log, oldest first, and the cursor of the next page."""

    lines: list[LogLine]
    next_cursor: str | None = None
    missed: int = 0
    """Lines between the cursor and these that are not kept any more."""


class Done(Answer):
    """It was done."""

    done: bool = True

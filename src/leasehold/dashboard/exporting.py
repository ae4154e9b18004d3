"""Exports: every job of a search as JSON or CSV, without payloads, however many there are.

They are read and sent a page at a time, so that a million of them are never in memory at once.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Send

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.safe_text import safe
from leasehold.core.model.search import JobFilter
from leasehold.dashboard.payloads import without_secrets
from leasehold.documents.jobs import job_document
from leasehold.error_codes import CodedError

logger = logging.getLogger("leasehold.service")

Kind = Literal["json", "csv"]
MEDIA: Final[dict[Kind, str]] = {"json": "application/json", "csv": "text/csv; charset=utf-8"}
JOBS_AT_ONCE: Final = 500
LEFT_OUT: Final = ("payload", "result")
CSV_COLUMNS: Final = (
    "id", "queue", "task", "status", "priority", "attempts", "created_at", "started_at",
    "completed_at", "worker", "error_type", "error_message",
)  # fmt: skip
FORMULA_SIGNS: Final = tuple("=+-@\uff1d\uff0b\uff0d\uff20")


class ExportResponse(StreamingResponse):
    """A file that breaks off if the store is away or the reader may not continue.

    Its end is then never sent, so that nobody mistakes a part for the whole.
    """

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except CodedError as error:
            logger.warning("an export broke off: %s", error)


def export(store: Store, where: JobFilter, kind: Kind) -> Iterator[bytes]:
    """A file with the matching jobs, newest first, in pieces; each piece is one read.

    Jobs that are submitted meanwhile are not in it. A job that is on its way to another status has
    the one in which it was met.
    """
    return _json(_pages(store, where)) if kind == "json" else _csv(_pages(store, where))


def _pages(store: Store, where: JobFilter) -> Iterator[list[Job]]:
    cursor = None
    while True:
        page = store.search(where, limit=JOBS_AT_ONCE, cursor=cursor, without=LEFT_OUT)
        yield page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return


def _json(pages: Iterator[list[Job]]) -> Iterator[bytes]:
    before = b"["
    for jobs in pages:
        if jobs:
            yield before + b",\n".join(msgspec.json.encode(_light(each)) for each in jobs)
            before = b",\n"
    yield b"[]" if before == b"[" else b"]"


def _csv(pages: Iterator[list[Job]]) -> Iterator[bytes]:
    told = io.StringIO()
    writer = csv.DictWriter(told, CSV_COLUMNS, extrasaction="ignore")
    writer.writeheader()
    for jobs in pages:
        for job in jobs:
            document = _light(job)
            error = document["error"]
            row = {
                **document,
                "error_type": error.type if error else "",
                "error_message": error.message if error else "",
            }
            writer.writerow({name: _harmless(row.get(name)) for name in CSV_COLUMNS})
        yield told.getvalue().encode()
        told.seek(0)
        told.truncate()


def _light(job: Job) -> dict[str, Any]:
    document = job_document(job)
    document["metadata"] = without_secrets(document["metadata"])
    return {name: each for name, each in document.items() if name not in LEFT_OUT}


def _harmless(value: Any) -> str:
    """A cell that no spreadsheet treats as a formula, without control sequences for terminals."""
    told = "" if value is None else safe(str(value), lines=True, limit=None)
    # Some programs trim a cell first, and take the wide signs of other scripts for ours.
    return f"'{told}" if told.lstrip()[:1] in FORMULA_SIGNS else told

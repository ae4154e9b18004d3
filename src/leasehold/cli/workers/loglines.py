"""Log lines of workers and servers: for people, or JSON for programs; each knows its job."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

from leasehold.cli.safe import safe

logger = logging.getLogger("leasehold.jobs")

LogFormat = Literal["plain", "json"]
LOG_FORMATS: Final = ("plain", "json")


class LogLines(logging.Formatter):
    """One record, one line; a traceback follows in lines of its own.

    >>> record = logging.LogRecord("x", logging.INFO, "", 0, "job %s ended", ("a\\x1b[31m",), None)
    >>> LogLines().format(record)[21:]
    'INFO     job a\\\\x1b[31m ended'
    >>> record.job_id = "b-7"
    >>> LogLines().format(record)[21:]
    'INFO     job a\\\\x1b[31m ended (job b-7)'
    """

    def format(self, record: logging.LogRecord) -> str:
        message, job_id = record.getMessage(), job_id_of(record)
        if job_id is not None and job_id not in message:
            message = f"{message} (job {job_id})"
        line = f"{_moment(record):%Y-%m-%dT%H:%M:%S}Z {record.levelname:<8} {safe(message)}"
        if record.exc_info:
            line += "\n" + safe(self.formatException(record.exc_info), lines=True, limit=None)
        return line


class JsonLines(logging.Formatter):
    """One record, one line: a JSON document of the same fields every time.

    >>> record = logging.LogRecord("shop", logging.INFO, "", 0, "sent %s", ("it",), None)
    >>> record.job_id = "b-7"
    >>> document = json.loads(JsonLines().format(record))
    >>> document["level"], document["logger"], document["message"], document["job_id"]
    ('INFO', 'shop', 'sent it', 'b-7')
    """

    def format(self, record: logging.LogRecord) -> str:
        at = _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        document = {
            "at": at,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "job_id": job_id_of(record),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document)


def job_id_of(record: logging.LogRecord) -> str | None:
    """The job that a record is about: as it says itself, or the one whose code logs it."""
    named = getattr(record, "job_id", None)
    if named is not None:
        return str(named)
    context = sys.modules.get("leasehold.worker.context")
    running = None if context is None else context.running_job()
    return None if running is None else str(running.job_id)


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def log_to_stderr(*, quiet: bool, log_format: LogFormat = "plain") -> None:
    """Send all log records of this process to standard error; `quiet` leaves only bad news."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else LogLines())
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO, handlers=[handler], force=True
    )

"""Log lines of worker processes: time, level, message; nothing in them that harms a terminal."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

from leasehold.cli.safe import safe

logger = logging.getLogger("leasehold.jobs")


class LogLines(logging.Formatter):
    """One record, one line; a traceback follows in lines of its own.

    >>> record = logging.LogRecord("x", logging.INFO, "", 0, "job %s ended", ("a\\x1b[31m",), None)
    >>> LogLines().format(record)[21:]
    'INFO     job a\\\\x1b[31m ended'
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = f"{moment:%Y-%m-%dT%H:%M:%S}Z {record.levelname:<8} {safe(record.getMessage())}"
        if record.exc_info:
            line += "\n" + safe(self.formatException(record.exc_info), lines=True, limit=None)
        return line


def log_to_stderr(*, quiet: bool) -> None:
    """Send all log records of this process to standard error; `quiet` leaves only bad news."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines())
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO, handlers=[handler], force=True
    )

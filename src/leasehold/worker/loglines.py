"""Log lines of worker processes: time, level, message; nothing in them that harms a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from leasehold.core.model.safe_text import safe


class LogLines(logging.Formatter):
    r"""One record, one line; a traceback follows in lines of its own.

    >>> record = logging.LogRecord("x", logging.INFO, "", 0, "job %s ended", ("a\x1b[31m",), None)
    >>> LogLines().format(record)[21:]
    'INFO     job a\\x1b[31m ended'
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = f"{moment:%Y-%m-%dT%H:%M:%S}Z {record.levelname:<8} {safe(record.getMessage())}"
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        return f"{line}\n{safe(trace.rstrip(), lines=True, limit=None)}" if trace else line


def log_to_stderr(*, quiet: bool) -> None:
    """Send all log records of this process to standard error; `quiet` leaves only bad news."""
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO, handlers=[_handler(None)], force=True
    )


@contextmanager
def shown_on_stderr(level: int | str, line_format: str | None) -> Iterator[None]:
    """Send log records to standard error meanwhile, unless the application has set up logging.

    What the application has set up counts: its handlers, levels and formats.
    """
    root = logging.getLogger()
    if logging.getLogger("leasehold.worker").hasHandlers():
        yield
        return
    handler, level_before = _handler(line_format), root.level
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield
    finally:
        root.setLevel(level_before)
        root.removeHandler(handler)


def _handler(line_format: str | None) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines() if line_format is None else logging.Formatter(line_format))
    return handler

"""Log lines of workers and servers: for people, or JSON for programs; each names its job."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TextIO

from leasehold.core.model.moments import in_zone, moment_text
from leasehold.core.model.safe_text import safe

LogFormat = Literal["plain", "json"]
COLOURS: Final = {"DEBUG": 90, "INFO": 32, "WARNING": 33, "ERROR": 31, "CRITICAL": 31}
"""Colours of levels on a terminal, as numbered in escape sequences."""
NO_JOB: Final = "-"
"""Replaces a missing job id, for formats that have one in every line."""


class LineStyle(NamedTuple):
    """How a worker formats its lines, passed on to the processes that it starts."""

    log_format: LogFormat = "plain"
    utc: bool = False


_style = LineStyle()


def line_style() -> LineStyle:
    """The style of this process."""
    return _style


class LogLineFormatter(logging.Formatter):
    r"""One record, one line, with the local time and its offset, or with UTC.

    A traceback follows in lines of its own.

    >>> record = logging.LogRecord("x", logging.INFO, "", 0, "job %s ended", ("a\x1b[31m",), None)
    >>> LogLineFormatter(utc=True).format(record)[21:]
    'INFO     job a\\x1b[31m ended'
    >>> record.job_id = "b-7"
    >>> LogLineFormatter(utc=True).format(record)[21:]
    'INFO     job a\\x1b[31m ended (job b-7)'

    With `colours`, the level is coloured, for a terminal.
    """

    def __init__(self, *, utc: bool = False, colours: bool = False) -> None:
        super().__init__()
        self._zone = UTC if utc else None
        self._colours = COLOURS if colours else {}

    def format(self, record: logging.LogRecord) -> str:
        message, job_id = record.getMessage(), job_id_of(record)
        if job_id is not None and job_id not in message:
            message = f"{message} (job {job_id})"
        if record.name.startswith("leasehold"):
            message = in_zone(message, self._zone)
        moment = moment_text(_moment(record).astimezone(self._zone))
        line = f"{moment} {self._level(record.levelname)} {safe(message)}"
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        return f"{line}\n{safe(trace.rstrip(), lines=True, limit=None)}" if trace else line

    def _level(self, name: str) -> str:
        padded = f"{name:<8}"
        colour = self._colours.get(name)
        return padded if colour is None else f"\x1b[{colour}m{padded}\x1b[0m"


class JsonLines(logging.Formatter):
    """One record, one line: a JSON document that always has the same fields.

    >>> record = logging.LogRecord("shop", logging.INFO, "", 0, "sent %s", ("it",), None)
    >>> record.job_id = "b-7"
    >>> document = json.loads(JsonLines().format(record))
    >>> document["level"], document["logger"], document["message"], document["job_id"]
    ('INFO', 'shop', 'sent it', 'b-7')
    """

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "at": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "job_id": job_id_of(record),
        }
        trace = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        if trace:
            document["traceback"] = trace
        return json.dumps(document)


class JobIdFilter(logging.Filter):
    """Gives every record its `job_id`, for the formats of an application: "%(job_id)s".

    It is the id of the job that the record is about, or of the job whose code logs it; "-" for any
    other record. Add it to a handler, since a logger's filters see only its own records.

    >>> handler = logging.StreamHandler()
    >>> handler.addFilter(JobIdFilter())
    >>> record = logging.LogRecord("shop", logging.INFO, "", 0, "sent", (), None)
    >>> _ = handler.filter(record)
    >>> logging.Formatter("%(job_id)s %(message)s").format(record)
    '- sent'
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set the record's job id; no record is left out."""
        record.__dict__["job_id"] = job_id_of(record) or NO_JOB
        return True


def job_id_of(record: logging.LogRecord) -> str | None:
    """The job that a record is about: the one it names, or the one whose code logs it."""
    named = getattr(record, "job_id", None)
    if named == NO_JOB:  # Set already by a filter of another handler.
        return None
    if named is not None:
        return str(named)
    context = sys.modules.get("leasehold.worker.context")
    running = None if context is None else context.running_job()
    return None if running is None else str(running.job_id)


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def log_to_stderr(*, quiet: bool, log_format: LogFormat = "plain", utc: bool = False) -> None:
    """Send all log records of this process to standard error; `quiet` leaves only problems.

    Times are local, or in UTC if `utc`; in JSON they always are.
    """
    global _style  # noqa: PLW0603 - so is the logging of a process.
    _style = LineStyle(log_format, utc)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(_style))
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO, handlers=[handler], force=True
    )


@contextmanager
def shown_on_stderr(level: int | str, line_format: str | None) -> Iterator[None]:
    """Send log records to standard error inside this block, unless the application has set up
    logging.

    The application's own set-up takes precedence: its handlers, levels and formats.
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


def name_jobs_without_logging(style: LineStyle) -> None:
    """Make lines that are shown without any logging set-up look like those of the worker.

    Only for Leasehold's own processes that run tasks: in an application it would change the output.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_formatter(style))


def _formatter(style: LineStyle) -> logging.Formatter:
    if style.log_format == "json":
        return JsonLines()
    return LogLineFormatter(utc=style.utc, colours=_wants_colours(sys.stderr))


def _handler(line_format: str | None) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    if line_format is None:
        handler.setFormatter(_formatter(LineStyle()))
    else:
        handler.addFilter(JobIdFilter())
        handler.setFormatter(logging.Formatter(line_format))
    return handler


def _wants_colours(stream: TextIO | None) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()

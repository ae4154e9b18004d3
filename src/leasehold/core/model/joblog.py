"""A running task's messages: log lines, each with its time and bounded, and its progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.limits import LOG_LINE_LENGTH_MAX, LOG_LINES_MAX, PAYLOAD_BYTES_MAX
from leasehold.core.model.nesting import DEPTH_MAX, is_too_deep
from leasehold.errors import PayloadError


class LogLine(msgspec.Struct, frozen=True):
    """One line that a task logged."""

    at: datetime
    """When the task logged it, by the clock of its machine."""
    text: str


class JobLog(msgspec.Struct, frozen=True):
    """The last lines of a job's log, across all its attempts."""

    lines: list[LogLine]
    dropped: int = 0
    """How many earlier lines were dropped."""

    @property
    def texts(self) -> list[str]:
        """The lines without their times."""
        return [line.text for line in self.lines]


def bounded(text: str) -> str:
    """A line as it is stored: cut if it is too long, and valid as UTF-8.

    >>> bounded("x" * 5000).endswith("x ... 944 characters cut")
    True
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= LOG_LINE_LENGTH_MAX:
        return text
    # The limit includes the note, so that a line that was cut is not cut again.
    room = LOG_LINE_LENGTH_MAX - _NOTE_LENGTH_MAX
    return f"{text[:room]} ... {len(text) - room} characters cut"


_NOTE_LENGTH_MAX: Final = 40


class LogTail:
    """The last lines of a log while it grows, and how many came before them."""

    __slots__ = ("dropped", "lines")

    def __init__(self) -> None:
        self.lines: deque[LogLine] = deque(maxlen=LOG_LINES_MAX)
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self.lines)

    def add(self, line: LogLine) -> None:
        self.dropped += len(self.lines) == LOG_LINES_MAX
        self.lines.append(line)

    def extend(self, lines: Iterable[LogLine], dropped: int = 0) -> None:
        """Add lines; `dropped` lines before them are already gone."""
        self.dropped += dropped
        for line in lines:
            self.add(line)

    def clear(self) -> None:
        self.lines.clear()
        self.dropped = 0


def check_progress(job_id: str, progress: bytes) -> None:
    """Refuse a progress document that could not be read back."""
    if len(progress) > PAYLOAD_BYTES_MAX:
        raise PayloadError(
            f"the progress of job {job_id} has {len(progress):,} bytes; at most "
            f"{PAYLOAD_BYTES_MAX:,} are kept: report less, or store the data elsewhere"
        )
    try:
        document = msgspec.json.decode(progress, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise PayloadError(f"the progress of job {job_id} is not a JSON object: {error}") from error
    if is_too_deep(document):
        raise PayloadError(f"the progress of job {job_id} is nested more than {DEPTH_MAX} deep")

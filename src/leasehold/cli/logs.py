"""`logs`: a job's printed and logged lines, afterwards or while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final, Literal

import click
import msgspec

from leasehold.cli.command import command
from leasehold.cli.jobref import job_id_of
from leasehold.cli.output import Column, emit
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.times import time_text
from leasehold.core.model.job import COMMAND_TASK, Job
from leasehold.core.model.phrases import counted
from leasehold.documents.records import document_of
from leasehold.env import SYSTEM
from leasehold.errors import ResultTimeoutError
from leasehold.queue.facade import TaskQueue

LOOK_SECONDS: Final = 0.2
PENDING_SECONDS: Final = 2.0
"""How long a job may be pending before a follower is told why."""
LINES_AT_ONCE: Final = 200
READ_BYTES: Final = 65_536
LINE_BYTES_MAX: Final = 16_384
"""A longer line is cut: the file has all of it."""

Stream = Literal["log", "stdout", "stderr"]
COLUMNS = (Column("stream", "STREAM"), Column("text", "TEXT"))


class OutputLine(msgspec.Struct, frozen=True):
    """One line of a job."""

    stream: Stream
    text: str
    at: datetime | None = None
    """When a task logged it. A command's output has no time of its own."""


@command()
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="Follow the log until the job has ended.")
@click.option("--stdout", "streams", flag_value="stdout", help="Only standard output of a command.")
@click.option("--stderr", "streams", flag_value="stderr", help="Only standard error of a command.")
@click.option("--attempt", type=click.IntRange(1), help="The attempt, if not the latest.")
@click.option("--timestamps", "-t", is_flag=True, help="Show the time of each line of a task.")
def logs(
    session: Session,
    /,
    *,
    job: str,
    follow: bool,
    streams: str | None,
    attempt: int | None,
    timestamps: bool,
) -> None:
    """Show the output and the log of a job.

    For a command job it shows the output of the latest attempt; lines of standard error begin with
    `err| ` if both are shown. For a task it shows the last 1000 lines that the task printed or
    logged. Control characters are escaped; lines of more than 16 KiB are cut. JOB is a job's id, an
    unambiguous end of it, or @last.

    \b
    Examples:
      queuectl logs e59eb8d6 --follow
      queuectl logs e59eb8d6 --timestamps
      queuectl logs e59eb8d6 --stderr --attempt 1
    """
    if follow and attempt is not None:
        raise click.UsageError("--follow cannot be combined with --attempt")
    snapshot = session.queue.get(job_id_of(session, job))
    if snapshot.task != COMMAND_TASK and (streams or attempt):
        raise click.UsageError(
            f"job {safe(snapshot.id)} is not a command: it has one log, not one per stream or "
            f"attempt"
        )
    if snapshot.task == COMMAND_TASK and timestamps:
        raise click.UsageError(
            f"job {safe(snapshot.id)} is a command: its output has only the times that it prints "
            f"itself"
        )
    lines = _follow(session, snapshot) if follow else _lines(session, snapshot, attempt)
    chosen = (line for line in lines if streams is None or line.stream == streams)
    if session.format == "table":
        silent = True
        for line in chosen:
            silent = False
            mark = "err| " if line.stream == "stderr" and streams is None else ""
            when = "" if not timestamps or line.at is None else f"{time_text(line.at)} "
            click.echo(when + mark + safe(line.text, limit=None))
        if silent and not follow:
            session.tell(_why_silent(snapshot))
    else:
        emit(session, (document_of(line) for line in chosen), COLUMNS)


def _why_silent(job: Job) -> str:
    if job.task != COMMAND_TASK:
        return f"job {safe(job.id)} has logged nothing; it is {job.status.value}"
    if not job.attempts:
        return f"job {safe(job.id)} has not run: it is {job.status.value}"
    return f"job {safe(job.id)} has printed nothing here; it is {job.status.value}"


def output_lines(queue: TaskQueue, job: Job, *, attempt: int | None) -> Iterator[OutputLine]:
    """A command's text: its output, then its error output."""
    paths = queue.output_paths(job, attempt)
    if paths is None:
        return
    for tail in (Tail(paths[0], "stdout"), Tail(paths[1], "stderr")):
        yield from tail.new_lines()
        yield from tail.rest()


def _lines(session: Session, job: Job, attempt: int | None) -> Iterator[OutputLine]:
    if job.task == COMMAND_TASK:
        yield from output_lines(session.queue, job, attempt=attempt)
    else:
        yield from LogReader(session, job).new_lines()


class LogReader:
    """Reads a task's growing log, page by page: only lines that were not read before."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        self._job = job
        self._seen = 0
        """The number of the last line that was read."""

    def new_lines(self) -> Iterator[OutputLine]:
        """The lines that came since the last look; says how many are missing in between."""
        more = True
        while more:
            cursor = str(self._seen) if self._seen else None
            page = self._session.queue.log_page(self._job, limit=LINES_AT_ONCE, cursor=cursor)
            if page.missed:
                self._session.tell(
                    f"{counted(page.missed, 'earlier line')} dropped: the last 1000 are kept"
                )
            self._seen += page.missed + len(page.lines)
            more = page.next_cursor is not None
            for line in page.lines:
                yield OutputLine("log", line.text, line.at)


def _follow(session: Session, job: Job) -> Iterator[OutputLine]:
    """Lines as they come, until the job has ended; Ctrl-C says why there were none."""
    try:
        yield from _lines_to_come(session, job)
    except KeyboardInterrupt:
        _tell_if_pending(session, job)
        raise


def _lines_to_come(session: Session, job: Job) -> Iterator[OutputLine]:
    """The lines of all attempts that are still to come."""
    queue = session.queue
    tails: list[Tail] = []
    log = LogReader(session, job)
    shown: tuple[str, str] | None = None
    clock = SYSTEM.clock
    late, is_told = clock.monotonic() + PENDING_SECONDS, False
    while True:
        # A job that was leased again names its new files only when its command has begun.
        paths = queue.output_paths(job)
        if paths is not None and paths != shown:
            yield from _all_rests(tails)
            if shown is not None:
                session.tell("-- the next attempt --")
            tails = [Tail(paths[0], "stdout"), Tail(paths[1], "stderr")]
            shown = paths
        for tail in tails:
            yield from tail.new_lines()
        if job.task != COMMAND_TASK:
            yield from log.new_lines()
        if job.is_terminal:
            yield from _all_rests(tails)
            session.tell(f"job {job.id} is {job.status.value}")
            return
        job = _next_look(queue, job)
        if not is_told and clock.monotonic() >= late:
            is_told = _tell_if_pending(session, job)


def _tell_if_pending(session: Session, job: Job) -> bool:
    from leasehold.cli.wait import why_pending

    held_up = why_pending(session, job.id)
    if held_up:
        session.tell(held_up)
    return bool(held_up)


def _next_look(queue: TaskQueue, job: Job) -> Job:
    """The job a moment later, or at once when it has ended."""
    with suppress(ResultTimeoutError):
        return queue.wait(job.id, LOOK_SECONDS)
    return queue.get(job.id)


def _all_rests(tails: Iterable[Tail]) -> Iterator[OutputLine]:
    for tail in tails:
        yield from tail.new_lines()
        yield from tail.rest()


class Tail:
    """Reads a file that grows, line by line, in bounded memory."""

    def __init__(self, path: str, stream: Stream) -> None:
        self._path = path
        self._stream: Stream = stream
        self._place = 0
        self._begun = b""
        self._cut_bytes = 0
        """How much of the line was left out because it is too long."""

    def new_lines(self) -> Iterator[OutputLine]:
        """The lines that were finished since the last look."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._place)
                while data := file.read(READ_BYTES):
                    self._place += len(data)
                    *ended, begun = data.split(b"\n")
                    for piece in ended:
                        self._add(piece)
                        yield self._line()
                    self._add(begun)
        except FileNotFoundError:
            return  # It has not begun, or ran on another machine.

    def rest(self) -> Iterator[OutputLine]:
        """What stands after the last line end."""
        if self._begun:
            yield self._line()

    def _add(self, piece: bytes) -> None:
        room = LINE_BYTES_MAX - len(self._begun)
        self._begun += piece[:room]
        self._cut_bytes += max(0, len(piece) - room)

    def _line(self) -> OutputLine:
        text = self._begun.removesuffix(b"\r").decode("utf-8", "replace")
        if self._cut_bytes:
            text += f" … {self._cut_bytes:,} bytes more"
        self._begun, self._cut_bytes = b"", 0
        return OutputLine(self._stream, text)

"""Many jobs from one file of JSON lines: each line checked, and all of them stored, or each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import IO, Any, Final, NamedTuple

import msgspec

from leasehold.cli.blame import blaming
from leasehold.cli.jobdocument import DOCUMENT_BYTES_MAX, read_document
from leasehold.cli.tasknames import TypedTaskNames
from leasehold.errors import (
    DuplicateJobError,
    InvalidJobError,
    LeaseholdError,
    UnknownDependencyError,
)
from leasehold.queue.facade import TaskQueue
from leasehold.queue.handle import JobHandle
from leasehold.queue.options import NewJob

BATCH: Final = 1000
LINE_BYTES_MAX: Final = DOCUMENT_BYTES_MAX
"""A file without line ends must not fill the memory."""


class InputLine(NamedTuple):
    """A line that says something: the job in it, or why there is none."""

    number: int
    job: NewJob | LeaseholdError


class TakenLine(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one line."""

    line: int
    id: str | None = None
    is_duplicate: bool = False
    error: str | None = None


def read_lines(
    file: IO[bytes], queue: TaskQueue, defaults: Mapping[str, Any]
) -> Iterator[InputLine]:
    """The jobs in a file, one by one; empty lines are passed over."""
    seen: dict[str, int] = {}
    names = TypedTaskNames(queue)
    number = 0
    while text := file.readline(LINE_BYTES_MAX):
        number += 1
        if len(text) == LINE_BYTES_MAX and not text.endswith(b"\n"):
            yield InputLine(number, InvalidJobError(f"a line has at most {LINE_BYTES_MAX:,} bytes"))
            while len(text) == LINE_BYTES_MAX and not text.endswith(b"\n"):
                text = file.readline(LINE_BYTES_MAX)
        elif text.strip():
            yield InputLine(number, _job(text, number, queue, defaults, seen, names))


def _job(
    text: bytes,
    number: int,
    queue: TaskQueue,
    defaults: Mapping[str, Any],
    seen: dict[str, int],
    names: TypedTaskNames,
) -> NewJob | LeaseholdError:
    try:
        document = read_document(text)
        document.fill_in(defaults)
        job = document.new_job()
        queue.check_job(job)
        if document.task is not None:
            names.check(document.task)
        if document.id is not None and seen.setdefault(document.id, number) != number:
            raise InvalidJobError(f"line {seen[document.id]} has the id {document.id!r}, too")
    except LeaseholdError as error:
        return error
    return job


def submit_all(queue: TaskQueue, lines: Iterable[InputLine]) -> list[TakenLine]:
    """All or nothing: store every job in one write, if every line is good.

    If one is invalid, nothing is stored, and the answer names only the invalid ones.
    """
    numbers: list[int] = []
    jobs: list[NewJob] = []
    bad: list[TakenLine] = []
    for line in lines:
        if isinstance(line.job, LeaseholdError):
            bad.append(TakenLine(line=line.number, error=str(line.job)))
        elif not bad:
            numbers.append(line.number)
            jobs.append(line.job)
    if bad:
        return bad
    try:
        handles = queue.submit_many(jobs)
    except (DuplicateJobError, UnknownDependencyError) as error:
        raise blaming(error, queue, dict(zip(numbers, jobs, strict=True))) from error
    return [_taken(number, handle) for number, handle in zip(numbers, handles, strict=True)]


def submit_each(queue: TaskQueue, lines: Iterable[InputLine]) -> Iterator[TakenLine]:
    """Store the valid lines, in batches, and tell the result of every line."""
    remaining = iter(lines)
    while batch := list(islice(remaining, BATCH)):
        good = [line.job for line in batch if isinstance(line.job, NewJob)]
        answers = iter(queue.submit_many(good, partial=True))
        for line in batch:
            bad = isinstance(line.job, LeaseholdError)
            yield _taken(line.number, line.job if bad else next(answers))


def _taken(number: int, answer: Any) -> TakenLine:
    if isinstance(answer, JobHandle):
        return TakenLine(line=number, id=answer.id, is_duplicate=answer.is_duplicate)
    return TakenLine(line=number, error=str(answer))


@contextmanager
def counting(file: IO[bytes], what: str) -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
    """Show on a terminal how far it is, by the bytes of a file or else by the lines alone."""
    if not sys.stderr.isatty():
        yield iter
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from leasehold.cli.output import console

    columns = (TextColumn(what), BarColumn(), TextColumn("{task.fields[lines]:,} lines"))
    with Progress(*columns, TimeElapsedColumn(), console=console(stderr=True)) as progress:
        task = progress.add_task("", total=_size(file), lines=0)

        def show(lines: int) -> None:
            done = file.tell() if file.seekable() else None
            progress.update(task, completed=done, lines=lines)

        def shown(items: Iterable[Any]) -> Iterator[Any]:
            number = 0
            for number, item in enumerate(items, 1):
                yield item
                if number % 100 == 0:
                    show(number)
            show(number)

        yield shown


def _size(file: IO[bytes]) -> int | None:
    if not file.seekable():
        return None
    place = file.tell()
    size = file.seek(0, 2)
    file.seek(place)
    return size

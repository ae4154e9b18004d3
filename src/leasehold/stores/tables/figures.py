"""Figures: the counters of lanes, failures by fingerprint, and the totals of each worker.

Jobs are never scanned. Guard: figures are written in the operation that ends or begins the
attempts, and rolled back with it. An unreadable row counts as missing: no job waits for its repair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import msgspec

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import Stats, WorkerInfo, WorkerTotals
from leasehold.core.model.span import BANDS, COUNTED, MINUTE_MICROS
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.failures import ErrorType, StandingFailure
from leasehold.core.rules.measuring import WORKER_COUNTERS
from leasehold.core.rules.metrics import QueueStanding
from leasehold.env import from_micros, to_micros
from leasehold.stores.tables.closed_spans import ClosedSpans, RememberedSpans
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.records import who_works
from leasehold.stores.tables.sampling import EVERY_KEY, queue_name
from leasehold.stores.tables.statements import Kind, Query, Reader, SqlConnection
from leasehold.stores.verbs.figures import FigureVerbs

OF_QUEUE: Final = "queue = coalesce($1, queue)"
"""One queue, or all of them."""


def stats_from(lanes: str) -> str:
    """The statement for the counters of a queue, or of all; `lanes` names the table or view."""
    names = (*(status.value for status in Status), *(f"total_{name}" for name in COUNTED))
    return f"SELECT {_sums(names)} FROM {lanes} WHERE {OF_QUEUE}"


def standings_from(lanes: str, queue: str) -> str:
    """The statement for each queue's jobs by status, and its pending ones by band of priority.

    `queue` is the expression for the queue's name.
    """
    names = (*(status.value for status in Status), *(f"pending_{band}" for band in BANDS))
    return f"SELECT {queue}, {_sums(names)} FROM {lanes} WHERE {OF_QUEUE} GROUP BY queue"


def _sums(names: tuple[str, ...]) -> str:
    return ", ".join(f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in names)


def stats(db: SqlConnection, statement: str, queue: str | None) -> Stats:
    """The columns of a statement of `stats_from`."""
    row = db.execute(statement, (queue,)).fetchone()
    counts = dict(zip(Status, row, strict=False))
    totals = dict(zip(COUNTED, row[len(Status) :], strict=True))
    return Stats(counts=counts, **totals)


FAILURE_COLUMNS: Final = {
    "fingerprint": Kind.TEXT,
    "queue": Kind.TEXT,
    "task": Kind.TEXT,
    "error_type": Kind.TEXT,
    "message": Kind.TEXT,
    "frame": Kind.TEXT,
    "count": Kind.WHOLE,
    "first_at": Kind.MOMENT,
    "last_at": Kind.MOMENT,
    "jobs": Kind.TEXT,
    "hours": Kind.TEXT,
}
ALL: Final = Query(FAILURE_COLUMNS, "FROM failure")
SIZE: Final = "SELECT count(*) FROM failure"
TYPES: Final = Query(
    {"queue": Kind.TEXT, "error_type": Kind.TEXT, "attempts": Kind.WHOLE}, "FROM error_total"
)
TYPES_COUNTED: Final = "SELECT count(*) FROM error_total"
FORGET_TYPES: Final = "DELETE FROM error_total WHERE last_at < $1"
WORKED: Final = Query(
    {
        "id": Kind.WHOLE,
        "worker": Kind.TEXT,
        "queue": Kind.TEXT,
        **dict.fromkeys(WORKER_COUNTERS, Kind.WHOLE),
        "first_at": Kind.MOMENT,
        "last_at": Kind.MOMENT,
    },
    "FROM worker_total",
)
WORKED_LATELY: Final = """
    SELECT bucket, measure, CAST(sum(jobs) AS bigint) FROM measured WHERE lane = 0
    GROUP BY bucket, measure
"""

_hours: Final[msgspec.json.Decoder[tuple[int, ...]]] = msgspec.json.Decoder(tuple[int, ...])
_jobs: Final[msgspec.json.Decoder[tuple[str, ...]]] = msgspec.json.Decoder(tuple[str, ...])

STATUSES: Final = tuple(Status)
"""In order; iterating over an enum is slow with hundreds of queues."""


class TableFailures(ABC):
    """The failures, for core.rules.failures."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._execute = reader.db.execute

    @abstractmethod
    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]: ...

    @abstractmethod
    def keep(self, failures: Sequence[Failure]) -> None: ...

    @abstractmethod
    def forget(self, fingerprints: Sequence[str]) -> None: ...

    @abstractmethod
    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]: ...

    @abstractmethod
    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None: ...

    def size(self) -> int:
        return int(self._execute(SIZE).fetchone()[0])

    def standing(self) -> Iterator[StandingFailure]:
        for each in failures_of(self._reader.rows(ALL)):
            yield StandingFailure(each.fingerprint, each.count, to_micros(each.last_at))

    def types_counted(self) -> int:
        return int(self._execute(TYPES_COUNTED).fetchone()[0])

    def forget_types(self, before: datetime) -> None:
        self._execute(FORGET_TYPES, (to_micros(before),))


def failures_of(rows: Iterable[Any]) -> Iterator[Failure]:
    """The failures in rows."""
    for row in rows:
        named = dict(zip(FAILURE_COLUMNS, row, strict=True))
        for name, decode in (("jobs", _jobs.decode), ("hours", _hours.decode)):
            try:
                named[name] = decode(named[name])
            except UNREADABLE:
                named[name] = ()
        for name in ("first_at", "last_at"):
            named[name] = from_micros(named[name])
        yield Failure(**named)


def row_of(failure: Failure) -> tuple[Any, ...]:
    """The row of a failure."""
    *named, first_at, last_at, jobs, hours = msgspec.structs.astuple(failure)
    return (
        *named,
        to_micros(first_at),
        to_micros(last_at),
        msgspec.json.encode(jobs).decode(),
        msgspec.json.encode(hours).decode(),
    )


def worker_totals(reader: Reader, open_minute: int) -> Iterator[tuple[str, WorkerTotals]]:
    """The totals of each worker, by queue."""
    lately: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for number, counter, jobs in reader.db.execute(WORKED_LATELY):
        lately[number][WORKER_COUNTERS[counter]] = jobs
    for number, worker, queue, *counted, first_at, last_at in reader.rows(WORKED):
        totals = dict(zip(WORKER_COUNTERS, counted, strict=True))
        for name, jobs in lately[number].items():
            totals[name] += jobs
        yield (
            queue,
            WorkerTotals(
                worker=worker,
                **totals,
                first_at=from_micros(first_at),
                last_at=from_micros(open_minute * MINUTE_MICROS if lately[number] else last_at),
            ),
        )


class TableMetrics(RememberedSpans, ABC):
    """See `leasehold.stores.verbs.figures.FigureReader`; each store supplies its statements."""

    keys_aged = EVERY_KEY
    reader_of: Callable[[Any], Reader]
    counters: ClassVar[str]
    """A statement of `stats_from`."""
    standing: ClassVar[str]
    """A statement of `standings_from`."""

    def __init__(
        self,
        db: Any,
        tell_time: Callable[[], int],
        find_lost: Callable[[], Collection[str]] = tuple,
        closed: ClosedSpans | None = None,
    ) -> None:
        """The time, and the workers proved dead whose jobs have not yet been taken back, are only
        looked up if figures need them.
        """
        super().__init__(db)
        self._reader = self.reader_of(db)
        self._tell_time = tell_time
        self._find_lost = find_lost
        self._closed = closed

    @abstractmethod
    def queues(self) -> Iterable[str]: ...

    @cached_property
    def now(self) -> int:
        return self._tell_time()

    def stats(self, queue: str | None) -> Stats:
        return stats(self._db, self.counters, queue)

    def failures(self) -> Iterator[Failure]:
        return failures_of(self._reader.rows(ALL))

    def worker_totals(self) -> Iterator[tuple[str, WorkerTotals]]:
        return worker_totals(self._reader, self.open_minute())

    def standings(self, queue: str | None) -> Mapping[str, QueueStanding]:
        since = self.available_since(queue)
        rows = self._db.execute(self.standing, (queue,))
        return {
            name: QueueStanding(
                counts=dict(zip(STATUSES, figures, strict=False)),
                pending_by_priority=dict(zip(BANDS, figures[len(STATUSES) :], strict=True)),
                oldest_available_at=since.get(name),
            )
            for name, figures in ((queue_name(name), figures) for name, *figures in rows)
        }

    def leased_by(self) -> Mapping[tuple[str, str], int]:
        return {(queue, each.worker): each.leased for queue, each in self.worker_totals()}

    def failed_with(self) -> Mapping[ErrorType, int]:
        rows = self._reader.rows(TYPES)
        return {ErrorType(queue, name): attempts for queue, name, attempts in rows}

    def workers(self) -> list[WorkerInfo]:
        known, lost = who_works(self._reader, self.now), self._find_lost()
        return [each for each in known if each.id not in lost]


class TableFigureVerbs(FigureVerbs):
    """What these figures are read from."""

    _database: TableDatabase
    _metrics: type[TableMetrics]

    @abstractmethod
    def _lost_workers(self, db: Any) -> Collection[str]:
        """Workers proved dead whose jobs have not yet been taken back."""

    def _figures(self, look: SqlConnection) -> TableMetrics:
        tell_time, find_lost = partial(self._now, look), partial(self._lost_workers, look)
        return self._metrics(look, tell_time, find_lost, self._closed)

    @cached_property
    def _closed(self) -> ClosedSpans:
        return ClosedSpans()

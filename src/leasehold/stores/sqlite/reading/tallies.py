"""What is counted beside the lanes: the failures by fingerprint, and what each worker did.

Guard: written in the operation that ends or begins the attempts, and rolled back with it. A row
that cannot be read is as good as none: no job waits for it to be mended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.failure import FailedAttempt, Failure
from leasehold.core.model.outcome import JobError
from leasehold.core.model.records import WorkerTotals
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.failures import ErrorType, StandingFailure, note
from leasehold.core.rules.measuring import WORKER_COUNTERS
from leasehold.env import from_micros, to_micros
from leasehold.stores.sqlite.schema.rows import Kind, Lenient, whole

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
}
ALL: Final = Lenient(FAILURE_COLUMNS, "FROM failure")
KNOWN: Final = Lenient(
    FAILURE_COLUMNS, "FROM failure WHERE fingerprint IN (SELECT value FROM json_each(?))"
)
KEEP: Final = f"INSERT OR REPLACE INTO failure VALUES ({', '.join('?' * 10)})"  # noqa: S608  # placeholders
NAMES: Final = "SELECT queue, task FROM lane WHERE id = ?"
SIZE: Final = "SELECT count(*) FROM failure"
FORGET: Final = "DELETE FROM failure WHERE fingerprint = ?"

TYPES: Final = Lenient(
    {"queue": Kind.TEXT, "error_type": Kind.TEXT, "attempts": Kind.WHOLE}, "FROM error_total"
)
KNOWN_TYPE: Final = "SELECT 1 FROM error_total WHERE queue = ? AND error_type = ?"
TYPES_COUNTED: Final = "SELECT count(*) FROM error_total"
# A count that is none, since it was damaged, begins anew.
COUNT_TYPE: Final = f"""
    INSERT INTO error_total VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET attempts = {whole("attempts")} + excluded.attempts,
        last_at = excluded.last_at
"""  # noqa: S608  # our own name
FORGET_TYPES: Final = "DELETE FROM error_total WHERE last_at < ?"

WORKED: Final = Lenient(
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
WORKED_LATELY: Final = "SELECT bucket, measure, jobs FROM measured WHERE lane = 0"
_MORE: Final = ", ".join(
    f"{name} = {name} + coalesce((SELECT jobs FROM measured "  # noqa: S608  # our own names
    f"WHERE lane = 0 AND measure = {number} AND bucket = id), 0)"
    for number, name in enumerate(WORKER_COUNTERS)
)
ADD_WORKED: Final = f"""
    UPDATE worker_total SET last_at = ?, {_MORE}
    WHERE id IN (SELECT bucket FROM measured WHERE lane = 0)
"""  # noqa: S608  # our own names
FORGET_WORKERS: Final = """
    DELETE FROM worker_total WHERE id IN (
        SELECT id FROM worker_total ORDER BY last_at DESC LIMIT ? OFFSET ?)
"""
# Whatever a damaged lane holds, its jobs are counted.
_QUEUE_OF: Final = "coalesce((SELECT CAST(queue AS TEXT) FROM lane WHERE id = ?2), '')"
FIND_WORKER: Final = f"SELECT id FROM worker_total WHERE worker = ?1 AND queue = {_QUEUE_OF}"  # noqa: S608  # our own names
MAKE_WORKER: Final = f"""
    INSERT INTO worker_total (worker, queue, first_at, last_at) VALUES (?1, {_QUEUE_OF}, ?3, ?3)
"""  # noqa: S608  # our own names

_jobs: Final[msgspec.json.Decoder[tuple[str, ...]]] = msgspec.json.Decoder(tuple[str, ...])


class Failures:
    """The failures, as core.rules.failures asks for them."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        asked = msgspec.json.encode(list(fingerprints)).decode()
        return {each.fingerprint: each for each in _failures(KNOWN.rows(self._db, (asked,)))}

    def keep(self, failures: Sequence[Failure]) -> None:
        self._db.executemany(KEEP, map(_row, failures))

    def size(self) -> int:
        row: Any = self._db.execute(SIZE).fetchone()
        return int(row[0])

    def standing(self) -> Iterator[StandingFailure]:
        for each in self.all():
            yield StandingFailure(each.fingerprint, each.count, to_micros(each.last_at))

    def forget(self, fingerprints: Sequence[str]) -> None:
        self._db.executemany(FORGET, [(each,) for each in fingerprints])

    def all(self) -> Iterator[Failure]:
        return _failures(ALL.rows(self._db))

    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]:
        return {each for each in types if self._db.execute(KNOWN_TYPE, each).fetchone()}

    def types_counted(self) -> int:
        row: Any = self._db.execute(TYPES_COUNTED).fetchone()
        return int(row[0])

    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None:
        micros = to_micros(at)
        self._db.executemany(COUNT_TYPE, [(*each, n, micros) for each, n in attempts.items()])

    def forget_types(self, before: datetime) -> None:
        self._db.execute(FORGET_TYPES, (to_micros(before),))


def note_failures(
    db: apsw.Connection, failed: Sequence[tuple[int, str, JobError]], now: int
) -> None:
    """Count attempts that failed, each given by its lane, its job and the error."""
    names: dict[int, tuple[str, str]] = {}
    attempts = []
    for lane, job_id, error in failed:
        if lane not in names:
            row: Any = db.execute(NAMES, (lane,)).fetchone()
            names[lane] = row
        attempts.append(FailedAttempt(*names[lane], job_id, error))
    note(Failures(db), attempts, from_micros(now))


def _failures(rows: Iterator[Any]) -> Iterator[Failure]:
    for row in rows:
        named = dict(zip(FAILURE_COLUMNS, row, strict=True))
        try:
            named["jobs"] = _jobs.decode(named["jobs"])
        except UNREADABLE:
            named["jobs"] = ()
        for name in ("first_at", "last_at"):
            named[name] = from_micros(named[name])
        yield Failure(**named)


def _row(failure: Failure) -> tuple[Any, ...]:
    *named, first_at, last_at, jobs = msgspec.structs.astuple(failure)
    return (
        *named,
        to_micros(first_at),
        to_micros(last_at),
        msgspec.json.encode(jobs).decode(),
    )


def failed_with(db: apsw.Connection) -> dict[ErrorType, int]:
    """How many attempts failed with errors of each type."""
    return {ErrorType(queue, name): attempts for queue, name, attempts in TYPES.rows(db)}


def worker_totals(db: apsw.Connection, open_minute: int) -> Iterator[tuple[str, WorkerTotals]]:
    """What each worker did, by queue."""
    lately: defaultdict[int, dict[str, int]] = defaultdict(dict)
    rows: Any = db.execute(WORKED_LATELY)
    for number, counter, jobs in rows:
        lately[number][WORKER_COUNTERS[counter]] = jobs
    for number, worker, queue, *counted, first_at, last_at in WORKED.rows(db):
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

"""What is counted beside the lanes: the failures by fingerprint, and what each worker did.

Guard: written in the operation that ends or begins the attempts, and rolled back with it. A row
that cannot be read is as good as none: no job waits for it to be mended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.failure import FailedAttempt, Failure
from leasehold.core.model.outcome import JobError
from leasehold.core.model.records import WorkerTotals
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.rules.failures import StandingFailure, note
from leasehold.env import from_micros, to_micros
from leasehold.stores.sqlite.schema.rows import UNREADABLE, Kind, Lenient

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

WORKER_COUNTERS: Final = ("leased", "completed", "failed", "lost")
WORKED: Final = Lenient(
    {
        "id": Kind.WHOLE,
        "worker": Kind.TEXT,
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
FIND_WORKER: Final = "SELECT id FROM worker_total WHERE worker = ?"
MAKE_WORKER: Final = "INSERT INTO worker_total (worker, first_at, last_at) VALUES (?1, ?2, ?2)"

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


def worker_totals(db: apsw.Connection, open_minute: int) -> Iterator[WorkerTotals]:
    """What each worker did."""
    lately: defaultdict[int, dict[str, int]] = defaultdict(dict)
    rows: Any = db.execute(WORKED_LATELY)
    for number, counter, jobs in rows:
        lately[number][WORKER_COUNTERS[counter]] = jobs
    for number, worker, *counted, first_at, last_at in WORKED.rows(db):
        totals = dict(zip(WORKER_COUNTERS, counted, strict=True))
        for name, jobs in lately[number].items():
            totals[name] += jobs
        yield WorkerTotals(
            worker=worker,
            **totals,
            first_at=from_micros(first_at),
            last_at=from_micros(open_minute * MINUTE_MICROS if lately[number] else last_at),
        )

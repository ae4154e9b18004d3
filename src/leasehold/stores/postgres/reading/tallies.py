"""What is counted beside the lanes: the failures by fingerprint, and what each worker did.

Guard: written in the write that ends or begins the attempts, and rolled back with it. A row that
cannot be read is as good as none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.failure import FailedAttempt, Failure
from leasehold.core.model.outcome import JobError
from leasehold.core.model.records import WorkerTotals
from leasehold.core.model.span import MINUTE_MICROS
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.failures import ErrorType, StandingFailure, note
from leasehold.core.rules.measuring import WORKER_COUNTERS
from leasehold.env import from_micros, to_micros
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import Connection, unnested

FAILURE_COLUMNS: Final = (
    "fingerprint", "queue", "task", "error_type", "message", "frame", "count", "first_at",
    "last_at", "jobs",
)  # fmt: skip
_NAMES: Final = ", ".join(FAILURE_COLUMNS)
ALL: Final = f"SELECT {_NAMES} FROM failure"  # noqa: S608  # our own names
KNOWN: Final = f"SELECT {_NAMES} FROM failure WHERE fingerprint = ANY($1)"  # noqa: S608  # as above
KEEP: Final = f"""
    INSERT INTO failure SELECT * FROM {
    unnested("text text text text text text bigint bigint bigint text")
} ON CONFLICT (fingerprint) DO UPDATE SET count = excluded.count, first_at = excluded.first_at,
        last_at = excluded.last_at, jobs = excluded.jobs
"""  # noqa: S608  # our own names
NAMES: Final = "SELECT id, queue, task FROM lane WHERE id = ANY($1)"
SIZE: Final = "SELECT count(*) FROM failure"
FORGET: Final = "DELETE FROM failure WHERE fingerprint = ANY($1)"

TYPES: Final = "SELECT queue, error_type, attempts FROM error_total"
KNOWN_TYPES: Final = f"""
    SELECT queue, error_type FROM error_total WHERE (queue, error_type) IN (
        SELECT * FROM {unnested("text text")})
"""  # noqa: S608  # our own names
TYPES_COUNTED: Final = "SELECT count(*) FROM error_total"
COUNT_TYPES: Final = f"""
    INSERT INTO error_total SELECT * FROM {unnested("text text bigint bigint")}
    ON CONFLICT (queue, error_type) DO UPDATE
    SET attempts = error_total.attempts + excluded.attempts, last_at = excluded.last_at
"""  # noqa: S608  # our own names
FORGET_TYPES: Final = "DELETE FROM error_total WHERE last_at < $1"

WORKED: Final = f"""
    SELECT id, worker, queue, {", ".join(WORKER_COUNTERS)}, first_at, last_at FROM worker_total
"""  # noqa: S608  # our own names
WORKED_LATELY: Final = """
    SELECT bucket, measure, sum(jobs)::bigint FROM measured WHERE lane = 0 GROUP BY bucket, measure
"""
_SUMS: Final = ", ".join(
    f"coalesce(sum(jobs) FILTER (WHERE measure = {number}), 0)::bigint AS {name}"
    for number, name in enumerate(WORKER_COUNTERS)
)
_MORE: Final = ", ".join(
    f"{name} = worker_total.{name} + lately.{name}" for name in WORKER_COUNTERS
)
ADD_WORKED: Final = f"""
    UPDATE worker_total SET last_at = $1, {_MORE}
    FROM (SELECT bucket AS number, {_SUMS} FROM measured WHERE lane = 0 GROUP BY bucket) AS lately
    WHERE worker_total.id = lately.number
"""  # noqa: S608  # our own names
FORGET_WORKERS: Final = """
    DELETE FROM worker_total WHERE id IN (
        SELECT id FROM worker_total ORDER BY last_at DESC, id DESC LIMIT $1 OFFSET $2)
"""
FIND_WORKER: Final = """
    SELECT id FROM worker_total WHERE worker = $1 AND queue = (SELECT queue FROM lane WHERE id = $2)
"""
MAKE_WORKER: Final = """
    INSERT INTO worker_total (worker, queue, first_at, last_at)
    SELECT $1, queue, $3, $3 FROM lane WHERE id = $2 RETURNING id
"""

_jobs: Final[msgspec.json.Decoder[tuple[str, ...]]] = msgspec.json.Decoder(tuple[str, ...])


class Failures:
    """The failures, as core.rules.failures asks for them."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        rows = self._db.execute(KNOWN, (list(fingerprints),))
        return {each.fingerprint: each for each in _failures(rows)}

    def keep(self, failures: Sequence[Failure]) -> None:
        self._db.many(KEEP, [_row(each) for each in failures])

    def size(self) -> int:
        row: Any = self._db.execute(SIZE).fetchone()
        return int(row[0])

    def standing(self) -> Iterator[StandingFailure]:
        for each in self.all():
            yield StandingFailure(each.fingerprint, each.count, to_micros(each.last_at))

    def forget(self, fingerprints: Sequence[str]) -> None:
        self._db.execute(FORGET, (list(fingerprints),))

    def all(self) -> Iterator[Failure]:
        return _failures(self._db.execute(ALL))

    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]:
        # A name is known by what can be stored of it.
        by_stored = {ErrorType(each.queue, storable(each.name)): each for each in types}
        asked = [list(column) for column in zip(*by_stored, strict=True)]
        rows = self._db.execute(KNOWN_TYPES, asked)
        return {by_stored[ErrorType(queue, name)] for queue, name in rows}

    def types_counted(self) -> int:
        row: Any = self._db.execute(TYPES_COUNTED).fetchone()
        return int(row[0])

    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None:
        stored: Counter[ErrorType] = Counter()
        for (queue, name), more in attempts.items():
            stored[ErrorType(queue, storable(name))] += more
        micros = to_micros(at)
        self._db.many(COUNT_TYPES, [(*each, more, micros) for each, more in stored.items()])

    def forget_types(self, before: datetime) -> None:
        self._db.execute(FORGET_TYPES, (to_micros(before),))


def note_failures(db: Connection, failed: Sequence[tuple[int, str, JobError]], now: int) -> None:
    """Count attempts that failed, each given by its lane, its job and the error."""
    rows = db.execute(NAMES, (list({lane for lane, _, _ in failed}),))
    names = {lane: (queue, task) for lane, queue, task in rows}
    attempts = [FailedAttempt(*names[lane], job_id, error) for lane, job_id, error in failed]
    note(Failures(db), attempts, from_micros(now))


def _failures(rows: Iterable[Any]) -> Iterator[Failure]:
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
        *(storable(each) if isinstance(each, str) else each for each in named),
        to_micros(first_at),
        to_micros(last_at),
        msgspec.json.encode(jobs).decode(),
    )


def failed_with(db: Connection) -> dict[ErrorType, int]:
    """How many attempts failed with errors of each type."""
    return {ErrorType(queue, name): attempts for queue, name, attempts in db.execute(TYPES)}


def worker_totals(db: Connection, open_minute: int) -> Iterator[tuple[str, WorkerTotals]]:
    """What each worker did, by queue."""
    lately: defaultdict[int, dict[str, int]] = defaultdict(dict)
    rows: Any = db.execute(WORKED_LATELY)
    for number, counter, jobs in rows:
        lately[number][WORKER_COUNTERS[counter]] = jobs
    for number, worker, queue, *counted, first_at, last_at in db.execute(WORKED):
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

"""Failures and workers: what of `tables.tallies` this database is told in its own words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.failure import FailedAttempt, Failure
from leasehold.core.model.outcome import JobError
from leasehold.core.rules.failures import ErrorType, note
from leasehold.core.rules.measuring import WORKER_COUNTERS
from leasehold.env import from_micros, to_micros
from leasehold.stores.sqlite.schema.rows import LenientReader, whole
from leasehold.stores.tables.query import Query
from leasehold.stores.tables.tallies import FAILURE_COLUMNS, TableFailures, failures_of, row_of

KNOWN: Final = Query(
    FAILURE_COLUMNS, "FROM failure WHERE fingerprint IN (SELECT value FROM json_each(?))"
)
KEEP: Final = f"INSERT OR REPLACE INTO failure VALUES ({', '.join('?' * 11)})"  # noqa: S608  # placeholders
NAMES: Final = "SELECT queue, task FROM lane WHERE id = ?"
FORGET: Final = "DELETE FROM failure WHERE fingerprint = ?"
KNOWN_TYPE: Final = "SELECT 1 FROM error_total WHERE queue = ? AND error_type = ?"
# A count that is none, since it was damaged, begins anew.
COUNT_TYPE: Final = f"""
    INSERT INTO error_total VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET attempts = {whole("attempts")} + excluded.attempts,
        last_at = excluded.last_at
"""  # noqa: S608  # our own name
_MORE: Final = ", ".join(
    f"{name} = {name} + coalesce((SELECT jobs FROM measured "  # noqa: S608  # our own names
    f"WHERE lane = 0 AND measure = {number} AND bucket = id), 0)"
    for number, name in enumerate(WORKER_COUNTERS)
)
ADD_WORKED: Final = f"""
    UPDATE worker_total SET last_at = ?, {_MORE}
    WHERE id IN (SELECT bucket FROM measured WHERE lane = 0)
"""  # noqa: S608  # our own names
# Whatever a damaged lane holds, its jobs are counted.
_QUEUE_OF: Final = "coalesce((SELECT CAST(queue AS TEXT) FROM lane WHERE id = ?2), '')"
FIND_WORKER: Final = f"SELECT id FROM worker_total WHERE worker = ?1 AND queue = {_QUEUE_OF}"  # noqa: S608  # our own names
MAKE_WORKER: Final = f"""
    INSERT INTO worker_total (worker, queue, first_at, last_at) VALUES (?1, {_QUEUE_OF}, ?3, ?3)
"""  # noqa: S608  # our own names


class FailureBook(TableFailures):
    """The failures, as core.rules.failures asks for them."""

    def __init__(self, db: apsw.Connection) -> None:
        super().__init__(LenientReader(db))
        self._db = db

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        asked = msgspec.json.encode(list(fingerprints)).decode()
        return {each.fingerprint: each for each in failures_of(self._reader.rows(KNOWN, asked))}

    def keep(self, failures: Sequence[Failure]) -> None:
        self._db.executemany(KEEP, map(row_of, failures))

    def forget(self, fingerprints: Sequence[str]) -> None:
        self._db.executemany(FORGET, [(each,) for each in fingerprints])

    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]:
        return {each for each in types if self._db.execute(KNOWN_TYPE, each).fetchone()}

    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None:
        micros = to_micros(at)
        self._db.executemany(COUNT_TYPE, [(*each, n, micros) for each, n in attempts.items()])


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
    note(FailureBook(db), attempts, from_micros(now))

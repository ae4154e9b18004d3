"""The row of a job, wherever it stands, and the snapshot it becomes: the one place where that is.

`job_of` is the way of nearly every row, and raises one of UNREADABLE for a row that is not as it
should be. `job_carefully` reads such a row too: what can be read of it, and an error that says what
cannot. `problems` only says that.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.model.codes import (
    POLICY_OF,
    STATUS_CODE,
    STATUS_OF,
)
from leasehold.core.model.job import Job
from leasehold.core.model.outcome import JobError
from leasehold.core.model.plain_data import LEFT_OUT
from leasehold.core.model.status import Status
from leasehold.core.model.stored import (
    UNREADABLE,
    metadata_of,
    moment,
    problem_of,
    retry_of,
)
from leasehold.core.model.unreadable import ERROR_TYPE, set_aside_reason
from leasehold.env import from_micros
from leasehold.stores.sqlite.schema.rows import (
    PYTHON_TYPES,
    WHOLE_MAX,
    guarded,
    seconds_of,
    value_of,
)
from leasehold.stores.tables.places import AT_ITS_PLACE
from leasehold.stores.tables.query import Kind


class JobColumn(NamedTuple):
    """One column of a job's row."""

    name: str
    expression: str
    kind: Kind
    instead: Any = None
    """What a snapshot says if it cannot be read."""


DEPENDS_ON: Final = "SELECT id FROM dependency WHERE seq = ? ORDER BY n"
_COLUMNS: Final = (
    JobColumn("number", "job.seq", Kind.WHOLE, 0),
    JobColumn("id", "job.id", Kind.TEXT, "unreadable"),
    JobColumn("queue", "lane.queue", Kind.TEXT, "unreadable"),
    JobColumn("task", "lane.task", Kind.TEXT, "unreadable"),
    JobColumn("priority", "job.priority", Kind.WHOLE, 0),
    JobColumn("created_at", "job.created_at", Kind.MOMENT, 0),
    JobColumn("max_retries", "job.max_retries", Kind.WHOLE, 0),
    JobColumn("allowance", "job.allowance", Kind.WHOLE, 0),
    JobColumn("timeout_seconds", "job.timeout_seconds", Kind.SECONDS_OR_NULL),
    JobColumn("lease_seconds", "job.lease_seconds", Kind.SECONDS_OR_NULL),
    JobColumn("deadline", "job.deadline", Kind.MOMENT_OR_NULL),
    JobColumn("start_by", "job.start_by", Kind.MOMENT_OR_NULL),
    JobColumn("result_ttl_seconds", "job.result_ttl_seconds", Kind.SECONDS_OR_NULL),
    JobColumn("retry", "job.retry", Kind.TEXT_OR_NULL),
    JobColumn("metadata", "job.metadata", Kind.TEXT_OR_NULL),
    JobColumn("idempotency_key", "job.idempotency_key", Kind.TEXT_OR_NULL),
    JobColumn("parent_id", "job.parent_id", Kind.TEXT_OR_NULL),
    JobColumn("codec", "job.codec", Kind.TEXT_OR_NULL),
    JobColumn("payload", "job.payload", Kind.BYTES, b""),
    JobColumn(
        "status", "coalesce(finished.status, waiting.status, iif(running.seq IS NULL, 2, 3))",
        Kind.WHOLE, 2,
    ),
    JobColumn(
        "lease version",
        "coalesce(ready.version, running.version, finished.version, waiting.version)",
        Kind.WHOLE, 0,
    ),
    JobColumn(
        "attempts",
        "coalesce(ready.attempts, running.attempts, finished.attempts, waiting.attempts)",
        Kind.WHOLE, 0,
    ),
    JobColumn(
        "the time since when it is available",
        "coalesce(ready.available_at, running.available_at, finished.available_at, waiting.due, "
        "dependent.due, waiting.since)",
        Kind.MOMENT, 0,
    ),
    JobColumn("worker", "running.worker", Kind.TEXT_OR_NULL),
    JobColumn("acquired_at", "running.acquired_at", Kind.MOMENT_OR_NULL),
    JobColumn("expires_at", "running.expires_at", Kind.MOMENT_OR_NULL),
    JobColumn("heartbeat_at", "running.heartbeat_at", Kind.MOMENT_OR_NULL),
    JobColumn("cancel_reason", "running.cancel_reason", Kind.TEXT_OR_NULL),
    JobColumn("finished_at", "finished.finished_at", Kind.MOMENT_OR_NULL),
    JobColumn("started_at", "finished.started_at", Kind.MOMENT_OR_NULL),
    JobColumn("result", "finished.result", Kind.BYTES_OR_NULL),
    JobColumn("result_codec", "finished.result_codec", Kind.TEXT_OR_NULL),
    JobColumn("reason", "coalesce(finished.reason, waiting.reason)", Kind.TEXT_OR_NULL),
    JobColumn("since", "waiting.since", Kind.MOMENT_OR_NULL),
    JobColumn("progress", "progress.document", Kind.TEXT_OR_NULL),
    JobColumn("the dependency policy", "dependent.policy", Kind.WHOLE_OR_NULL),
    JobColumn("the inherited priority", "raised.base", Kind.WHOLE_OR_NULL),
    JobColumn("limit_key", "job.limit_key", Kind.TEXT_OR_NULL),
    JobColumn("failure_count", "coalesce(failed_job.count, 0)", Kind.WHOLE, 0),
    JobColumn("first_failed_at", "failed_job.first_at", Kind.MOMENT_OR_NULL),
    JobColumn("last_failed_at", "failed_job.last_at", Kind.MOMENT_OR_NULL),
)  # fmt: skip
# What no snapshot tells, but a lease or a settlement needs.
_BESIDES: Final = (
    JobColumn("born", "job.born", Kind.WHOLE),
    JobColumn(
        "the number of its events",
        "coalesce(ready.events, running.events, finished.events, waiting.events)",
        Kind.WHOLE,
    ),
    JobColumn("leased_event", "running.leased_event", Kind.WHOLE_OR_NULL),
    JobColumn("lease_micros", "running.lease_micros", Kind.WHOLE_OR_NULL),
    JobColumn("the parent_id of its place", "ready.parent_id", Kind.TEXT_OR_NULL),
    JobColumn("the time until which it waits", "dependent.due", Kind.MOMENT_OR_NULL),
    JobColumn("the time when it is due", "waiting.due", Kind.MOMENT_OR_NULL),
)  # fmt: skip
_ALL: Final = (*_COLUMNS, *_BESIDES)

# Exactly one of the four state tables has a row for it.
_FROM: Final = f"""
    FROM job
    {{}} JOIN lane ON lane.id = job.lane
    LEFT JOIN running ON running.seq = job.seq
    LEFT JOIN finished ON finished.seq = job.seq
    LEFT JOIN waiting ON waiting.seq = job.seq
    LEFT JOIN place ON place.seq = job.seq
    LEFT JOIN ready ON {AT_ITS_PLACE}
    LEFT JOIN raised ON raised.seq = job.seq
    LEFT JOIN progress ON progress.seq = job.seq
    LEFT JOIN dependent ON dependent.seq = job.seq
    LEFT JOIN failed_job ON failed_job.seq = job.seq
"""
JOB: Final = f"SELECT {', '.join(each.expression for each in _COLUMNS)} {_FROM.format('')}"
"""One row per job, for `job_of`."""
_LIGHT: Final = {
    "payload": {"payload": "x''", "codec": f"'{LEFT_OUT}'"},
    "result": {
        "result": "iif(finished.result IS NULL, NULL, x'')",
        "result_codec": f"iif(finished.result IS NULL, NULL, '{LEFT_OUT}')",
    },
    "metadata": {"metadata": "NULL"},
}
"""What is fetched in place of columns that a search goes without."""


def job_without(fields: Collection[str]) -> str:
    """JOB without these fields, whose pages are not even read; the same columns in the same order.

    A payload that does not fit into its row's own page lies on others, which are passed over.
    """
    if not fields:
        return JOB
    light = {name: instead for field in fields for name, instead in _LIGHT[field].items()}
    asked = ", ".join(light.get(each.name, each.expression) for each in _COLUMNS)
    return f"SELECT {asked} {_FROM.format('')}"  # our own names


NUMBERS: Final = f"SELECT job.seq {_FROM.format('')}"
"""Only the numbers, which can always be read."""
IDS: Final = f"SELECT job.seq, job.id {_FROM.format('')}"
"""Numbers and ids."""
BY_STATUS: Final = (
    f"SELECT {next(each.expression for each in _COLUMNS if each.name == 'status')}, count(*) "
    + _FROM.format("")
)
"""How many jobs there are, by the code of their status; to be grouped by that."""
GUARDED: Final = (
    f"SELECT {', '.join(guarded(each.expression, each.kind) for each in _ALL)} "  # our own names
    + _FROM.format("LEFT")
)
"""One row per job, whatever it holds, for `problems`."""

_LAST_ERROR: Final = """
    SELECT error_type, error_message, traceback FROM attempt
    WHERE seq = ? AND error_type IS NOT NULL ORDER BY version DESC LIMIT 1
"""
_LAST_ATTEMPT: Final = "SELECT started_at FROM attempt WHERE seq = ? ORDER BY version DESC LIMIT 1"
KNOWN_TYPES_MAX: Final = 10_000
_known_types: set[tuple[type, ...]] = set()
_NAMES: Final = {each.name: place for place, each in enumerate(_COLUMNS)}
_TEXT_PLACES: Final = tuple(
    place for place, each in enumerate(_ALL) if each.kind in (Kind.TEXT, Kind.TEXT_OR_NULL)
)
_TO_DECODE: Final = tuple(
    _NAMES[name]
    for name in (
        "retry", "metadata", "progress", "the dependency policy", "timeout_seconds",
        "lease_seconds", "result_ttl_seconds",
    )
)  # fmt: skip


def problems(row: tuple[Any, ...]) -> list[str]:
    """What cannot be read of a row that GUARDED gave; nothing, of nearly all."""
    return [] if _is_plain(row) else _read(row)[1]


def _is_plain(row: tuple[Any, ...]) -> bool:
    """Whether a row is surely readable: most are, and are not looked at column by column."""
    if any(row[place] is not None for place in _TO_DECODE) or str in map(type, row):
        return False
    numbers = [value for value in row if type(value) is int]
    try:
        for place in _TEXT_PLACES:
            if row[place] is not None:
                row[place].decode()
    except UnicodeDecodeError:
        return False
    return (
        min(numbers) >= 0
        and max(numbers) <= WHOLE_MAX
        and row[_NAMES["priority"]] <= 100
        and row[_NAMES["status"]] in STATUS_OF
    )


def problem_with(db: apsw.Connection, seq: int) -> str | None:
    """What cannot be read of one job; None if all can be."""
    row: Any = db.execute(f"{GUARDED} WHERE job.seq = ?", (seq,)).fetchone()
    return None if row is None else "; ".join(problems(row)) or None


def job_carefully(db: apsw.Connection, seq: int) -> Job:
    """A snapshot with what can be read of a job, and an error that names what cannot."""
    guarded_row: Any = db.execute(f"{GUARDED} WHERE job.seq = ?", (seq,)).fetchone()
    row, found = _read(guarded_row)
    try:
        job = job_of(db, tuple(row))
    except UNREADABLE as error:
        # Not its own row, but one of those that go with it: its attempts or dependencies.
        found.append(problem_of(error))
        version = row[_NAMES["lease version"]]
        row[_NAMES["lease version"]], row[_NAMES["the dependency policy"]] = 0, None
        job = msgspec.structs.replace(job_of(db, tuple(row)), lease_version=version)
    if not found:
        return job
    said = JobError(ERROR_TYPE, set_aside_reason("; ".join(found)))
    return msgspec.structs.replace(job, error=said)


def _read(guarded_row: tuple[Any, ...]) -> tuple[list[Any], list[str]]:
    """The row as `job_of` takes it, and what had to be left out of it."""
    row: list[Any] = []
    found: list[str] = []
    is_status_lost = False
    for column, value in zip(_ALL, guarded_row, strict=True):
        try:
            row.append(_value(column, value))
        except UNREADABLE as error:
            row.append(column.instead)
            found.append(problem_of(error))
            is_status_lost = is_status_lost or column.name == "status"
    if is_status_lost and row[_NAMES["finished_at"]] is not None:
        row[_NAMES["status"]] = STATUS_CODE[Status.DEAD]
    return row[: len(_COLUMNS)], found


def _value(column: JobColumn, fetched: Any) -> Any:
    value = value_of(column.name, column.kind, fetched)
    match column.name:
        case "retry" if value is not None:
            retry_of(value)
        case "metadata" if value is not None:
            metadata_of(value)
        case "progress" if value is not None:
            msgspec.json.decode(value)
        case "priority" if not 0 <= value <= 100:
            raise ValueError(f"priority is {value}")
        case "status" if value not in STATUS_OF:
            raise ValueError(f"unknown status {value}")
        case "the dependency policy" if value is not None and value not in POLICY_OF:
            raise ValueError(f"unknown dependency policy {value}")
    return value


def job_of(db: apsw.Connection, row: tuple[Any, ...]) -> Job:
    """The snapshot that a row of JOB tells."""
    types = tuple(map(type, row))
    if types not in _known_types:
        _check_types(types)
    (seq, job_id, queue, task, priority, created_at, max_retries, allowance, timeout_seconds,
     lease_seconds, deadline, start_by, result_ttl_seconds, retry, metadata, key, parent_id, codec,
     payload, status, version, attempts_spent, run_at, worker, acquired_at, expires_at,
     heartbeat_at, cancel_reason, finished_at, started_at, result, result_codec, reason, since,
     progress, policy, base, limit_key, failure_count, first_failed_at,
     last_failed_at) = row  # fmt: skip
    for name, seconds in (
        ("timeout_seconds", timeout_seconds),
        ("lease_seconds", lease_seconds),
        ("result_ttl_seconds", result_ttl_seconds),
    ):
        if seconds is not None:
            seconds_of(name, seconds)
    depends_on: tuple[str, ...] = ()
    if policy is not None:
        depends_on = tuple(str(needed) for (needed,) in db.execute(DEPENDS_ON, (seq,)))
    error = None
    if version:
        # Only a job that was leased before can have failed before.
        failed = db.execute(_LAST_ERROR, (seq,)).fetchone()
        error = None if failed is None else JobError(*failed)
        if started_at is None:
            last = db.execute(_LAST_ATTEMPT, (seq,)).fetchone()
            started_at = acquired_at or (None if last is None else last[0])
    return Job(
        id=job_id,
        queue=queue,
        task=task,
        status=STATUS_OF[status],
        priority=priority,
        payload_data=payload,
        codec=codec or "json",
        created_at=from_micros(created_at),
        updated_at=from_micros(max(finished_at or since or heartbeat_at or run_at, created_at)),
        run_at=from_micros(run_at),
        deadline=moment(deadline),
        started_at=moment(started_at),
        completed_at=moment(finished_at),
        attempts=attempts_spent,
        max_retries=max_retries,
        allowance=allowance,
        retry=None if retry is None else retry_of(retry),
        timeout_seconds=timeout_seconds,
        lease_seconds=lease_seconds,
        start_by=moment(start_by),
        result_ttl_seconds=result_ttl_seconds,
        worker=worker,
        lease_version=version,
        lease_acquired_at=moment(acquired_at),
        lease_expires_at=moment(expires_at),
        heartbeat_at=moment(heartbeat_at),
        cancel_requested=cancel_reason,
        result_data=result,
        result_codec=result_codec or "json",
        error=error,
        failure_count=failure_count,
        first_failed_at=moment(first_failed_at),
        last_failed_at=moment(last_failed_at),
        reason=reason,
        progress=None if progress is None else msgspec.json.decode(progress),
        metadata=None if metadata is None else metadata_of(metadata),
        idempotency_key=key,
        parent_id=parent_id,
        depends_on=depends_on,
        on_dependency_failure=POLICY_OF[policy or 0],
        inherited_priority=base,
        limit_key=limit_key,
    )


def _check_types(types: tuple[type, ...]) -> None:
    """Raise unless each column has one of its types; rows of the same types then pass at once."""
    for column, found in zip(_COLUMNS, types, strict=True):
        if found not in PYTHON_TYPES[column.kind]:
            raise TypeError(f"{column.name} is of another type: {found.__name__}")
    if len(_known_types) < KNOWN_TYPES_MAX:
        _known_types.add(types)

"""Prune: one bounded write of a clean-up, phase by phase.

What is old is looked for by a reader, which holds up nobody; the write that follows looks at what
was found once more (its guard is said with each statement), and writes down where to go on.

Finding old completed jobs needs no index on the time of their end, which every completion would pay
for: job numbers grow with time, and no job ends before it was submitted. So the first job submitted
after the cutoff, found by bisection, bounds the part of `finished` that can hold anything old, and
only that part is walked, in the order of numbers, in short reads. What is passed over there are
dead letters and jobs that waited or ran for as long as jobs are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from leasehold.core.retention import PruneReport
from leasehold.core.status import Status
from leasehold.env import from_micros
from leasehold.stores.sqlite.disk import vacuum
from leasehold.stores.sqlite.keeping import archive, prune_lanes
from leasehold.stores.sqlite.keeping.cleanup import Memory
from leasehold.stores.sqlite.keeping.erase import RECORDS_OF_A_JOB
from leasehold.stores.sqlite.keeping.prune_call import Call, Found
from leasehold.stores.sqlite.schema.codes import STATUS_CODE, STATUS_OF
from leasehold.stores.sqlite.writing.step import Step

# Holds for a job in `finished` that an unfinished one depends on: it is spared.
STILL_NEEDED: Final = """
    EXISTS (SELECT 1 FROM dependency AS link WHERE link.needs = finished.seq
            AND NOT EXISTS (SELECT 1 FROM finished AS ended WHERE ended.seq = link.seq))
"""

WALKED_AT_ONCE: Final = 20_000
"""Rows per read, so that no read keeps the write-ahead log from being checkpointed for long."""
WALKED_PER_CALL: Final = 10 * WALKED_AT_ONCE

# Cancelled and dead jobs stand in an index by status and time. `status <> 5` is said again because
# SQLite uses a partial index only for its very words.
IN_TROUBLE: Final = f"""
    SELECT finished.seq, finished_at, job.lane FROM finished CROSS JOIN job USING (seq)
    WHERE status = ? AND status <> 5 AND (finished_at, seq) > (?, ?) AND finished_at <= ?
        AND NOT ({STILL_NEEDED})
    ORDER BY finished_at, seq LIMIT ?
"""  # noqa: S608  # our own words
# Each completed job has at least three events: as many rows as a third of the bound are enough.
HISTORY_BOUND: Final = """
    SELECT max(seq) FROM (
        SELECT seq, sum(events) OVER (ORDER BY seq DESC) AS total FROM (
            SELECT seq, events FROM finished WHERE status = 5 ORDER BY seq DESC LIMIT ?1 / 3 + 1))
    WHERE total > ?1
"""
# Guard of every pruning: the job is still in `finished`, and nobody needs it. Whether status and
# end are old enough for its queue is asked of what this finds.
STILL_OLD: Final = f"""
    SELECT finished.seq, job.lane, finished.status, finished.version,
           job.idempotency_key IS NOT NULL, finished.finished_at
    FROM json_each(:seqs) AS doomed
    CROSS JOIN finished ON finished.seq = doomed.value
    JOIN job ON job.seq = finished.seq
    WHERE NOT ({STILL_NEEDED})
"""  # noqa: S608  # our own words
# Guard of both: the key was last used for this very job.
KEEP_KEYS: Final = """
    INSERT INTO pruned_key
    SELECT job.seq, job.id, finished.status, idempotency.queue, idempotency.key,
           idempotency.expires_at
    FROM json_each(:seqs) AS doomed
    CROSS JOIN job ON job.seq = doomed.value
    JOIN lane ON lane.id = job.lane
    JOIN finished ON finished.seq = job.seq
    JOIN idempotency ON idempotency.queue = lane.queue AND idempotency.key = job.idempotency_key
        AND idempotency.seq = job.seq
    WHERE idempotency.expires_at > :now
"""
DROP_KEYS: Final = """
    DELETE FROM idempotency WHERE expires_at <= :now AND (queue, key, seq) IN (
        SELECT lane.queue, job.idempotency_key, job.seq
        FROM json_each(:seqs) AS doomed
        CROSS JOIN job ON job.seq = doomed.value JOIN lane ON lane.id = job.lane)
"""
OLD_KEYS: Final = "SELECT seq FROM pruned_key WHERE expires_at <= ? LIMIT ?"
DROP_OLD_KEYS: Final = """
    DELETE FROM idempotency WHERE (queue, key, seq) IN (
        SELECT queue, key, seq FROM pruned_key
        WHERE seq IN (SELECT value FROM json_each(?)))
"""
DELETE: Final = "DELETE FROM {} WHERE seq IN (SELECT value FROM json_each(?))"
DROP_RESULTS: Final = """
    UPDATE finished SET result = NULL, result_codec = NULL
    WHERE status = 5 AND seq IN (SELECT value FROM json_each(?))
"""


class Phase(NamedTuple):
    """One kind of thing that is cleaned: how to look for it, and how to take it."""

    find: Callable[[apsw.Connection, Call, Memory], Found]
    take: Callable[[Step, Call, Found], PruneReport]


# -- jobs --------------------------------------------------------------------------------------


def _find_in_trouble(status: Status) -> Callable[[apsw.Connection, Call, Memory], Found]:
    """How cancelled or dead jobs are found: in the order of their ends.

    What queues keep for longer than others is passed over, once per clean-up.
    """

    def find(db: apsw.Connection, call: Call, memory: Memory) -> Found:
        latest = call.latest(status)
        if latest is None:
            return Found([])
        seqs: list[int] = []
        values = (STATUS_CODE[status], memory.major, memory.position, latest, WALKED_AT_ONCE)
        # Read no further than need be: the next call goes on at the end it stopped at.
        rows: Any = db.execute(IN_TROUBLE, values)
        for walked, (seq, ended_at, lane) in enumerate(rows, start=1):
            cutoff = call.cutoffs_of(lane).get(status)
            if cutoff is not None and ended_at <= cutoff:
                seqs.append(seq)
            if len(seqs) == call.limit or walked == WALKED_AT_ONCE:
                return Found(seqs, seq, over=False, major=ended_at)
        return Found(seqs)

    return find


def _find_completed(db: apsw.Connection, call: Call, memory: Memory) -> Found:
    if call.own:
        return prune_lanes.find_completed(db, call, memory)
    cutoff = call.common.get(Status.COMPLETED)
    if cutoff is None:
        return Found([])
    bound = memory.bound or prune_lanes.first_submitted_after(db, cutoff)
    rows = "seq, status, finished_at FROM finished"
    return _walk(db, call, memory, bound, rows, "status = 5 AND finished_at <= ?", (cutoff,))


def _take_jobs(step: Step, call: Call, found: Found) -> PruneReport:
    """Archive and delete, in this one write. Lease versions of these ids are not granted again."""
    # Under the rules that hold in this write: a queue may keep its jobs for longer since.
    call = call.under(step.db, step.rules)
    candidates: Any = step.execute(STILL_OLD, {"seqs": _list(found.seqs)})
    rows = [row for row in candidates if _is_old(call, lane=row[1], code=row[2], ended_at=row[5])]
    if not rows:
        return PruneReport()
    seqs = _list([row[0] for row in rows])
    archived = 0
    if call.policy.archive_seconds != 0:
        day = step.now // (24 * 3600 * 1_000_000)
        step.execute(archive.ARCHIVE, {"day": day, "now": step.now, "seqs": seqs})
        archived = len(rows)
    if any(row[4] for row in rows):
        step.execute(KEEP_KEYS, {"now": step.now, "seqs": seqs})
        step.execute(DROP_KEYS, {"now": step.now, "seqs": seqs})
    for table in ("finished", *RECORDS_OF_A_JOB):
        step.execute(DELETE.format(table), (seqs,))
    step.version_floor = max(step.version_floor, *(row[3] for row in rows))
    pruned: Counter[Status] = Counter()
    for (lane, code), jobs in Counter((row[1], row[2]) for row in rows).items():
        status = STATUS_OF[code]
        step.count(lane, status.value, -jobs)
        step.count(lane, "total_cleaned", jobs)
        pruned[status] += jobs
    return PruneReport(
        completed=pruned[Status.COMPLETED],
        cancelled=pruned[Status.CANCELLED],
        dead=pruned[Status.DEAD],
        archived=archived,
    )


def _is_old(call: Call, *, lane: int, code: int, ended_at: int) -> bool:
    cutoff = call.cutoffs_of(lane).get(STATUS_OF[code])
    return cutoff is not None and ended_at <= cutoff


# -- results and histories of jobs that stay ---------------------------------------------------


def _find_results(db: apsw.Connection, call: Call, memory: Memory) -> Found:
    row: Any = db.execute(prune_lanes.NEXT_SEQ).fetchone()
    over = """EXISTS (
        SELECT 1 FROM finished WHERE finished.seq = walked.seq AND result IS NOT NULL
            AND finished_at + result_ttl_seconds * 1000000 <= ?)"""
    rows = "seq, result_ttl_seconds FROM job WHERE result_ttl_seconds IS NOT NULL"
    return _walk(db, call, memory, memory.bound or row[0], rows, over, (call.now,))


def _take_results(step: Step, _: Call, found: Found) -> PruneReport:
    step.execute(DROP_RESULTS, (_list(found.seqs),))
    return PruneReport(results_dropped=step.db.changes())


def _find_histories(db: apsw.Connection, call: Call, memory: Memory) -> Found:
    events_max = call.policy.history_events_max
    if events_max is None:
        return Found([])
    bound = memory.bound
    if bound is None:
        row: Any = db.execute(HISTORY_BOUND, (events_max,)).fetchone()
        bound = 0 if row[0] is None else row[0] + 1
    # Dead and cancelled jobs keep theirs as long as they are here: they may be replayed. A
    # completed one has at least one attempt record until its history is dropped.
    completed = "EXISTS (SELECT 1 FROM finished WHERE finished.seq = walked.seq AND status = 5)"
    return _walk(db, call, memory, bound, "seq FROM attempt", completed, ())


def _take_histories(step: Step, _: Call, found: Found) -> PruneReport:
    for table in ("attempt", "event"):
        step.execute(DELETE.format(table), (_list(found.seqs),))
    return PruneReport(histories_dropped=len(found.seqs))


# -- the archive, and other records ------------------------------------------------------------


def _find_archived(db: apsw.Connection, call: Call, _: Memory) -> Found:
    first = call.policy.oldest_day(from_micros(call.now))
    row: Any = db.execute(archive.OLDEST).fetchone()
    return Found([], over=first is None or row is None or row[0] >= first)


def _take_archived(step: Step, call: Call, _: Found) -> PruneReport:
    first = call.policy.oldest_day(from_micros(call.now))
    assert first is not None
    step.execute(archive.DROP, (first, call.limit))
    return PruneReport(archive_dropped=step.db.changes(), taken=step.db.changes())


def _find_keys(db: apsw.Connection, call: Call, _: Memory) -> Found:
    seqs = [seq for (seq,) in db.execute(OLD_KEYS, (call.now, call.limit))]
    return Found(seqs, over=len(seqs) < call.limit)


def _take_keys(step: Step, _: Call, found: Found) -> PruneReport:
    step.execute(DROP_OLD_KEYS, (_list(found.seqs),))
    step.execute(DELETE.format("pruned_key"), (_list(found.seqs),))
    return PruneReport()


# -- room --------------------------------------------------------------------------------------


def _find_room(db: apsw.Connection, call: Call, _: Memory) -> Found:
    return Found([], over=vacuum.to_release(db, everything=call.scope.emergency) == 0)


def _take_room(step: Step, call: Call, _: Found) -> PruneReport:
    pages = min(call.limit, vacuum.to_release(step.db, everything=call.scope.emergency))
    vacuum.release(step.db, pages)
    return PruneReport(taken=pages)


PHASES: Final = (
    Phase(_find_in_trouble(Status.CANCELLED), _take_jobs),
    Phase(_find_in_trouble(Status.DEAD), _take_jobs),
    Phase(_find_completed, _take_jobs),
    Phase(_find_results, _take_results),
    Phase(_find_histories, _take_histories),
    Phase(_find_archived, _take_archived),
    Phase(_find_keys, _take_keys),
    Phase(_find_room, _take_room),
)


def _walk(
    db: apsw.Connection,
    call: Call,
    memory: Memory,
    bound: int,
    rows: str,
    condition: str,
    values: tuple[Any, ...],
) -> Found:
    """The next jobs below a number for which a condition holds, by reads of bounded length."""
    where = "AND" if " WHERE " in rows else "WHERE"
    chunk = f"SELECT {rows} {where} seq > ? AND seq < ? ORDER BY seq LIMIT {WALKED_AT_ONCE}"
    seqs: list[int] = []
    position = memory.position
    for _ in range(0, WALKED_PER_CALL, WALKED_AT_ONCE):
        span = (position, bound)
        wanted = call.limit - len(seqs)
        fitting = f"SELECT DISTINCT seq FROM ({chunk}) AS walked WHERE {condition} LIMIT ?"  # noqa: S608
        seqs += [seq for (seq,) in db.execute(fitting, (*span, *values, wanted))]
        if len(seqs) == call.limit:
            return Found(seqs, seqs[-1], bound, over=False)
        last: Any = db.execute(f"SELECT count(*), max(seq) FROM ({chunk})", span).fetchone()  # noqa: S608
        if last[0] < WALKED_AT_ONCE:
            return Found(seqs)
        position = last[1]
    return Found(seqs, position, bound, over=False)


def _list(seqs: list[int]) -> str:
    return msgspec.json.encode(seqs).decode()

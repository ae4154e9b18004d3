"""Finding old completed jobs lane by lane, where queues keep theirs for a time of their own.

Going through all ended jobs would pass over those that one queue keeps for years, day by day. So a
store in which any queue has a retention of its own has an index of its jobs by lane. It is made
with the first such rule: whoever uses none does not pay for it with every submit.
"""

from __future__ import annotations

from typing import Any, Final

import apsw

from leasehold.core.status import Status
from leasehold.stores.sqlite.keeping.cleanup import Memory
from leasehold.stores.sqlite.keeping.prune_call import Call, Found

MAKE_INDEX: Final = "CREATE INDEX IF NOT EXISTS job_by_lane ON job (lane)"

LANES: Final = "SELECT id FROM lane WHERE id >= ? ORDER BY id"
# Jobs of the lane that are not completed are passed over. `end` is NULL for them.
IN_LANE: Final = """
    SELECT job.seq, finished.finished_at
    FROM job INDEXED BY job_by_lane
    LEFT JOIN finished ON finished.seq = job.seq AND finished.status = 5
    WHERE job.lane = ? AND job.seq > ? AND job.seq < ? ORDER BY job.seq LIMIT ?
"""
SUBMITTED: Final = "SELECT seq, created_at FROM job WHERE seq >= ? ORDER BY seq LIMIT 1"
NEXT_SEQ: Final = "SELECT next_seq FROM store_state"

WALKED_PER_CALL: Final = 20_000
"""Rows per call, so that no read keeps the write-ahead log from being checkpointed for long."""


def find_completed(db: apsw.Connection, call: Call, memory: Memory) -> Found:
    """The next completed jobs that are old, from the lane and the number where it stands."""
    seqs: list[int] = []
    bounds: dict[int, int] = {}
    left = WALKED_PER_CALL
    lanes: list[Any] = db.execute(LANES, (memory.major,)).fetchall()
    for (lane,) in lanes:
        cutoff = call.cutoffs_of(lane).get(Status.COMPLETED)
        if cutoff is None:
            continue
        if cutoff not in bounds:
            bounds[cutoff] = first_submitted_after(db, cutoff)
        position = memory.position if lane == memory.major else 0
        rows: Any = db.execute(IN_LANE, (lane, position, bounds[cutoff], left))
        for seq, ended_at in rows:
            left -= 1
            if ended_at is not None and ended_at <= cutoff:
                seqs.append(seq)
            if len(seqs) == call.limit or not left:
                return Found(seqs, seq, over=False, major=lane)
    return Found(seqs)


def first_submitted_after(db: apsw.Connection, cutoff: int) -> int:
    """The number of the first job submitted after the cutoff; above all of them if there is none.

    By bisection: the store's clock never steps back, so numbers and times grow together.
    """
    row: Any = db.execute(NEXT_SEQ).fetchone()
    low, high = 1, int(row[0])
    while low < high:
        middle = (low + high) // 2
        found: Any = db.execute(SUBMITTED, (middle,)).fetchone()
        if found is None or found[0] >= high or found[1] > cutoff:
            high = middle
        else:
            low = found[0] + 1
    return high

"""What must always hold of the accounts of keys, seen from outside the code that keeps them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import apsw

from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.rules.key_accounts import NOTHING
from leasehold.core.rules.starting import key_starts
from leasehold.stores.sqlite.rules.known import load
from leasehold.stores.sqlite.submitting.gate import BucketBook

_RUNNING: Final = """
    SELECT lane.queue, limit_key, job.lane, count(*)
    FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane
    WHERE limit_key IS NOT NULL GROUP BY job.lane, limit_key
"""
_ACCOUNTS: Final = "SELECT id, queue, key, lane, running FROM key_lane"
_PENDING: Final = """
    SELECT job.id, lane.queue, limit_key, job.lane, place.key_lane, place.lane,
           ready.tier, ready.turn, ready.seq
    FROM ready JOIN job USING (seq) JOIN lane ON lane.id = job.lane
        LEFT JOIN place ON place.seq = job.seq
"""
_RESTING: Final = "SELECT queue, key FROM resting"
# When the last write happened: what is shown was right then.
_CLOCK: Final = "SELECT clock FROM store_state"
_UNSETTLED: Final = """
    SELECT queue FROM rescoring JOIN lane ON lane.id = rescoring.lane
    UNION SELECT queue FROM rescoring JOIN key_lane ON key_lane.id = -rescoring.lane
"""


def problems(db: apsw.Connection) -> Iterator[str]:
    """Whatever would let too many jobs of a key run, or keep one from running for ever."""
    limits = load(db).key_limits
    found = {
        (queue, key, lane): n for queue, key, lane, n in db.execute(_RUNNING) if queue in limits
    }
    accounts: dict[int, tuple[str, str, int]] = {}
    running: defaultdict[tuple[str, str], int] = defaultdict(int)
    for number, queue, key, lane, count in db.execute(_ACCOUNTS):
        accounts[number] = (queue, key, lane)
        running[queue, key] += count
        n = found.pop((queue, key, lane), 0)
        # Without a limit nothing is counted: what is left of an earlier one does not matter.
        if n != count and queue in limits:
            yield f"queue {queue!r}, key {key!r}: {count} jobs are counted as running, not {n}"
    for queue, key, _ in found:
        yield f"queue {queue!r}, key {key!r}: jobs run that are not counted"
    if limits or accounts:
        yield from _wrong_places(db, limits, accounts, running)


def _wrong_places(
    db: apsw.Connection,
    limits: Mapping[str, KeyLimits],
    accounts: Mapping[int, tuple[str, str, int]],
    running: Mapping[tuple[str, str], int],
) -> Iterator[str]:
    unsettled = {queue for (queue,) in db.execute(_UNSETTLED)}
    shown: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    parked: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    used = set()
    for job_id, queue, key, lane, account, where, *place in db.execute(_PENDING):
        tier, turn, seq = place
        if account is None:
            if key is not None and queue in limits and queue not in unsettled:
                yield f"job {job_id} is not counted for its key {key!r}"
            continue
        used.add(account)
        if accounts.get(account) != (queue, key, lane) or where not in (None, -account):
            yield f"job {job_id} is counted for another key than its own"
        elif queue not in unsettled:
            (shown if where is None else parked)[account, tier].append((turn, seq))
            if queue not in limits:
                yield f"job {job_id} is counted for key {key!r}, which nothing limits"
    resting = set(db.execute(_RESTING))
    for (account, tier), waiting in parked.items():
        queue, key, _ = accounts[account]
        if (queue, key) not in resting:
            where = f"queue {queue!r}, key {key!r}"
            stands = _stands(db, queue, key, running[queue, key])
            known = limits.get(queue, NOTHING)
            yield from _parked_wrongly(where, known, stands, waiting, shown[account, tier])
    for number in accounts.keys() - used:
        queue, key, _ = accounts[number]
        if queue not in unsettled and not (queue in limits and running[queue, key]):
            yield f"queue {queue!r}, key {key!r}: an account is kept of which there is nothing"


def _parked_wrongly(
    where: str,
    limits: KeyLimits,
    stands: tuple[int, int, int],
    waiting: list[tuple[int, int]],
    shown: list[tuple[int, int]],
) -> Iterator[str]:
    if limits.next_at(*stands) is not None:
        yield f"{where}: nobody knows when its next job may start"
    free = limits.to_show(*stands)
    best = sorted(shown)[:free]
    if len(best) < free or (best and min(waiting) < best[-1]):
        yield f"{where}: a job is parked that may be leased"


def _stands(db: apsw.Connection, queue: str, key: str, running: int) -> tuple[int, int, int]:
    """What its limits ask of a key: how many run, when its bucket is full, and the time."""
    ((now,),) = db.execute(_CLOCK)
    return running, BucketBook(db, now).full_at(queue, key_starts(key)), now

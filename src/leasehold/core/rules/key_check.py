"""The invariants of the accounts of keys, checked independently of the code that keeps them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from leasehold.core.model.key_limits import KeyLimits, Rank
from leasehold.core.rules.key_accounts import NOTHING, Account, Key, KeyInLane


class PendingJob(NamedTuple):
    """A pending job, the account for which it is counted, and the lane in which it is parked."""

    id: str
    queue: str
    key: str | None
    lane: int
    account: int | None
    where: int | None
    tier: int
    turn: int
    seq: int


class KeyFacts(NamedTuple):
    """Everything that a store of tables holds about keys."""

    limits: Mapping[str, KeyLimits]
    running: Mapping[KeyInLane, int]
    """How many jobs of each key run, counted one by one."""
    accounts: Mapping[Account, int]
    """How many jobs each account counts as running."""
    unsettled: Collection[str]
    """The queues with an unfinished pass (`core.rules.rebalancing`)."""
    resting: Collection[Key]
    pending: Callable[[], Iterable[PendingJob]]
    """All pending jobs; read only if any keys are limited."""
    full_at: Callable[[str, str], int]
    """When the bucket of a key in a queue is full."""
    now: int


def problems(facts: KeyFacts) -> Iterator[str]:
    """Every fault that would let too many jobs of a key run, or keep one waiting for ever."""
    limits, found = facts.limits, dict(facts.running)
    for account, count in facts.accounts.items():
        queue, key = account.queue, account.key
        n = found.pop((queue, key, account.lane), 0)
        # Without a limit nothing is counted: leftovers of an earlier limit do not matter.
        if n != count and queue in limits:
            yield f"queue {queue!r}, key {key!r}: {count} jobs are counted as running, not {n}"
    for queue, key, _ in found:
        if queue in limits:
            yield f"queue {queue!r}, key {key!r}: jobs run that are not counted"
    if limits or facts.accounts:
        yield from _wrong_places(facts)


def _wrong_places(facts: KeyFacts) -> Iterator[str]:
    limits, unsettled = facts.limits, facts.unsettled
    running: defaultdict[Key, int] = defaultdict(int)
    for account, count in facts.accounts.items():
        running[account.queue, account.key] += count
    accounts = {account.id: account for account in facts.accounts}
    shown: defaultdict[tuple[int, int], list[Rank]] = defaultdict(list)
    parked: defaultdict[tuple[int, int], list[Rank]] = defaultdict(list)
    used = set()
    for job in facts.pending():
        if job.account is None:
            if job.key is not None and job.queue in limits and job.queue not in unsettled:
                yield f"job {job.id} is not counted for its key {job.key!r}"
            continue
        used.add(job.account)
        found = accounts.get(job.account)
        own = (job.account, job.queue, job.key, job.lane)
        if found != own or job.where not in (None, -job.account):
            yield f"job {job.id} is counted for another key than its own"
        elif job.queue not in unsettled:
            standing = shown if job.where is None else parked
            standing[job.account, job.tier].append((job.turn, job.seq))
            if job.queue not in limits:
                yield f"job {job.id} is counted for key {job.key!r}, which nothing limits"
    for (number, tier), waiting in parked.items():
        _, queue, key, _ = accounts[number]
        if (queue, key) not in facts.resting:
            where = f"queue {queue!r}, key {key!r}"
            stands = running[queue, key], facts.full_at(queue, key), facts.now
            known = limits.get(queue, NOTHING)
            yield from _parked_wrongly(where, known, stands, waiting, shown[number, tier])
    for number in accounts.keys() - used:
        _, queue, key, _ = accounts[number]
        if queue not in unsettled and not (queue in limits and running[queue, key]):
            yield f"queue {queue!r}, key {key!r}: an account is kept of which there is nothing"


def _parked_wrongly(
    where: str,
    limits: KeyLimits,
    stands: tuple[int, int, int],
    waiting: list[Rank],
    shown: list[Rank],
) -> Iterator[str]:
    if limits.next_at(*stands) is not None:
        yield f"{where}: it is not known when its next job may start"
    free = limits.to_show(*stands)
    best = sorted(shown)[:free]
    if len(best) < free or (best and min(waiting) < best[-1]):
        yield f"{where}: a job is parked that may be leased"

"""Limits per key in a store of tables: what `core.rules.parking` is told of jobs by number.

Such a store has one row for each account of a key, with how many of its jobs run, and finds of a
job's number for which account it is pending. Guard: what runs of a key is counted in the write that
leases a job or ends its lease; a lease takes no more than that leaves free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from leasehold.core.model.budget import RESTED_AT_ONCE
from leasehold.core.model.key_limits import KeyLimits, Rank
from leasehold.core.rules import parking
from leasehold.core.rules.placing import RowKey

Key = tuple[str, str]
"""Queue and key."""
KeyInLane = tuple[str, str, int]
"""Queue, key and lane."""
NOTHING: Final = KeyLimits(0, None)
"""Where nothing limits keys, jobs that are still parked are let go by a pass, and not before."""

BEFORE_ALL_PARKED: Final = -(1 << 62)
"""Below every `parked_lane`."""


class Account(NamedTuple):
    """A key in one lane."""

    id: int
    queue: str
    key: str
    lane: int

    @property
    def parked_lane(self) -> int:
        """The lane number under which its parked jobs stand."""
        return -self.id


class Counted(NamedTuple):
    """A pending job that is counted for its key, and the tier in which it was found."""

    seq: int
    tier: int
    account: Account


class KeyShelf(parking.ParkingShelf[Key, Account, Rank], Protocol):
    """The shelf of a store of tables, in one write."""

    @property
    def limits(self) -> Mapping[str, KeyLimits]:
        """The queues that limit keys."""

    @property
    def paced(self) -> Collection[str]:
        """The queues whose jobs have start rates."""

    @property
    def newly_shown(self) -> set[int]:
        """Jobs that leases see now because their key has a slot for them."""

    def account(self, queue: str, key: str, lane: int, /) -> Account:
        """The account of a key in a lane, opened if need be."""

    def keys_of_uncounted(self, seqs: Sequence[int], /) -> Mapping[int, KeyInLane]:
        """The keys of pending jobs that have one and are not counted for it yet."""

    def keys_of(self, seqs: Iterable[int], /) -> Iterable[KeyInLane]:
        """The keys of those jobs that have one."""

    def tiers_of(self, seqs: Sequence[int], /) -> Mapping[int, int]:
        """In which tiers counted jobs stand."""

    def count_running(self, jobs: Sequence[tuple[str, str, int, int]], /) -> None:
        """So many more jobs run, by queue, key and lane."""

    def take_rested(self, queues: Sequence[str], /) -> Sequence[Key]:
        """The keys of these queues whose moment has come, up to RESTED_AT_ONCE; each is told
        once.
        """


def enter(shelf: KeyShelf, jobs: Sequence[RowKey]) -> None:
    """Jobs have entered their lanes: park those beyond the limit."""
    keys = shelf.keys_of_uncounted([seq for *_, seq in jobs])
    known: dict[KeyInLane, Account] = {}
    for _, tier, turn, seq in jobs:
        key = keys.get(seq)
        if key is not None and key[0] in shelf.limits:
            if key not in known:
                known[key] = shelf.account(*key)
            parking.enter(shelf, known[key], tier, (turn, seq))


def left(shelf: KeyShelf, jobs: Iterable[Counted]) -> None:
    """Jobs are not pending any more, and have not been leased."""
    for job in jobs:
        parking.left(shelf, job.account, job.tier)


def moved(shelf: KeyShelf, jobs: Collection[Counted]) -> None:
    """Jobs were placed anew: in the tiers that they left and came to, others may be the best."""
    tiers = shelf.tiers_of([job.seq for job in jobs])
    touched: dict[tuple[Account, int], None] = {}
    for job in jobs:
        touched[job.account, job.tier] = touched[job.account, tiers[job.seq]] = None
    for account, tier in touched:
        parking.fill(shelf, account, tier)


def granted(shelf: KeyShelf, jobs: Mapping[KeyInLane, int]) -> None:
    """So many jobs were leased, by queue, key and lane."""
    shelf.count_running([(*key, count) for key, count in jobs.items() if key[0] in shelf.limits])
    if shelf.paced:
        keys = {(queue, key): None for queue, key, _ in jobs if queue in shelf.paced}
        parking.look_again(shelf, keys)


def freed(shelf: KeyShelf, seqs: Iterable[int]) -> None:
    """The leases of these jobs have ended: others of their keys may be leased."""
    ended = Counter(key for key in shelf.keys_of(seqs) if key[0] in shelf.limits)
    keys: Counter[Key] = Counter()
    for (queue, key, _), count in ended.items():
        keys[queue, key] += count
    shelf.count_running([(*key, -count) for key, count in ended.items()])
    parking.freed(shelf, keys)


def turn_away(shelf: KeyShelf, jobs: Iterable[tuple[str, str, RowKey]]) -> None:
    """Park jobs that a lease has met although their keys are full: queue, key, where they stand."""
    for queue, key, (lane, tier, turn, seq) in jobs:
        parking.turn_away(shelf, shelf.account(queue, key, lane), tier, (turn, seq))


def wake_rested(shelf: KeyShelf, queues: Sequence[str]) -> bool:
    """Show jobs of up to so many keys that have rested; answers whether there may be more."""
    rested = shelf.take_rested(queues) if queues else ()
    if rested:
        # A waiting worker knows this moment from its last lease, and need not be woken.
        news = set(shelf.newly_shown)
        parking.look_again(shelf, rested)
        shelf.newly_shown.intersection_update(news)
    return len(rested) == RESTED_AT_ONCE

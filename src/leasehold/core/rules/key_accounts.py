"""Limits per key in a store of tables, which feeds `core.rules.parking` with jobs by number.

Such a store has one row for each account of a key, with the number of its running jobs, and finds
the account of a pending job by the job's number. Guard: the running jobs of a key are counted in
the write that leases a job or ends its lease, and a lease takes no more than that count leaves
free.
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
"""Without limits per key, only a pass unparks jobs that are still parked."""

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
        """The lane number under which its parked jobs are stored."""
        return -self.id


class Counted(NamedTuple):
    """A pending job counted for its key, and the tier in which it was found."""

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
        """Jobs that leases can now see because their key has a free slot."""

    def account(self, queue: str, key: str, lane: int, /) -> Account:
        """The account of a key in a lane, opened if needed."""

    def keys_of_uncounted(self, seqs: Sequence[int], /) -> Mapping[int, KeyInLane]:
        """The keys of pending jobs that have a key and are not yet counted for it."""

    def keys_of(self, seqs: Iterable[int], /) -> Iterable[KeyInLane]:
        """The keys of the jobs that have one."""

    def tiers_of(self, seqs: Sequence[int], /) -> Mapping[int, int]:
        """The tiers of counted jobs."""

    def count_running(self, jobs: Sequence[tuple[str, str, int, int]], /) -> None:
        """Add to the number of running jobs, by queue, key and lane."""

    def take_rested(self, queues: Sequence[str], /) -> Sequence[Key]:
        """The keys of these queues that may start jobs again, up to RESTED_AT_ONCE; each is
        returned once.
        """


def enter(shelf: KeyShelf, jobs: Sequence[RowKey]) -> None:
    """Handle jobs that have entered their lanes: park those beyond the limit."""
    keys = shelf.keys_of_uncounted([seq for *_, seq in jobs])
    known: dict[KeyInLane, Account] = {}
    for _, tier, turn, seq in jobs:
        key = keys.get(seq)
        if key is not None and key[0] in shelf.limits:
            if key not in known:
                known[key] = shelf.account(*key)
            parking.enter(shelf, known[key], tier, (turn, seq))


def left(shelf: KeyShelf, jobs: Iterable[Counted]) -> None:
    """Handle jobs that are no longer pending and were not leased."""
    for job in jobs:
        parking.left(shelf, job.account, job.tier)


def moved(shelf: KeyShelf, jobs: Collection[Counted]) -> None:
    """Handle jobs that moved: in their old and new tiers, other jobs may now be the best."""
    tiers = shelf.tiers_of([job.seq for job in jobs])
    touched: dict[tuple[Account, int], None] = {}
    for job in jobs:
        touched[job.account, job.tier] = touched[job.account, tiers[job.seq]] = None
    for account, tier in touched:
        parking.fill(shelf, account, tier)


def granted(shelf: KeyShelf, jobs: Mapping[KeyInLane, int]) -> None:
    """Handle leased jobs, counted by queue, key and lane."""
    shelf.count_running([(*key, count) for key, count in jobs.items() if key[0] in shelf.limits])
    if shelf.paced:
        keys = {(queue, key): None for queue, key, _ in jobs if queue in shelf.paced}
        parking.look_again(shelf, keys)


def freed(shelf: KeyShelf, seqs: Iterable[int]) -> None:
    """Handle the end of these jobs' leases: other jobs of their keys may be leased."""
    ended = Counter(key for key in shelf.keys_of(seqs) if key[0] in shelf.limits)
    keys: Counter[Key] = Counter()
    for (queue, key, _), count in ended.items():
        keys[queue, key] += count
    shelf.count_running([(*key, -count) for key, count in ended.items()])
    parking.freed(shelf, keys)


def turn_away(shelf: KeyShelf, jobs: Iterable[tuple[str, str, RowKey]]) -> None:
    """Park jobs that a lease has read although their keys are full: queue, key and place."""
    for queue, key, (lane, tier, turn, seq) in jobs:
        parking.turn_away(shelf, shelf.account(queue, key, lane), tier, (turn, seq))


def wake_rested(shelf: KeyShelf, queues: Sequence[str]) -> bool:
    """Show jobs of a bounded number of keys that may start again; returns whether there may be
    more.
    """
    rested = shelf.take_rested(queues) if queues else ()
    if rested:
        # A waiting worker knows this time from its last lease and need not be woken.
        news = set(shelf.newly_shown)
        parking.look_again(shelf, rested)
        shelf.newly_shown.intersection_update(news)
    return len(rested) == RESTED_AT_ONCE

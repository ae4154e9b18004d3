"""Limits per key: the algorithm that shows leases the best jobs of a key, and parks the others.

`core.model.key_limits` is the rule. A store keeps the pending jobs of limited keys on a *shelf*: by
account, which is one key in one lane (a queue and a task), and by tier (`core.model.priority`). A
lease sees shown jobs and never parked ones, however many are parked.

After every write, at least the best `free` jobs of each account and tier are shown. There may be
more, since a slot taken in one lane is taken from the others too: a lease that reads such a job
parks it (`core.rules.leasing`), so no lease reads it twice.

A key that has used up its starts *rests*: none of its jobs is shown until the time at which the
next may start. The store keeps that time for keys with parked jobs; a lease first looks again at
the keys whose time has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from leasehold.core.model.key_limits import is_shown

Account = TypeVar("Account")
Key_contra = TypeVar("Key_contra", contravariant=True)
Job = TypeVar("Job", bound=tuple[Any, ...])
"""A store's own handle of a pending job: its `Rank`, then any other fields. No two jobs have the
same number, so the smaller tuple is the better job.
"""

COUNTED_MAX: Final = 100
"""Up to how many free slots of a key the jobs shown for them are counted one by one."""


class ParkingShelf(Protocol[Key_contra, Account, Job]):
    """The pending jobs of limited keys."""

    shown_left: int
    """How many more parked jobs this write may show."""

    def free(self, account: Account, /) -> int:
        """How many jobs of the account's key should be shown (`KeyLimits.to_show`)."""

    def accounts_of(self, key: Key_contra, /) -> Sequence[Account]:
        """The accounts of a key, in any lanes."""

    def nth_shown(self, account: Account, tier: int, n: int, /) -> Job | None:
        """The n-th best of the shown jobs, counted from 1; None if there are fewer."""

    def first_parked(self, account: Account, tier: int, /) -> Job | None:
        """The best of the parked jobs."""

    def parked_tiers(self, account: Account, /) -> Iterable[int]:
        """The tiers that have parked jobs."""

    def take_in(self, account: Account, tier: int, job: Job, /, *, parked: bool) -> None:
        """Count a pending job for its key from now on, and show it or park it."""

    def show(self, account: Account, tier: int, job: Job, /) -> None:
        """Let leases see a parked job, and wake waiting workers."""

    def park(self, account: Account, tier: int, job: Job, /) -> None:
        """Hide a job from leases."""

    def tell_of_shown(self, account: Account, /) -> None:
        """Wake waiting workers if any jobs are shown."""

    def look_again_in_time(self, account: Account, /) -> None:
        """Jobs are parked and none may run: if only a start rate delays them, look again then."""

    def go_on_later(self, account: Account, /) -> None:
        """There is more to show than one write may: the next pass over the shelf continues."""

    def close_if_unused(self, account: Account, /) -> None:
        """The number of keys is unbounded, so forget an account that has become empty."""


def enter(
    shelf: ParkingShelf[Key_contra, Account, Job], account: Account, tier: int, job: Job
) -> None:
    """A job has become pending: show it or park it, or park the one that it displaces."""
    free = shelf.free(account)
    last = _last_shown(shelf, account, tier, free)
    if not is_shown(job, last, free) or (
        free > COUNTED_MAX and _is_behind_parked(shelf, account, tier, job)
    ):
        shelf.take_in(account, tier, job, parked=True)
        if not free:
            shelf.look_again_in_time(account)
        return
    shelf.take_in(account, tier, job, parked=False)
    if last is not None:
        shelf.park(account, tier, last)


def left(shelf: ParkingShelf[Key_contra, Account, Job], account: Account, tier: int) -> None:
    """A job is no longer pending: another one may take its place."""
    fill(shelf, account, tier)
    shelf.close_if_unused(account)


def turn_away(
    shelf: ParkingShelf[Key_contra, Account, Job], account: Account, tier: int, job: Job
) -> None:
    """A lease has read a job of a full key: park it."""
    shelf.take_in(account, tier, job, parked=True)
    shelf.look_again_in_time(account)


def look_again(shelf: ParkingShelf[Key_contra, Account, Job], keys: Iterable[Key_contra]) -> None:
    """Jobs of these keys have started, or may start now: show those that may, or wait for them."""
    for key in keys:
        for account in shelf.accounts_of(key):
            fill_all(shelf, account)


def freed(shelf: ParkingShelf[Key_contra, Account, Job], ended: Mapping[Key_contra, int]) -> None:
    """Leases of each key have ended and no longer count as running."""
    for key, count in ended.items():
        for account in shelf.accounts_of(key):
            fill_all(shelf, account)
            if 0 < shelf.free(account) <= count:
                # The key was full: its shown jobs could not be leased, and can be now.
                shelf.tell_of_shown(account)
            shelf.close_if_unused(account)


def fill_all(shelf: ParkingShelf[Key_contra, Account, Job], account: Account) -> None:
    """Show the jobs of a key that may be leased in one lane."""
    if shelf.free(account):
        for tier in shelf.parked_tiers(account):
            fill(shelf, account, tier)
    elif next(iter(shelf.parked_tiers(account)), None) is not None:
        shelf.look_again_in_time(account)


def fill(shelf: ParkingShelf[Key_contra, Account, Job], account: Account, tier: int) -> None:
    """Show parked jobs of a tier, best first, while they are among the best that may run."""
    free = shelf.free(account)
    while free and (first := shelf.first_parked(account, tier)) is not None:
        last = _last_shown(shelf, account, tier, free)
        if not is_shown(first, last, free):
            return
        if not shelf.shown_left:
            shelf.go_on_later(account)
            return
        shelf.shown_left -= 1
        shelf.show(account, tier, first)
        if last is not None:
            shelf.park(account, tier, last)


def _last_shown(
    shelf: ParkingShelf[Key_contra, Account, Job], account: Account, tier: int, free: int
) -> Job | None:
    """The last of the first `free` shown jobs; None if there are fewer, or too many to count.

    More may be shown than are free, so for a key that may run many jobs they are not counted.
    """
    return shelf.nth_shown(account, tier, free) if 0 < free <= COUNTED_MAX else None


def _is_behind_parked(
    shelf: ParkingShelf[Key_contra, Account, Job], account: Account, tier: int, job: Job
) -> bool:
    """Whether better jobs are parked, in cases where shown jobs are not counted."""
    first = shelf.first_parked(account, tier)
    return first is not None and first < job

"""Moving pending jobs to new places when time or changed rules of their queue require it.

A lease does this before it looks for jobs, and so does the sweep, a bounded number of jobs per
write. Guard: a job is moved from the place at which it was found in the same write.

A queue's limit per key may be set, changed or removed while jobs are pending and running. Running
jobs are counted at once, in the write that changes the limit, so the next lease obeys it. A *pass*
over each lane handles pending jobs: until it has reached them, leases read them and park the
excess. Parked jobs come first, since a job shown meanwhile would otherwise be missed: account after
account, then the lane itself, then its accounts again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from leasehold.core.model.budget import PLACED_AT_ONCE
from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.rules import key_accounts, parking
from leasehold.core.rules.key_accounts import Account, Counted, KeyShelf
from leasehold.core.rules.placing import Standing

BEFORE_ALL: Final = -1
"""A tier before the first job."""
BEYOND: Final = 9223372036854775807
"""A tier beyond the last job: a pass from there moves no jobs and only visits accounts."""


class Pass(NamedTuple):
    """The position of the pass over a lane, or over the parked jobs of an account."""

    lane: int
    tier: int
    turn: int
    seq: int


class Write(Protocol):
    """The state of the current write."""

    now: int
    next_crossing: int | None
    """When the next pending job has to move, as far as earlier writes know."""
    some_rescoring: bool
    """Whether any pass is unfinished."""
    shown_left: int


class PassBook(Protocol):
    """The passes of a store and the pending jobs they visit, inside one write."""

    @property
    def write(self) -> Write: ...

    @property
    def shelf(self) -> KeyShelf: ...

    def crossing(self, limit: int, /) -> Sequence[Standing]:
        """Up to `limit` jobs that belong in another tier by now, earliest first."""

    def next_jobs(self, limit: int, /) -> tuple[Pass, Sequence[Standing]] | None:
        """The next jobs of any pass, and its position; the pass continues after them, or ends if
        there are fewer than `limit`. Rows that moved forward are visited again (a no-op); none is
        skipped.
        """

    def begin_after(self, lane: int, key: str, tier: int, /) -> bool:
        """Begin the pass over a lane's next account (in the order of keys) at a tier, unless it has
        begun; returns whether there is such an account.
        """

    def begin_again(self, lane: int, /) -> None:
        """Begin a pass before all jobs, replacing one that exists."""

    def begin_in(self, queue: str, /) -> None:
        """Begin a pass over each non-empty lane of a queue, at its first account."""

    def look_again_in(self, queue: str, /) -> None:
        """Begin a pass beyond all jobs over the accounts of a queue, at the first of each lane."""

    def count_running_anew(self, queue: str, /) -> None:
        """Recount the running jobs of a queue by key, from the jobs themselves."""

    def queue_of(self, lane: int, /) -> str | None:
        """The queue of a lane, or of the lane number of an account's parked jobs."""

    def move(self, jobs: Sequence[Standing], /) -> None:
        """Move jobs of one lane to where they belong now."""

    def counted_among(self, seqs: Sequence[int], /) -> Mapping[int, Counted]:
        """The given jobs that are counted for their keys."""

    def count_no_more(self, job: Standing, account: Account, /) -> None:
        """Return a job to its lane, counted for no key; if it was parked, workers are woken."""

    def find(self, seq: int, /) -> Standing | None:
        """The present place of a job, if it is pending."""

    def account(self, number: int, /) -> Account | None: ...

    def close_unlimited(self, account: Account, /) -> None:
        """Forget an account without pending jobs; its running jobs no longer count."""


def rebalance(book: PassBook) -> bool:
    """Move a bounded number of jobs that need it; returns whether there may be more."""
    write = book.write
    left = PLACED_AT_ONCE
    if write.next_crossing is not None and write.next_crossing <= write.now:
        jobs = book.crossing(left)
        book.move(jobs)
        left -= len(jobs)
        if not left:
            return True
        write.next_crossing = None
    while write.some_rescoring and left > 0 and write.shown_left:
        left -= _go_on(book, left)
    return write.some_rescoring


def rescore(book: PassBook, queue: str) -> None:
    """The parameters of a queue's order have changed: its pending jobs have to be moved."""
    book.begin_in(queue)
    book.write.some_rescoring = True


def limits_changed(
    book: PassBook, queue: str, before: KeyLimits | None, after: KeyLimits | None
) -> None:
    """Apply new limits per key from now on; the jobs concerned are visited."""
    if before == after:
        return
    if before is not None and after is not None:
        book.look_again_in(queue)
        book.write.some_rescoring = True
        return
    if after is not None:
        # Accounts remain from an earlier limit only until the pass that closes them ends.
        book.count_running_anew(queue)
    rescore(book, queue)


def _go_on(book: PassBook, limit: int) -> int:
    """Continue with one lane; returns how many jobs were visited, at least one."""
    found = book.next_jobs(limit)
    if found is None:
        book.write.some_rescoring = False
        return 1
    begun, jobs = found
    limited = book.queue_of(begun.lane) in book.shelf.limits
    if not limited:
        jobs = _let_go(book, jobs)
    book.move(jobs)
    if limited:
        _take_in(book, jobs)
    if len(jobs) < limit:
        _looked_through(book, begun.lane, only_looking=begun.tier == BEYOND)
    return max(1, len(jobs))


def _let_go(book: PassBook, jobs: Sequence[Standing]) -> list[Standing]:
    """Put back jobs that are still counted although nothing limits them; returns their places."""
    known = book.counted_among([job.seq for job in jobs])
    for job in jobs:
        if job.seq in known:
            book.count_no_more(job, known[job.seq].account)
    homes = {seq: counted.account.lane for seq, counted in known.items()}
    return [job._replace(lane=homes.get(job.seq, job.lane)) for job in jobs]


def _take_in(book: PassBook, jobs: Sequence[Standing]) -> None:
    """Count jobs for their keys that are older than the limit, and park those beyond it."""
    for job in jobs:
        # Parking one job may have moved another, so look up where it stands now.
        now = book.find(job.seq) if job.lane > 0 else None
        if now is not None:
            key_accounts.enter(book.shelf, [now[:4]])


def _looked_through(book: PassBook, lane: int, *, only_looking: bool) -> None:
    """After the last job of a lane: show the jobs that may run, and drop unused accounts.

    An account is followed by the next one of its lane, in the order of keys. After the last account
    whose jobs were moved comes the lane itself, and after that its accounts are visited again.
    """
    if lane > 0:
        book.begin_after(lane, "", BEYOND)
        return
    account = book.account(-lane)
    if account is None:
        return
    limited = account.queue in book.shelf.limits
    if limited:
        parking.fill_all(book.shelf, account)
    start = BEYOND if only_looking else BEFORE_ALL
    more = book.begin_after(account.lane, account.key, start)
    if not more and not only_looking:
        book.begin_again(account.lane)
    if limited:
        book.shelf.close_if_unused(account)
    else:
        book.close_unlimited(account)

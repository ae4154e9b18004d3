"""Placing pending jobs anew: when time takes them into another tier, or their queue's rules change.

A lease does it before it looks, and so does the sweep, so many jobs in one write. Guard: a job is
moved by the place at which it was found in the same write.

A queue's limit per key may be set, changed or taken away while jobs are pending and running.
Running jobs are counted at once, in the write that changes the limit, so the next lease obeys it.
Pending jobs are dealt with by a *pass* over each lane: until it has come to them, leases meet them,
and park the excess. Parked jobs come first, or a job that is shown meanwhile would be passed over:
account after account, then the lane itself, then its accounts once more.
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
"""A tier beyond the last job: from there none is placed anew, only accounts are looked at."""


class Pass(NamedTuple):
    """How far the pass over a lane, or over the parked jobs of an account, has got."""

    lane: int
    tier: int
    turn: int
    seq: int


class Write(Protocol):
    """The state of the write under way."""

    now: int
    next_crossing: int | None
    """When the first pending job has to be placed anew, as far as earlier writes know."""
    some_rescoring: bool
    """Whether any pass is not over."""
    shown_left: int


class PassBook(Protocol):
    """The passes of a store, and the pending jobs they are about, in one write."""

    @property
    def write(self) -> Write: ...

    @property
    def shelf(self) -> KeyShelf: ...

    def crossing(self, limit: int, /) -> Sequence[Standing]:
        """The jobs that belong into another tier by now, up to so many, the first first."""

    def next_jobs(self, limit: int, /) -> tuple[Pass, Sequence[Standing]] | None:
        """The next jobs of any pass, and where it stood; it goes on behind them, or ends if they
        are fewer than so many. Rows that moved forward are visited again (a no-op); none is
        skipped.
        """

    def begin_after(self, lane: int, key: str, tier: int, /) -> bool:
        """Begin at a tier the pass over a lane's next account, in the order of keys, unless it has
        begun; whether there is one.
        """

    def begin_again(self, lane: int, /) -> None:
        """Begin a pass before all jobs, also where there is one."""

    def begin_in(self, queue: str, /) -> None:
        """Begin a pass over each lane of a queue that has anything in it: its first account."""

    def look_again_in(self, queue: str, /) -> None:
        """Begin a pass beyond all jobs over the accounts of a queue: the first of each lane."""

    def count_running_anew(self, queue: str, /) -> None:
        """Count by key what runs in a queue, from the jobs themselves."""

    def queue_of(self, lane: int, /) -> str | None:
        """The queue of a lane, or of the lane number of an account's parked jobs."""

    def move(self, jobs: Sequence[Standing], /) -> None:
        """Put jobs of one lane where they belong now."""

    def counted_among(self, seqs: Sequence[int], /) -> Mapping[int, Counted]:
        """Those of these jobs that are counted for their keys."""

    def count_no_more(self, job: Standing, account: Account, /) -> None:
        """Let a job stand in its lane, counted for no key; if it was parked, that is news."""

    def find(self, seq: int, /) -> Standing | None:
        """Where a job stands now, if it is pending."""

    def account(self, number: int, /) -> Account | None: ...

    def close_unlimited(self, account: Account, /) -> None:
        """Forget an account if nothing of it is pending; what runs is not counted any more."""


def rebalance(book: PassBook) -> bool:
    """Place jobs anew that need it, so many of them; whether there may be more."""
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
    """What counts in a queue has changed: its pending jobs are to be placed anew."""
    book.begin_in(queue)
    book.write.some_rescoring = True


def limits_changed(
    book: PassBook, queue: str, before: KeyLimits | None, after: KeyLimits | None
) -> None:
    """Count by other limits per key from now on; those whom it concerns are looked at."""
    if before == after:
        return
    if before is not None and after is not None:
        book.look_again_in(queue)
        book.write.some_rescoring = True
        return
    if after is not None:
        # Accounts are left from an earlier limit only while the pass that closes them goes on.
        book.count_running_anew(queue)
    rescore(book, queue)


def _go_on(book: PassBook, limit: int) -> int:
    """Go on with one lane; answers how many jobs were looked at, at least one."""
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
    """Put jobs back that are still counted although nothing limits them; where they stand then."""
    known = book.counted_among([job.seq for job in jobs])
    for job in jobs:
        if job.seq in known:
            book.count_no_more(job, known[job.seq].account)
    homes = {seq: counted.account.lane for seq, counted in known.items()}
    return [job._replace(lane=homes.get(job.seq, job.lane)) for job in jobs]


def _take_in(book: PassBook, jobs: Sequence[Standing]) -> None:
    """Count jobs for their keys that came before the limit, and park those beyond it."""
    for job in jobs:
        # To park one may have moved another, which is told here where it stands now.
        now = book.find(job.seq) if job.lane > 0 else None
        if now is not None:
            key_accounts.enter(book.shelf, [now[:4]])


def _looked_through(book: PassBook, lane: int, *, only_looking: bool) -> None:
    """The last job of a lane was visited: show the jobs that may run, and drop spare accounts.

    Accounts are followed by the next one of their lane, in the order of keys. After the last whose
    jobs were placed anew comes the lane itself, and after that its accounts are looked at again.
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

"""The algorithm of limits per key, on a shelf of plain lists."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.budget import SHOWN_AT_ONCE
from leasehold.core.model.key_limits import Rank, free_slots
from leasehold.core.rules import parking
from leasehold.core.rules.parking import COUNTED_MAX

LANES = ("one", "two")
Account = tuple[str, str]
"""A key, and its lane."""


class Shelf:
    """Says what it was asked to do; counts nothing by itself but what runs."""

    def __init__(self, limit: int, shown_left: int = SHOWN_AT_ONCE) -> None:
        self.limit = limit
        self.running: Counter[str] = Counter()
        self.shown: defaultdict[tuple[Account, int], list[Rank]] = defaultdict(list)
        self.parked: defaultdict[tuple[Account, int], list[Rank]] = defaultdict(list)
        self.shown_left = shown_left
        self.news = 0
        self.put_off: set[Account] = set()

    def free(self, account: Account) -> int:
        return free_slots(self.limit, self.running[account[0]])

    def accounts_of(self, key: str) -> Sequence[Account]:
        return [(key, lane) for lane in LANES]

    def nth_shown(self, account: Account, tier: int, n: int) -> Rank | None:
        assert 0 < n <= COUNTED_MAX
        shown = self.shown[account, tier]
        return shown[n - 1] if n <= len(shown) else None

    def first_parked(self, account: Account, tier: int) -> Rank | None:
        return next(iter(self.parked[account, tier]), None)

    def parked_tiers(self, account: Account) -> Sequence[int]:
        return [tier for (of, tier), jobs in self.parked.items() if of == account and jobs]

    def take_in(self, account: Account, tier: int, job: Rank, *, parked: bool) -> None:
        insort((self.parked if parked else self.shown)[account, tier], job)

    def show(self, account: Account, tier: int, job: Rank) -> None:
        self.parked[account, tier].remove(job)
        insort(self.shown[account, tier], job)
        self.news += 1

    def park(self, account: Account, tier: int, job: Rank) -> None:
        self.shown[account, tier].remove(job)
        insort(self.parked[account, tier], job)

    def tell_of_shown(self, account: Account) -> None:
        self.news += any(jobs for (of, _), jobs in self.shown.items() if of == account)

    def look_again_in_time(self, account: Account) -> None:
        """Time changes nothing here."""

    def go_on_later(self, account: Account) -> None:
        self.put_off.add(account)

    def close_if_unused(self, account: Account) -> None:
        pass

    def lease(self, account: Account, tier: int) -> bool:
        """Take the best that is shown, if the key has a slot for it."""
        shown = self.shown[account, tier]
        if not shown or not self.free(account):
            return False
        shown.pop(0)
        self.running[account[0]] += 1
        return True

    def end(self, key: str, count: int = 1) -> None:
        self.running[key] -= count
        parking.freed(self, {key: count})

    def is_right(self) -> bool:
        """Of each account and tier, at least the best that may run are shown."""
        for where in {*self.shown, *self.parked}:
            free = self.free(where[0])
            best = sorted(self.shown[where] + self.parked[where])[:free]
            if self.shown[where][: len(best)] != best:
                return False
        return True


accounts = st.tuples(st.sampled_from("ab"), st.sampled_from(LANES))
tiers = st.integers(0, 1)
arrivals = st.tuples(st.just("enter"), accounts, tiers, st.integers(0, 9))
leases = st.tuples(st.just("lease"), accounts, tiers, st.just(0))
ends = st.tuples(st.just("end"), accounts, tiers, st.integers(1, 3))
cancels = st.tuples(st.just("cancel"), accounts, tiers, st.integers(0, 5))


@given(st.lists(arrivals | leases | ends | cancels, max_size=60), st.integers(1, 4))
def test_whatever_happens_the_best_that_may_run_are_shown(
    steps: list[tuple[str, Account, int, int]], limit: int
) -> None:
    shelf = Shelf(limit)
    for number, (what, account, tier, value) in enumerate(steps):
        if what == "enter":
            parking.enter(shelf, account, tier, (value, number))
        elif what == "lease":
            shelf.lease(account, tier)
        elif what == "end":
            shelf.end(account[0], min(value, shelf.running[account[0]]))
        else:
            waiting = shelf.shown[account, tier] + shelf.parked[account, tier]
            if waiting:
                gone = waiting[value % len(waiting)]
                for jobs in (shelf.shown[account, tier], shelf.parked[account, tier]):
                    if gone in jobs:
                        jobs.remove(gone)
                parking.left(shelf, account, tier)
        assert shelf.is_right()
    assert not shelf.put_off


def test_nobody_is_told_while_the_key_stays_full() -> None:
    """Its limit was lowered: more run than may, and one that ends makes way for nobody."""
    shelf = Shelf(limit=3)
    for number in range(5):
        parking.enter(shelf, ("a", "one"), 0, (0, number))
    for _ in range(3):
        assert shelf.lease(("a", "one"), 0)
    shelf.limit = 1
    shelf.end("a")
    shelf.end("a")
    assert shelf.news == 0
    shelf.end("a")
    assert shelf.news > 0
    assert shelf.shown[("a", "one"), 0] == [(0, 3)]


def test_more_than_one_write_may_show_is_put_off() -> None:
    shelf = Shelf(limit=0, shown_left=7)
    for number in range(20):
        parking.enter(shelf, ("a", "one"), 0, (0, number))
    shelf.limit = 15
    parking.fill_all(shelf, ("a", "one"))
    assert len(shelf.shown[("a", "one"), 0]) == 7
    assert shelf.put_off == {("a", "one")}


def test_those_shown_for_many_slots_are_not_counted_and_none_overtakes_who_is_parked() -> None:
    shelf = Shelf(limit=0, shown_left=1)
    for number in range(3):
        parking.enter(shelf, ("a", "one"), 0, (5, number))
    shelf.limit = COUNTED_MAX + 1
    parking.fill_all(shelf, ("a", "one"))
    parking.enter(shelf, ("a", "one"), 0, (9, 9))
    parking.enter(shelf, ("a", "one"), 0, (1, 10))
    assert shelf.shown[("a", "one"), 0] == [(1, 10), (5, 0)]
    assert shelf.parked[("a", "one"), 0] == [(5, 1), (5, 2), (9, 9)]

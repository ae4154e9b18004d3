"""Placing pending jobs anew; see `tables.rebalance`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leasehold.core.rules import rebalancing
from leasehold.core.rules.key_accounts import Counted
from leasehold.core.rules.placing import Standing
from leasehold.stores.postgres.leasing import parking, ready
from leasehold.stores.postgres.leasing.parking import KeyShelf
from leasehold.stores.postgres.writing.step import Step
from leasehold.stores.tables.rebalance import TablePasses


class PassBook(TablePasses):
    """See `leasehold.core.rules.rebalancing.PassBook`."""

    __slots__ = ()
    write: Step

    def __init__(self, step: Step) -> None:
        super().__init__(step, KeyShelf(step))

    def move(self, jobs: Sequence[Standing]) -> None:
        ready.move(self.write, jobs)

    def counted_among(self, seqs: Sequence[int]) -> Mapping[int, Counted]:
        return parking.counted_among(self.write, seqs)


def rebalance(step: Step) -> bool:
    """Place jobs anew that need it, so many of them; whether there may be more."""
    return rebalancing.rebalance(PassBook(step))

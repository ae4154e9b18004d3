"""The clauses of the contract that this store does not keep as they are written, and what it does.

What it cannot do at all raises UnsupportedError where it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.transactions import Connection, JobTransaction
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.errors import LeaseholdError, UnsupportedError

_CLOCK: Final = (
    "the clock is the database server's, of which only the time of day can be asked: keep that in "
    "step by slewing (chrony, ntpd -x); if it is set ahead, leases end as much earlier"
)
NOT_KEPT: Final = dict.fromkeys(("CLK-1", "CLK-2", "CLK-3", "CLK-4"), _CLOCK)
"""By clause."""


class WithoutLocalVerbs:
    """What a store on this machine can do (`core.contract.local_store`), and this one cannot."""

    def connect(self) -> Connection:
        raise _unsupported("a connection of your own to the store")

    def owns(self, connection: Connection) -> bool:  # noqa: ARG002  # no connection is the store's
        return False

    def submit_within(
        self,
        connection: Connection,  # noqa: ARG002  # as it is called
        drafts: Sequence[Draft],  # noqa: ARG002  # as above
        *,
        partial: bool = False,  # noqa: ARG002  # as above
    ) -> list[Submitted | LeaseholdError]:
        raise _unsupported("a submit in your own transaction")

    def open_transaction(self, job_id: str, version: int) -> JobTransaction:  # noqa: ARG002  # as above
        raise _unsupported("a transaction of a task")

    def address(self) -> str | None:
        return None

    def repair_clock(self, *, actor: str) -> ClockRepair:  # noqa: ARG002  # as above
        raise _unsupported("the repair of a clock")

    def backup(self, path: str) -> None:  # noqa: ARG002  # as above
        raise UnsupportedError(
            "a PostgreSQL store is backed up with the tools of its server, such as pg_dump"
        )


def _unsupported(wanted: str) -> UnsupportedError:
    return UnsupportedError(
        f"{wanted} is not in this release of Leasehold for postgresql:// stores"
    )

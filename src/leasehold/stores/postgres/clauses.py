"""The clauses of the contract that this store does not keep to the letter, and what it does
instead.

An ability that it lacks raises UnsupportedError.
"""

from __future__ import annotations

from typing import Final

from leasehold.errors import UnsupportedError

_CLOCK: Final = (
    "the clock is the database server's, of which only the time of day can be asked: keep that in "
    "step by slewing (chrony, ntpd -x); if it is set ahead, leases end as much earlier"
)
_OWN_TRANSACTIONS: Final = (
    "a write beside the open transaction of its caller is refused, as is said there; but a second "
    "transaction of the same caller may begin, since it does not have to wait for the first"
)
NOT_KEPT: Final = {
    **dict.fromkeys(("CLK-1", "CLK-3"), _CLOCK),
    "TXN-5": _OWN_TRANSACTIONS,
}
"""The deviations, by clause."""


class WithoutLocalVerbs:
    """The operations of a store on this machine (`core.contract.local_store`) that it lacks."""

    def backup(self, path: str, *, actor: str, replace: bool = False) -> None:  # noqa: ARG002
        raise UnsupportedError(
            "a PostgreSQL store is backed up with the tools of its server, such as pg_dump"
        )

"""How long a queue keeps its ended jobs, if it has its own retention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from leasehold.core.model.durations import Seconds
from leasehold.core.model.retention import RetentionPolicy, read_limit
from leasehold.core.model.status import Status
from leasehold.core.model.text import make_plain


class QueueRetention(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True
):
    """Seconds per status; None keeps for ever, and statuses left out follow the store.

    >>> QueueRetention(completed_seconds=3600).over(RetentionPolicy()).cancelled_seconds
    86400.0
    """

    completed_seconds: float | UnsetType | None = UNSET
    cancelled_seconds: float | UnsetType | None = UNSET
    dead_seconds: float | UnsetType | None = UNSET

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            completed_seconds: Seconds | UnsetType | None = ...,
            cancelled_seconds: Seconds | UnsetType | None = ...,
            dead_seconds: Seconds | UnsetType | None = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        make_plain(self)
        for name in self._said():
            read_limit(self, name)

    def over(self, policy: RetentionPolicy) -> RetentionPolicy:
        """The store's policy with this queue's values applied."""
        return msgspec.structs.replace(policy, **self._said())

    def _said(self) -> dict[str, float | None]:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value is not UNSET}


def is_worth_it(
    policy: RetentionPolicy,
    ended: Mapping[Status, int],
    apart: Iterable[tuple[RetentionPolicy, Mapping[Status, int]]] = (),
) -> bool:
    """Whether this many ended jobs would be worth a clean-up if all of them were old enough.

    `apart` has the jobs of queues with their own policy, which `ended` leaves out.
    """
    prunable = sum(
        counts.get(status, 0)
        for each, counts in ((policy, ended), *apart)
        for status in each.seconds_by_status()
    )
    return prunable >= policy.worth_cleaning

"""The memory store: the contract's verbs, by theme, on one state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.model.retention import RetentionPolicy
from leasehold.env import SYSTEM, Env
from leasehold.errors import UnsupportedError
from leasehold.stores.memory import inspection
from leasehold.stores.memory.access import AccessVerbs
from leasehold.stores.memory.holding import Histories, HolderBook
from leasehold.stores.memory.leasing import ExchangeVerbs
from leasehold.stores.memory.metrics import MemoryFigureVerbs, heap_figures
from leasehold.stores.memory.people import MemoryPeopleVerbs
from leasehold.stores.memory.pruning import KeepingVerbs
from leasehold.stores.memory.reading import MemoryLookingVerbs
from leasehold.stores.memory.recovery import Holdings, MemoryRecoveryVerbs, promote_some
from leasehold.stores.memory.registry import RegistryVerbs
from leasehold.stores.memory.schedules import MemoryScheduleVerbs
from leasehold.stores.memory.state import State
from leasehold.stores.memory.submission import ProducingVerbs
from leasehold.stores.verbs.holding import HoldingVerbs

CAPACITY_DEFAULT: Final = 1_000_000


class MemoryStore(
    ProducingVerbs,
    ExchangeVerbs,
    HoldingVerbs,
    MemoryRecoveryVerbs,
    RegistryVerbs,
    MemoryPeopleVerbs,
    MemoryLookingVerbs,
    MemoryFigureVerbs,
    MemoryScheduleVerbs,
    AccessVerbs,
    KeepingVerbs,
):
    """Jobs in this process's memory: fast, ordered, and gone when the process ends.

    It holds at most `capacity` jobs that have not ended, and as many that have. Beyond that, a
    submit raises QueueFullError, and the job that ended first is forgotten before its `retention`
    is over. Dead letters are not forgotten to make room: when there are that many of them alone, a
    submit raises QueueFullError. It forgets automatically, whether somebody prunes or not.

    >>> from leasehold.core.model.job import Draft
    >>> from leasehold.core.model.lease import LeaseRequest
    >>> store = MemoryStore()
    >>> store.submit([Draft(id="one", task="greet")])
    [Submitted(id='one', status=<Status.PENDING: 'pending'>, is_duplicate=False)]
    >>> [lease.job_id for lease in store.exchange(request=LeaseRequest(worker="me")).leases]
    ['one']
    """

    _holder_book = HolderBook
    _histories = Histories
    _holdings = Holdings
    _promote = staticmethod(promote_some)

    def __init__(
        self,
        env: Env = SYSTEM,
        capacity: int | None = CAPACITY_DEFAULT,
        retention: RetentionPolicy | None = None,
    ) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity must be at least 1, or None for no limit, not {capacity}")
        super().__init__(State(env, capacity, retention))

    def __repr__(self) -> str:
        return "MemoryStore()"

    def __str__(self) -> str:
        return "memory://"

    def repair_clock(self, *, actor: str) -> ClockRepair:
        raise UnsupportedError(
            f"a memory store ends with its process: once the clock is right, {actor} can restart "
            "the process"
        )

    def check(self) -> list[str]:
        return self._look(inspection.problems)

    def backup(self, path: str, *, actor: str, replace: bool = False) -> None:  # noqa: ARG002
        raise UnsupportedError(
            f"nothing was written to {path}: the memory store cannot be backed up. "
            "Use a SQLite store for jobs that must outlive the process."
        )

    def describe(self) -> Mapping[str, Any]:
        return self._look(
            lambda state: {
                "kind": "memory",
                "place": "this process",
                "durability": "none: jobs end with the process",
                "jobs": len(state.records),
                "capacity": state.capacity,
                "heap": _heap_document(state),
            }
        )


def _heap_document(state: State) -> dict[str, Any]:
    figures = heap_figures(state, None)
    return {**msgspec.structs.asdict(figures), "live": figures.live, "health": figures.health}

"""What every page works with: the store behind it, who looks, and what they asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock, Thread
from typing import Any, Final, TypeVar, cast

from starlette.datastructures import QueryParams

from leasehold.core.model.tokens import Role
from leasehold.dashboard.operation_runner import OperationRunner
from leasehold.errors import LeaseholdError
from leasehold.observe.findings import Finding
from leasehold.queue.facade import TaskQueue
from leasehold.queue.health import findings_of
from leasehold.queue.operations import Operations
from leasehold.service.api import Api
from leasehold.service.caller import Caller

KEPT_SECONDS: Final = 2.0
"""So long, what was found out is told again to whoever asks: many may have a page open."""
KEPT_REST: Final = 10.0
"""Or so many times as long as it took to find out: hundreds of queues take a while."""
KEPT_MAX: Final = 100
SLOW_SECONDS: Final = 0.2
"""Nobody waits for longer than this for what was known before."""

T = TypeVar("T")


class Desk:
    """The store, as pages read it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.store = api.store
        self.env = api.env
        self.queue = TaskQueue(api.store, num_workers=0, env=api.env, actor="dashboard")
        self.runner = OperationRunner(Operations(api.store, "dashboard", api.env, api.blobs))
        self._lock = Lock()
        self._kept: dict[Hashable, _Kept] = {}

    def findings(self) -> list[Finding]:
        """What `queuectl doctor` says, of this moment or the one before."""
        return self.lately("findings", lambda: findings_of(self.queue))

    def lately(self, what: Hashable, find_out: Callable[[], T]) -> T:
        """What was found out lately; for so many times as long as it took, nobody finds out again.

        What takes long is found out behind the pages, which show meanwhile what was known before.
        """
        with self._lock:
            kept = self._kept.get(what)
            if kept is not None and (self.env.clock.monotonic() < kept.end or kept.is_renewed):
                return cast("T", kept.value)
            if kept is not None and kept.took > SLOW_SECONDS:
                self._kept[what] = replace(kept, is_renewed=True)
                renew = partial(self._renew, what, find_out)
                Thread(target=renew, name="leasehold-dashboard", daemon=True).start()
                return cast("T", kept.value)
        return self._find_out(what, find_out)

    def _renew(self, what: Hashable, find_out: Callable[[], T]) -> None:
        # Whoever asks next finds out for themselves, and is told what is wrong.
        with suppress(LeaseholdError):
            self._find_out(what, find_out)

    def _find_out(self, what: Hashable, find_out: Callable[[], T]) -> T:
        began = self.env.clock.monotonic()
        try:
            value = find_out()
        except BaseException:
            with self._lock:
                self._kept.pop(what, None)
            raise
        took = self.env.clock.monotonic() - began
        end = began + took + max(KEPT_SECONDS, KEPT_REST * took)
        with self._lock:
            if len(self._kept) >= KEPT_MAX:
                self._kept.pop(next(iter(self._kept)))
            self._kept[what] = _Kept(value, took, end)
        return value


@dataclass(frozen=True)
class _Kept:
    """What was found out, how long that took, and until when it is told again."""

    value: Any
    took: float
    end: float
    is_renewed: bool = False
    """Whether somebody finds it out anew just now."""


@dataclass(frozen=True)
class Visit:
    """Who asks for what."""

    caller: Caller
    query: QueryParams
    theme: str = "system"

    def may(self, role: Role) -> bool:
        """Whether they have the role; an admin has all of them."""
        return self.may_any((role,))

    def may_any(self, roles: Iterable[Role]) -> bool:
        """Whether they have one of the roles; an admin has all of them."""
        return "admin" in self.caller.roles or not self.caller.roles.isdisjoint(roles)

    def text(self, name: str) -> str:
        """A parameter; empty if it was not given."""
        return self.query.get(name, "")


@dataclass(frozen=True)
class FilledPage:
    """What a view answers: a template and what it shows."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200

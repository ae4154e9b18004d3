"""The channel between one process and the store: a store to its caller, and where faults strike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, cast

from leasehold.core.contract.local_store import LocalStore
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.records import Listener, WorkerInfo, WorkerLife
from leasehold.errors import LeaseholdError, StoreUnavailableError, UnsupportedError
from leasehold.testing.simulator.calllog import CallFate, LoggedCall, unwrap
from leasehold.testing.simulator.faults import IN_CALLS, Fault
from leasehold.testing.simulator.world import Process, ProcessCrashedError, World

DELAY_SECONDS_MAX = 20.0
LATE_SECONDS_MAX = 90.0
_CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
_STRUCK: Final = frozenset(
    {"submit", "exchange", "renew", "report_progress", "append_log", "tell"}
    | {"recover", "recover_one", "stuck", "promote"}
    | {"cancel", "replay", "discard", "reprioritize", "get", "stats", "now"}
    | {"create_queue", "update_queue", "set_queue_state", "purge_queue", "delete_queue"}
)
"""Where faults strike, and the calls that the checker knows. The rest is read without faults, or
never asked for by simulated processes."""


def channel(world: World, process: Process) -> LocalStore:
    """The store as one incarnation of a process reaches it."""
    return cast("LocalStore", Channel(world, process))


class Channel:
    """Keeps `core.contract.local_store.LocalStore`; most of its verbs are made below."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._incarnation = process.incarnation

    # -- a call and its possible ends --------------------------------------------------------

    def _call(self, method: str, **arguments: Any) -> Any:
        world = self._world
        world.check_alive(self._process, self._incarnation)
        call = world.log.invoke(self._process.worker_name, method, arguments, world.now)
        fault = self._fault()
        try:
            self._before(fault)
            answer = world.apply(call).answer
            self._after(fault, call)
        except StoreUnavailableError:
            call.verdict = CallFate.UNKNOWN
            call.returned_at = world.now
            raise
        call.returned_at = world.now
        call.answer = answer
        call.verdict = CallFate.FAIL if isinstance(answer, LeaseholdError) else CallFate.OK
        return unwrap(answer)

    def _fault(self) -> Fault | None:
        """At most one fault per call; all are drawn, so that leaving one out moves no other."""
        drawn = {fault: self._world.draw(fault, self._process.name) for fault in IN_CALLS}
        for fault, strike in drawn.items():
            spared = fault in _CRASHES and not self._process.may_crash
            if strike is not None and not spared:
                self._world.note(fault, strike)
                return fault
        return None

    def _before(self, fault: Fault | None) -> None:
        if fault is Fault.CRASH_BEFORE:
            self._crash()
        elif fault is Fault.REQUEST_LOST:
            self._pass_time(self._world.random.uniform(0.0, 2.0))
            raise StoreUnavailableError("the request was lost")
        elif fault is Fault.DELAYED:
            self._pass_time(self._world.random.uniform(0.0, DELAY_SECONDS_MAX))

    def _after(self, fault: Fault | None, call: LoggedCall) -> None:
        world = self._world
        if fault is Fault.CRASH_AFTER:
            self._crash()
        elif fault is Fault.REPLY_LOST:
            self._pass_time(world.random.uniform(0.0, 2.0))
            raise StoreUnavailableError("the reply was lost")
        elif fault is Fault.DUPLICATED:
            world.apply(call)
        elif fault is Fault.DUPLICATED_LATE:
            late = world.now + world.random.uniform(0.0, LATE_SECONDS_MAX)
            world.at(late, lambda: None if world.quiet else _apply(world, call))
        elif fault is Fault.REPLY_DELAYED:
            self._pass_time(world.random.uniform(0.0, DELAY_SECONDS_MAX))
        elif fault is Fault.PAUSED:
            world.pause(self._process)
            self._pass_time(0.0)

    def _crash(self) -> None:
        self._world.crash(self._process)
        raise ProcessCrashedError

    def _pass_time(self, seconds: float) -> None:
        """Let the world go on; this process may be dead when it comes back."""
        self._world.run_until(self._world.now + seconds)
        self._world.wait_while_paused(self._process)
        self._world.check_alive(self._process, self._incarnation)

    # -- what simulated processes do not have ------------------------------------------------

    def register_worker(
        self,
        info: WorkerInfo,
        *,
        is_remote: bool = False,  # noqa: ARG002  # no worker is registered here
        is_entered: bool = False,  # noqa: ARG002  # as above
    ) -> WorkerLife:
        raise UnsupportedError(
            f"{info.id}: proof of death needs real processes, which the simulator does not have"
        )

    def connect(self) -> Connection:
        raise UnsupportedError("the simulator has no database for tables of an application's own")

    def address(self) -> str | None:
        return None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        raise UnsupportedError(f"{listener!r}: the simulator hands out hints itself")

    def close(self) -> None:
        """The store outlives every process."""


def _struck(verb: str) -> Callable[..., Any]:
    """A verb on which faults strike: all its arguments are known by name, and written down."""
    method = getattr(LocalStore, verb)
    signature = inspect.signature(method)

    @wraps(method)
    def call(self: Channel, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = {name: _kept(value) for name, value in bound.arguments.items() if name != "self"}
        return self._call(verb, **given)

    return call


def _kept(value: Any) -> Any:
    """The arguments, even if the caller changes its list afterwards."""
    return list(value) if isinstance(value, list | tuple) else value


def _plain(verb: str) -> Callable[..., Any]:
    """A verb that the store is simply asked for."""

    @wraps(getattr(LocalStore, verb))
    def call(self: Channel, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._world.store, verb)(*args, **kwargs)

    return call


for _name in dir(LocalStore):
    if not _name.startswith("_") and _name not in vars(Channel):
        setattr(Channel, _name, _struck(_name) if _name in _STRUCK else _plain(_name))


def _apply(world: World, call: LoggedCall) -> None:
    world.apply(call)

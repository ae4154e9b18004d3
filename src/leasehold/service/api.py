"""The service without any transport: one object whose methods are the operations.

A face (HTTP, for example) identifies the caller with `authenticate`, converts what it was sent into
the operation's request, and passes both to `call`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model.tokens import LOOKING, digest_of
from leasehold.core.rules.tokens import token_has_ended
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseholdError, UnauthenticatedError
from leasehold.observe.exposition import Family, Sample, render
from leasehold.observe.prometheus import families, look_at
from leasehold.queue.looking import Looking
from leasehold.queue.metrics import Metrics
from leasehold.queue.waiters import Waiters
from leasehold.service.admins import Admins
from leasehold.service.backups import Backups
from leasehold.service.caller import ANYBODY, Caller
from leasehold.service.consumers import Consumers
from leasehold.service.following import SharedLooks
from leasehold.service.hints import HintLine
from leasehold.service.known_callers import KnownCallers
from leasehold.service.lease_lines import LeaseLines
from leasehold.service.lease_secret import LeaseSecrets
from leasehold.service.measures import Measures
from leasehold.service.operation import ApiOperation, Request, operations_of
from leasehold.service.operators import Operators
from leasehold.service.out_of_sight import refused, shown
from leasehold.service.peeking import Peeking
from leasehold.service.pinning import Pinning
from leasehold.service.plan_seal import PlanSeals
from leasehold.service.producers import Producers
from leasehold.service.queue_operators import QueueOperators
from leasehold.service.request_figures import RequestFigures
from leasehold.service.store_breaker import StoreBreaker
from leasehold.service.store_calls import StoreCalls
from leasehold.service.stuck import Stuck
from leasehold.service.submit_line import SubmitLine

T = TypeVar("T")

THREADS: Final = 32
"""Concurrent calls of the store; writes share their syncs."""


class Api(
    Producers,
    Consumers,
    Peeking,
    Operators,
    Stuck,
    Pinning,
    Backups,
    Measures,
    QueueOperators,
    Admins,
):
    """Every operation, on one store."""

    def __init__(
        self, store: Store, *, env: Env = SYSTEM, blobs: Blobs | None = None, insecure: bool = False
    ) -> None:
        """With `insecure`, a caller without a token may do everything except submit commands."""
        super().__init__(
            store,
            env,
            blobs,
            LeaseSecrets(store.signing_key()),
            LeaseLines(store),
            self.in_thread,
        )
        self.waiters = Waiters(store, env)
        self.figures = Metrics(store, Looking(store, blobs, _nothing))
        self.breaker = StoreBreaker(env)
        self.hint_line = HintLine(store, env)
        self.plans = PlanSeals(store.signing_key())
        self.store_calls = StoreCalls(store, self.secrets, self.plans, self.hint_line, blobs)
        """For remote stores, beside the operations."""
        self.submit_line = SubmitLine(self)
        self.known_callers = KnownCallers()
        self.requests = RequestFigures(env.clock)
        self.insecure = insecure
        self.stopping = asyncio.Event()
        """Set when the service is about to stop."""
        self.followers: dict[object, str] = {}
        """The followers of the change feed, over any face, and the names of their tokens."""
        self.shared_looks = SharedLooks(self)
        self._calls = 0
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="leasehold-api")

    def authenticate(self, secret: str | None) -> Caller:
        """The caller with this secret; raises UnauthenticatedError if it is not valid.

        The store is asked each time, so a revoked token is refused from the next request on.
        """
        if secret is None:
            if self.insecure:
                return ANYBODY
            raise UnauthenticatedError(
                "a token is required: set LEASEHOLD_TOKEN, or send `Authorization: Bearer lh_...`; "
                "`queuectl token create` makes one"
            )
        return self.caller_of(digest_of(secret))

    def caller_of(self, digest: str) -> Caller:
        """The holder of the token with this hash; raises UnauthenticatedError if it is invalid."""
        token = self.guarded(lambda: self.store.find_token(digest))
        if token is None:
            self.known_callers.forget(digest)
            raise token_has_ended()
        caller = Caller.of(token, digest)
        self.known_callers.keep(digest, caller)
        return caller

    def call(self, operation: ApiOperation, caller: Caller, request: Request) -> Any:
        """Carry out an operation that does not wait."""
        assert not operation.waits
        caller.check_role(operation.roles)
        return self.guarded(
            lambda: self._for(caller, lambda: getattr(self, operation.name)(caller, request))
        )

    async def call_waiting(self, operation: ApiOperation, caller: Caller, request: Request) -> Any:
        """Carry out an operation that may wait."""
        caller.check_role(operation.roles)
        if caller.queues is None:
            return await getattr(self, operation.name)(caller, request)
        try:
            answer = await getattr(self, operation.name)(caller, request)
        except LeaseholdError as error:
            told = error
            raise await self.in_thread(lambda: refused(caller, self.store, told)) from None
        return await self.in_thread(lambda: shown(caller, self.store, answer))

    def _for(self, caller: Caller, function: Callable[[], Any]) -> Any:
        """The answer without the parts that this caller may not see."""
        if caller.queues is None:
            return function()
        try:
            answer = function()
        except LeaseholdError as error:
            raise refused(caller, self.store, error) from None
        return shown(caller, self.store, answer)

    def guarded(self, function: Callable[[], T]) -> T:
        """Call the store, unless it is known to be away."""
        self.breaker.check()
        try:
            answer = function()
        except Exception as error:
            self.breaker.note(error)
            raise
        self.breaker.note(None)
        return answer

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Make a short call of the store on another thread."""
        return await self.on_thread(lambda: self.guarded(function))

    async def on_thread(self, function: Callable[[], T]) -> T:
        """Run a short blocking function on another thread."""
        return await self.begin_on_thread(function)

    def begin_on_thread(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """The same, for callers that do not wait for it here."""
        self._calls += 1
        begun = asyncio.get_running_loop().run_in_executor(self._threads, function)
        begun.add_done_callback(self._has_ended)
        return begun

    def _has_ended(self, _: asyncio.Future[Any]) -> None:
        self._calls -= 1

    def exposition(self, caller: Caller) -> bytes:
        """The store's figures and this process's own, for Prometheus."""
        caller.check_role(LOOKING)
        caller.check_unscoped()
        sight = self.guarded(lambda: look_at(self.store, self.env))
        return render((*families(sight), *self.requests.families(), *self._pool()))

    def _pool(self) -> Iterator[Family]:
        in_use = "Calls of the store under way in this process; beyond the size they wait."
        yield Family("store_pool_in_use", "gauge", in_use, [Sample({}, self._calls)])
        size = "How many calls of the store this process makes at the same time."
        yield Family("store_pool_size", "gauge", size, [Sample({}, THREADS)])

    def stop_waiting(self) -> None:
        """Answer all waiting callers with what there is: the service is about to stop."""
        self.stopping.set()
        self.lines.close()
        self.hint_line.close()
        self.waiters.close()

    def close(self) -> None:
        """Release the threads; the store's owner closes the store."""
        self.stop_waiting()
        self._threads.shutdown()


def _nothing() -> None:
    """A service runs no jobs itself: there are no workers to start."""


OPERATIONS: Final = tuple(each for part in Api.__bases__ for each in operations_of(part))
"""Every operation, in the order of the table in the documentation."""

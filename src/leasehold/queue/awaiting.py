# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""The awaitable calls of a TaskQueue, and the mechanisms that carry all of them.

Submits go through one funnel, waits are callbacks, and everything else is a short call to the store
on one of a few threads: nothing here keeps a thread waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.durations import Seconds, given_seconds
from leasehold.core.model.lease import Exchange, Lease, LeaseRequest
from leasehold.errors import QueueFullError
from leasehold.observe import tracing
from leasehold.queue.funnel import Funnel
from leasehold.queue.ready import Ready
from leasehold.queue.room import Block, may_fit, pause_seconds, seconds_of
from leasehold.queue.waiters import Ended, Waiters
from leasehold.worker.context import open_connection

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = 4


class Bridge:
    """From any number of event loops to the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.funnel = Funnel(store)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="leasehold-async")

    async def call(self, func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a short blocking call on another thread."""
        if open_connection() is not None:
            # Another thread would wait for the transaction that this task has open.
            return func(*args, **kwargs)
        loop = asyncio.get_running_loop()
        call = partial(func, *args, **kwargs)
        if tracing.is_on():
            # The call belongs to the caller's trace.
            call = partial(copy_context().run, call)
        return await loop.run_in_executor(self._pool, call)

    async def call_within(self, connection: OwnConnection | None, func: Callable[[], T]) -> T:
        """Make a call that may be part of the application's own transaction.

        Such a transaction belongs to this thread, unless its connection is async: then another
        thread may use it, exclusively.
        """
        if connection is None:
            return await self.call(func)
        lent = local_part(self._store, "a transaction of your own").lend(connection)
        if lent is None:
            return func()
        async with lent:
            made = asyncio.get_running_loop().run_in_executor(
                self._pool, partial(copy_context().run, func)
            )
            try:
                return await asyncio.shield(made)
            finally:
                # A cancelled caller releases the connection only when the call has ended.
                await asyncio.wait([made])

    def begin(self, func: Callable[[], object]) -> None:
        """Make a short blocking call on another thread, for which nobody waits."""
        with suppress(RuntimeError):  # The queue was shut down meanwhile.
            self._pool.submit(func)

    async def call_long(self, func: Callable[[], T]) -> T:
        """Make a call that may take minutes, on a thread of its own."""
        return func() if open_connection() is not None else await asyncio.to_thread(func)

    def close(self) -> None:
        self.funnel.close()
        self._pool.shutdown()


async def wait_for_end(
    waiters: Waiters, job_ids: Iterable[str], timeout: float | None
) -> dict[str, Ended]:
    """Wait until these jobs have ended or the time is up; returns the ended ones."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    ended: dict[str, Ended] = {}

    def note(job_id: str, outcome: Ended) -> None:
        ended[job_id] = outcome
        if len(ended) == len(callbacks):
            done.set()

    def callback_for(job_id: str) -> Callable[[Ended], None]:
        def callback(outcome: Ended) -> None:
            loop.call_soon_threadsafe(note, job_id, outcome)

        return callback

    callbacks = {job_id: callback_for(job_id) for job_id in job_ids}
    try:
        for job_id, callback in callbacks.items():
            waiters.register(job_id, callback)
        if callbacks:
            async with asyncio.timeout(timeout):
                await done.wait()
    except TimeoutError:
        pass  # Jobs that have not ended are left out of the result.
    finally:
        for job_id, callback in callbacks.items():
            waiters.forget(job_id, callback)
    return ended


class _Taking:
    """Leases obtained by a thread for a caller that may have left by the time they arrive.

    Then that thread hands them back, so that nobody holds them and an ending event loop need not
    wait.
    """

    def __init__(
        self,
        lease: Callable[[LeaseRequest], Exchange],
        hand_back: Callable[[Sequence[Lease]], None],
    ) -> None:
        self._lease = lease
        self._hand_back = hand_back
        self._mutex = threading.Lock()
        self._is_left = False
        self._leases: Sequence[Lease] = ()

    def take(self, request: LeaseRequest) -> Exchange:
        answer = self._lease(request)
        with self._mutex:
            self._leases = answer.leases
            is_left = self._is_left
        if is_left:
            self._hand_back(answer.leases)
        return answer

    def leave(self) -> Sequence[Lease]:
        """The caller leaves; returns the leases that have already arrived."""
        with self._mutex:
            self._is_left = True
            return self._leases


async def wait_for_leases(
    bridge: Bridge,
    ready: Ready,
    lease: Callable[[LeaseRequest], Exchange],
    hand_back: Callable[[Sequence[Lease]], None],
    request: LeaseRequest,
    wait: Seconds,
) -> list[Lease]:
    """Lease, waiting for the first job without a thread. A cancelled call leases nothing."""
    loop = asyncio.get_running_loop()
    end = loop.time() + given_seconds("wait", wait)
    hint = asyncio.Event()

    def callback() -> None:
        loop.call_soon_threadsafe(hint.set)

    ready.register(callback)
    try:
        while True:
            hint.clear()
            taking = _Taking(lease, hand_back)
            try:
                exchange = await bridge.call(taking.take, request)
            except asyncio.CancelledError:
                if leases := taking.leave():
                    bridge.begin(partial(hand_back, leases))
                raise
            left = end - loop.time()
            if exchange.leases or left <= 0:
                return exchange.leases
            try:
                async with asyncio.timeout(ready.pause_seconds(exchange, left)):
                    await hint.wait()
            except TimeoutError:
                continue
    finally:
        ready.forget(callback)


async def wait_for_room(
    submit: Callable[[], Awaitable[T]],
    block: Block,
    *,
    store: Store,
    ready: Ready,
    check_open: Callable[[], None],
    bridge: Bridge,
) -> T:
    """Submit; while the queue is full, wait without a thread and try again."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds_of(block)
    hint = asyncio.Event()
    full: QueueFullError | None = None

    def callback() -> None:
        loop.call_soon_threadsafe(hint.set)

    ready.register(callback)
    try:
        while True:
            hint.clear()
            check_open()
            if full is None or await bridge.call(may_fit, full, store):
                try:
                    return await submit()
                except QueueFullError as error:
                    full = error
            left = end - loop.time()
            if left <= 0 or full.retry_after_seconds is None:
                raise full
            try:
                async with asyncio.timeout(min(left, pause_seconds(full))):
                    await hint.wait()
            except TimeoutError:
                continue
    finally:
        ready.forget(callback)

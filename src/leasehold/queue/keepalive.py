"""Keeping a lease alive in a loop of your own, on top of the worker's heartbeat.

All leases that one consumer keeps at the same time share one thread, and are renewed in one write.

>>> from leasehold import TaskQueue
>>> queue = TaskQueue("memory://", num_workers=0)
>>> job = queue.submit("thumbnails", "cat.png")
>>> lease = queue.lease(worker="me")
>>> with queue.keep_alive(lease) as kept:
...     kept.raise_if_lost()  # now and then, before anything that cannot be undone
...     settled = queue.ack(lease, "done")
>>> settled.status.value, kept.is_lost
('completed', False)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Lease, Renewal
from leasehold.env import Env
from leasehold.errors import LeaseLostError, StoreError
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.tuning import Tuning

OnLost = Callable[[LeaseLostError | StoreError], None]


class KeepAlive:
    """A lease that is renewed in the background while a block runs, by `with` or `async with`.

    `queue.keep_alive(lease)` makes one.
    """

    def __init__(self, keepers: Keepers, lease: Lease, on_lost: OnLost | None) -> None:
        self.lease = lease
        self.lost: LeaseLostError | StoreError | None = None
        """Why the lease is no longer yours; None while it is."""
        self.cancel_requested: str | None = None
        """The reason, once the job's cancellation was requested."""
        self._keepers = keepers
        self._on_lost = on_lost

    @property
    def is_lost(self) -> bool:
        """Whether the lease was lost: stop, and leave the job to its new holder."""
        return self.lost is not None

    def raise_if_lost(self) -> None:
        """Raise the error under which the lease was lost, if it was."""
        if self.lost is not None:
            raise self.lost

    def lose(self, error: LeaseLostError | StoreError) -> None:
        """Called by the heartbeat, from its own thread."""
        self.lost = error
        if self._on_lost is not None:
            self._on_lost(error)

    def __enter__(self) -> Self:
        self._keepers.keep(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keepers.forget(self.lease)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


class Keepers:
    """The leases kept alive in this process, with one heartbeat per consumer."""

    def __init__(self, store: Store, env: Env, tuning: Callable[[], Tuning]) -> None:
        self._store = store
        self._env = env
        self._tuning = tuning
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], KeepAlive] = {}
        self._heartbeats: dict[str, Heartbeat] = {}

    def keep(self, kept: KeepAlive) -> None:
        """Renew a lease from now on; raises LeaseLostError if it is already over."""
        lease = kept.lease
        clock = self._env.clock
        asked_at = clock.monotonic()
        age_seconds = max(0.0, (self._store.now() - lease.acquired_at).total_seconds())
        if age_seconds >= lease.lease_seconds / 3:
            # Its next renewal may come too late, and its present state is unknown here.
            renewal = Renewal(lease.job_id, lease.version, lease.lease_seconds)
            [answer] = self._store.renew(lease.worker, [renewal])
            if isinstance(answer, LeaseLostError):
                raise answer
            kept.cancel_requested = answer.cancel_requested
            age_seconds = 0.0
        with self._lock:
            self._kept[lease.job_id, lease.version] = kept
            heartbeat = self._heartbeats.get(lease.worker)
            if heartbeat is None:
                heartbeat = self._heartbeats[lease.worker] = self._new_heartbeat(lease.worker)
                heartbeat.start()
            heartbeat.add(lease, asked_at - age_seconds)

    def forget(self, lease: Lease) -> KeepAlive | None:
        """Stop renewing a lease: from now on no renewal of it is in flight."""
        with self._lock:
            kept = self._kept.pop((lease.job_id, lease.version), None)
            heartbeat = self._heartbeats.get(lease.worker)
            is_last = all(each.lease.worker != lease.worker for each in self._kept.values())
            if is_last:
                self._heartbeats.pop(lease.worker, None)
        if heartbeat is not None:
            heartbeat.discard(lease)
            if is_last:
                heartbeat.stop()
        return kept

    @contextmanager
    def settling(self, lease: Lease) -> Iterator[None]:
        """Do not renew a lease while it is being settled: that would look like a stale holder."""
        kept = self.forget(lease)
        try:
            yield
        except LeaseLostError as error:
            if kept is not None and not kept.is_lost:
                kept.lose(error)
            raise
        except BaseException:
            # It is still held, and its holder may try again.
            if kept is not None and not kept.is_lost:
                self.keep(kept)
            raise

    def close(self) -> None:
        """Stop renewing; leases that are still held expire."""
        with self._lock:
            heartbeats = list(self._heartbeats.values())
            self._heartbeats.clear()
            self._kept.clear()
        for heartbeat in heartbeats:
            heartbeat.stop()

    def _new_heartbeat(self, worker: str) -> Heartbeat:
        tuning = self._tuning()
        return Heartbeat(
            self._store,
            worker,
            env=self._env,
            interval_seconds=tuning.seconds("heartbeat_interval"),
            failure_threshold=tuning.count("heartbeat_failure_threshold"),
            on_lost=self._lost,
            on_cancel=self._cancel,
        )

    def _lost(self, lease: Lease, error: LeaseLostError | StoreError) -> None:
        kept = self._kept.get((lease.job_id, lease.version))
        if kept is not None:
            kept.lose(error)

    def _cancel(self, lease: Lease, reason: str) -> None:
        kept = self._kept.get((lease.job_id, lease.version))
        if kept is not None:
            kept.cancel_requested = reason

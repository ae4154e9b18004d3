"""The consumer API: lease, acknowledge and extend jobs in a loop of your own.

>>> from leasehold import TaskQueue
>>> queue = TaskQueue("memory://", num_workers=0)
>>> job = queue.submit("thumbnails", "cat.png")
>>> lease = queue.lease(worker="me")
>>> queue.arguments(lease)
(['cat.png'], {})
>>> queue.ack(lease, {"width": 64}).status
<Status.COMPLETED: 'completed'>
>>> job.result()
{'width': 64}
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from leasehold.blobs.blobs import Blobs
from leasehold.codec import encode_document, passes_results
from leasehold.core.contract.store import Store
from leasehold.core.contract.worker_leases import GivesBackInterrupted
from leasehold.core.model import checked
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.durations import Seconds, given_seconds, seconds_or_none
from leasehold.core.model.job import Job
from leasehold.core.model.lease import (
    Exchange,
    Lease,
    LeaseRequest,
    Renewal,
    Renewed,
    Settled,
    handed_back,
)
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX, SECONDS_MAX
from leasehold.core.model.outcome import JobError
from leasehold.core.model.settings import SettingValue
from leasehold.env import Env
from leasehold.errors import LeaseholdError, LeaseLostError, StoreBusyError, UnknownTaskError
from leasehold.interrupts import SHIELD, Interrupted, import_whole
from leasehold.queue.arguments import checked_queues
from leasehold.queue.codecs import Codecs
from leasehold.queue.large import inline
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.options import JobRef, id_of
from leasehold.queue.orders import Orders
from leasehold.queue.peeking import next_jobs
from leasehold.queue.presence import Presence, name_of_this_process
from leasehold.queue.ready import Ready
from leasehold.queue.task import TaskLike, checked_name_of
from leasehold.worker.dependencies import decode_results, fetch_results, plain_codec
from leasehold.worker.task import TaskRegistry

if TYPE_CHECKING:
    from leasehold.queue.keepalive import KeepAlive, Keepers, OnLost
    from leasehold.worker.leases import LeaseManager
    from leasehold.worker.tuning import Tuning

T = TypeVar("T")

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 20.0


class Consuming:
    """The part of a TaskQueue for applications that run jobs in loops of their own."""

    def __init__(
        self,
        store: Store,
        *,
        env: Env,
        registry: TaskRegistry,
        codecs: Codecs,
        blobs: Blobs | None,
        bytes_max: int,
        orders: Orders,
        ready: Ready,
        lifecycle: Lifecycle,
        queues: tuple[str, ...],
        lease_seconds: float | None,
        enable_recovery: bool,
        given_settings: Mapping[str, SettingValue],
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.ready = ready
        self._env = env
        self._registry = registry
        self._codecs = codecs
        self._bytes_max = bytes_max
        self._orders = orders
        self._check_open = lifecycle.check_open
        self._queues = queues
        self._lease_seconds = lease_seconds
        self._enable_recovery = enable_recovery
        self._given_settings = given_settings
        self._last_sweep: float | None = None
        self._keeping: AbstractContextManager[None] = (
            nullcontext() if isinstance(store, GivesBackInterrupted) else SHIELD.keeping_answers
        )
        """Around a request whose answer must not be lost to a Ctrl-C."""
        self._presence = Presence(env)
        self._keepers: Keepers | None = None
        self._lock = threading.Lock()

    def begin_anew_in_fork(self) -> None:
        """Called in a forked child: leases and heartbeats from before are the parent's."""
        self._presence = Presence(self._env)
        self._keepers = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop keeping leases alive, and leave the registry."""
        if self._keepers is not None:
            self._keepers.close()
        # If the store is away, the consumer is forgotten once it has been silent for long.
        with suppress(LeaseholdError):
            for farewell in self._presence.farewells():
                self.store.exchange((), farewell)

    def lease(
        self,
        queue: str | Sequence[str] | None = None,
        worker: str | None = None,
        tasks: Sequence[TaskLike] | None = None,
        wait: Seconds = WAIT_SECONDS,
        *,
        lease_seconds: Seconds | None = None,
        parent: JobRef | None = None,
    ) -> Lease | None:
        """Take the best available job, waiting up to `wait` seconds for one; None if there is none.

        It is yours until its lease expires: `ack` or `nack` it, and until then `extend` it, or let
        `keep_alive` do so. `lease_seconds` takes precedence over the values of the job, its queue
        and the settings.

        A consumer that leases is in the registry of workers, under the name `worker` (by default
        that of this process), until this queue is shut down, or until it holds no job and has
        neither leased nor renewed for two minutes.
        """
        request = self.lease_request(1, queue, worker, tasks, lease_seconds, parent)
        return self._take(request, wait, _first)

    def lease_many(
        self,
        limit: int,
        queue: str | Sequence[str] | None = None,
        worker: str | None = None,
        tasks: Sequence[TaskLike] | None = None,
        wait: Seconds = WAIT_SECONDS,
        *,
        lease_seconds: Seconds | None = None,
        parent: JobRef | None = None,
    ) -> list[Lease]:
        """Take up to `limit` of the best available jobs, waiting for the first of them."""
        request = self.lease_request(limit, queue, worker, tasks, lease_seconds, parent)
        return self._take(request, wait, _all)

    def arguments(self, lease: Lease) -> tuple[Sequence[Any], dict[str, Any]]:
        """The call a leased job asks for, rebuilt by its task's hints where the code is here."""
        _check_lease(lease)
        payload, codec = inline(self.blobs, lease.payload, lease.codec)
        passed: list[Any] | None = None
        if passes_results(payload):
            found = fetch_results(self.store, lease.job_id, self.blobs)
            passed = list(decode_results(found, plain_codec).values())
        return self._codecs.codec_for(lease.task).decode_call(payload, codec, passed)

    def ack(self, lease: Lease, result: Any = None, *, note: Any = None) -> Settled:
        """The job is done. Raises LeaseLostError if the lease is no longer yours."""
        _check_lease(lease)
        codec = self._codecs.codec_for(lease.task)
        data, encoding = codec.encode_result(result, self._bytes_max), codec.name
        attached = None if note is None else encode_document(note, "the note")
        if self.blobs is not None and len(data) > PAYLOAD_BYTES_MAX:
            data, encoding = self.blobs.keep_result(lease, data, encoding)
        with self._settling(lease):
            return self._leases_of(lease).complete(lease, data, note=attached, codec=encoding)

    def nack(
        self,
        lease: Lease,
        error: BaseException | str = "",
        *,
        requeue: bool | None = None,
        retry_after: Seconds | None = None,
    ) -> Settled:
        """The attempt failed; the answer says whether, and when, there will be another one.

        By default, the standard lists decide which exceptions are worth another try; `requeue` and
        `retry_after` override them. With `requeue=False` the job is dead at once. `retry_after`
        overrules its backoff. It counts as a failure for the task's circuit breaker, if the task is
        here.
        """
        _check_lease(lease)
        pause = seconds_or_none("retry_after", retry_after)
        if requeue is None and retry_after is not None:
            requeue = True
        described: BaseException | JobError = (
            JobError("Nack", error or "not acknowledged") if isinstance(error, str) else error
        )
        with self._settling(lease):
            return self._leases_of(lease).fail(
                lease, described, retryable=requeue, retry_after_seconds=pause
            )

    def keep_alive(self, lease: Lease, *, on_lost: OnLost | None = None) -> KeepAlive:
        """Renew a lease in the background while a block runs: `with queue.keep_alive(lease):`.

        `async with` does the same. Raises LeaseLostError at the start if the lease is over. If it
        is lost later, `is_lost` of the object that the block gets becomes true, and `on_lost` is
        called from another thread: then stop, and leave the job to its new holder. It ends with the
        block, or when the lease is settled inside. Leases that one consumer keeps in several
        threads share one heartbeat.
        """
        self._check_open()
        _check_lease(lease)
        import_whole("leasehold.queue.keepalive")
        from leasehold.queue.keepalive import KeepAlive, Keepers

        with self._lock:
            if self._keepers is None:
                self._keepers = Keepers(self.store, self._env, lambda: self._tuning)
        return KeepAlive(self._keepers, lease, on_lost)

    def extend(self, lease: Lease, seconds: Seconds | None = None) -> Renewed:
        """Keep a lease for this many seconds from now (by default, its own length).

        The answer says when it ends, when to extend it next, and whether to stop.
        """
        _check_lease(lease)
        length = _length("seconds", seconds)
        renewal = Renewal(lease.job_id, lease.version, length or lease.lease_seconds)
        [answer] = self.store.renew(lease.worker, [renewal])
        if isinstance(answer, LeaseLostError):
            raise answer
        return answer

    def heartbeat(self, leases: Iterable[Lease]) -> list[Renewed | LeaseLostError]:
        """Keep many leases of one worker alive in one write; one answer each, in order."""
        held = list(leases)
        if not held:
            return []
        if len({lease.worker for lease in held}) > 1:
            raise ValueError("one heartbeat is for the leases of one worker")
        renewals = [Renewal(lease.job_id, lease.version, lease.lease_seconds) for lease in held]
        return self.store.renew(held[0].worker, renewals)

    def peek(self, queue: str | None = None, limit: int = 1) -> list[Job]:
        """The jobs that would be leased next, without leasing them.

        Jobs that wait for a slot of their key are not among them.
        """
        queues = self._queues if queue is None else checked_queues(queue)
        return next_jobs(self.store, queues, limit)

    def requeue(self, job: Lease | JobRef, *, delay: Seconds = 0.0, reason: str = "") -> None:
        """Hand a leased job back, with no attempt spent; or replay a dead or cancelled one."""
        if isinstance(job, Lease):
            with self._settling(job):
                self._leases_of(job).release(job, given_seconds("delay", delay), reason)
        else:
            self._orders.replay(id_of(job))

    # -- inside ------------------------------------------------------------------------------

    @cached_property
    def _tuning(self) -> Tuning:
        import_whole("leasehold.worker.tuning")
        from leasehold.worker.tuning import Tuning

        return Tuning(self.store, self._given_settings)

    def lease_request(
        self,
        limit: int,
        queue: str | Sequence[str] | None,
        worker: str | None,
        tasks: Sequence[TaskLike] | None,
        lease_seconds: Seconds | None = None,
        parent: JobRef | None = None,
    ) -> LeaseRequest:
        """The request that a lease call sends to the store."""
        self._check_open()
        return LeaseRequest(
            worker=worker or name_of_this_process(),
            queues=checked_queues(self._queues if queue is None else queue),
            limit=checked.at_least(0, "limit", limit),
            lease_seconds=self._lease_seconds,
            lease_seconds_override=_length("lease_seconds", lease_seconds),
            tasks=None if tasks is None else tuple(checked_name_of(task) for task in tasks),
            parent_id=None if parent is None else id_of(parent, "parent"),
        )

    def _take(self, request: LeaseRequest, wait: Seconds, answer: Callable[[list[Lease]], T]) -> T:
        """Lease, waiting for the first job. Who is interrupted before the answer leases nothing."""
        clock = self._env.clock
        end = clock.monotonic() + given_seconds("wait", wait)
        while True:
            seen = self.ready.count
            self._sweep_if_due()
            granted: list[Lease] = []
            try:
                with self._keeping:
                    exchange = self._ask(request)
                    granted = exchange.leases
                self._tuning.note(exchange.settings_generation)
                left = end - clock.monotonic()
                if granted or left <= 0:
                    return answer(granted)
            except Interrupted:
                if SHIELD.is_closed():
                    raise
                continue  # Nothing had begun, and the handlers that were called did not raise.
            except BaseException:
                try:
                    self.hand_back(granted)
                except BaseException:
                    # A second Ctrl-C, perhaps before anything was handed back; twice does no harm.
                    self.hand_back(granted)
                    raise
                raise
            self.ready.wait(seen, self.ready.pause_seconds(exchange, left))

    def _sweep_if_due(self) -> None:
        """There may be no worker anywhere that would sweep: consumers do it when they lease."""
        self._check_open()
        now = self._env.clock.monotonic()
        interval = self._tuning.seconds("sweep_interval")
        if self._enable_recovery and (
            self._last_sweep is None or now - self._last_sweep >= interval
        ):
            self._last_sweep = now
            try:
                self.store.recover()
            except StoreBusyError as error:
                # The lease need not fail for that: somebody sweeps when the other write is over.
                logger.debug("no sweep: %s", error)

    def try_lease(self, request: LeaseRequest) -> Exchange:
        """Lease what is available now, without waiting."""
        self._sweep_if_due()
        exchange = self._ask(request)
        self._tuning.note(exchange.settings_generation)
        return exchange

    def _ask(self, request: LeaseRequest) -> Exchange:
        """One exchange with the store, which now and then registers the consumer on the way."""
        try:
            with SHIELD:
                asked = self._presence.told_with(request)
            return self.store.exchange((), asked)
        except BaseException:
            with SHIELD:
                self._presence.was_not_told(request)
            raise

    def hand_back(self, leases: Sequence[Lease]) -> None:
        """Release leases whose caller left before it had them, with no attempt spent."""
        while leases:
            try:
                # They end in their own time if the store is away.
                with suppress(LeaseholdError), self._keeping:
                    self.store.exchange(handed_back(leases))
                return
            except Interrupted:
                if SHIELD.is_closed():
                    raise
                # Nothing had begun, and the handlers that were called did not raise.

    def _settling(self, lease: Lease) -> AbstractContextManager[None]:
        """While a lease is settled, it is not renewed here."""
        return nullcontext() if self._keepers is None else self._keepers.settling(lease)

    def _leases_of(self, lease: Lease) -> LeaseManager:
        import_whole("leasehold.worker.leases")
        from leasehold.worker.leases import LeaseManager

        return LeaseManager(self.store, lease.worker, breakers=self._breaker_of)

    def _breaker_of(self, task: str) -> Breaker | None:
        """A task's circuit breaker; None if its code is not here."""
        try:
            return self._registry.find(task).breaker
        except UnknownTaskError:
            return None


def _length(name: str, given: Seconds | None) -> float | None:
    """The length of a lease in seconds; raises ValueError for an invalid one."""
    seconds = seconds_or_none(name, given)
    if seconds is not None and not 0 < seconds <= SECONDS_MAX:
        raise ValueError(f"{name} must be above 0 and at most ten years in seconds, not {given!r}")
    return seconds


def _first(leases: list[Lease]) -> Lease | None:
    return leases[0] if leases else None


def _all(leases: list[Lease]) -> list[Lease]:
    return leases


def _check_lease(lease: object) -> None:
    """Raise TypeError for anything but a lease, usually the None of an empty queue."""
    if not isinstance(lease, Lease):
        hint = ": lease() found no job, so there is nothing to settle" if lease is None else ""
        raise TypeError(f"a lease was expected, not {lease!r}{hint}")

"""Queues themselves: their rules and state, and why one of their jobs is not running."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

from msgspec.structs import asdict

from leasehold.core.contract.store import Store
from leasehold.core.model.durations import Seconds, read_seconds
from leasehold.core.model.job import Job
from leasehold.core.model.key_limits import NO_KEY, KeyInfo
from leasehold.core.model.phrases import listed
from leasehold.core.model.queue_config import QueueConfig, QueueInfo, QueueState, check_queue_name
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.reason import Reason, ReasonKind, reason_for, with_stuck_slots
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.refusals import no_queue
from leasehold.core.model.search import JobFilter
from leasehold.core.model.text import plain
from leasehold.errors import (
    ForbiddenError,
    InvalidJobError,
    InvalidQueueError,
    QueueExistsError,
    QueueNotFoundError,
)
from leasehold.queue.filters import FilterFields, filter_of
from leasehold.queue.looking import Looking
from leasehold.queue.options import JobRef, RetryLike, retry_policy
from leasehold.queue.upkeep import lost_workers

IfExists = Literal["error", "keep", "update"]
"""How to treat a queue that already has other rules."""


if TYPE_CHECKING:
    from leasehold.worker.worker import Worker


class QueueOptions(TypedDict, total=False):
    """The rules that a queue may have; None removes one. See `QueueConfig`."""

    max_depth: int | None
    max_concurrency: int | None
    rate_per_second: float | None
    client_rate_per_second: float | None
    key_concurrency: int | None
    key_rate_per_second: float | None
    starts_per_second: float | None
    key_starts_per_second: float | None
    lease_seconds: Seconds | None
    max_retries: int | None
    retry: RetryLike | None
    aging_factor: Seconds | None
    max_aging_bonus: float
    retry_penalty: float
    deadline_weight: float
    deadline_horizon: Seconds
    rebalance_interval: Seconds
    fifo_mode: bool
    max_priority: int | None
    retention: QueueRetention | Mapping[str, Seconds | None] | None


DURATIONS: Final = ("lease_seconds", "aging_factor", "deadline_horizon", "rebalance_interval")
"""The rules that are durations."""


class Queues:
    """The part of a TaskQueue that gives queues their rules.

    >>> from leasehold import TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> queue.create_queue("mail", max_concurrency=5).config
    QueueConfig(max_concurrency=5)
    >>> job = queue.submit("send", "a@b.c", queue="mail")
    >>> queue.pause_queue("mail").state
    <QueueState.PAUSED: 'paused'>
    >>> print(queue.why(job))
    Queue 'mail' is paused: none of its jobs is leased until it is resumed.
    """

    def __init__(
        self,
        store: Store,
        actor: str,
        looking: Looking,
        own_worker: Callable[[], Worker | None],
    ) -> None:
        """`own_worker` is asked for the worker of this process, if it has one."""
        self._own_worker = own_worker
        self.store = store
        self._actor = actor
        self._looking = looking

    # -- rules -------------------------------------------------------------------------------

    def create_queue(
        self, name: str, *, if_exists: IfExists = "error", **options: Unpack[QueueOptions]
    ) -> QueueInfo:
        """Give a new queue its rules: `create_queue("mail", max_concurrency=5)`.

        Doing it again with the same rules changes nothing. If it has different rules by now,
        `if_exists` decides: "error" raises QueueExistsError, which names them; "keep" leaves them
        unchanged; "update" sets these, and removes rules that are not named. A program that creates
        its queues when it starts should use "keep" if operators may change the rules meanwhile, and
        "update" if the code should prevail.

        The rules are the fields of `QueueConfig`: max_depth, max_concurrency, rate_per_second,
        client_rate_per_second, key_concurrency, key_rate_per_second, starts_per_second,
        key_starts_per_second, lease_seconds, max_retries, retry, aging_factor, max_aging_bonus,
        retry_penalty, deadline_weight, deadline_horizon, rebalance_interval, fifo_mode,
        max_priority and retention.
        """
        check_queue_name(name)
        if if_exists not in ("error", "keep", "update"):
            raise InvalidQueueError(
                f"if_exists must be 'error', 'keep' or 'update', not {if_exists!r}"
            )
        config = QueueConfig.of(plain_rules(options))
        try:
            return self.store.create_queue(name, config, actor=self._actor)
        except QueueExistsError:
            if if_exists == "error":
                raise
            if if_exists == "keep":
                return self.queue_info(name)
            return self.store.update_queue(name, asdict(config), actor=self._actor)
        except ForbiddenError:
            # A client whose token only runs jobs may declare a queue that already exists.
            info = self.store.queue_info(name)
            if info is None or not (if_exists == "keep" or info.config == config):
                raise
            return info

    def update_queue(self, name: str, **changes: Unpack[QueueOptions]) -> QueueInfo:
        """Change the named rules of a queue; None removes a rule.

        Running workers in all processes follow at once.
        """
        check_queue_name(name)
        try:
            return self.store.update_queue(name, plain_rules(changes), actor=self._actor)
        except QueueNotFoundError:
            raise no_queue(name, self.store.queues()) from None

    def queue_config(self, name: str) -> QueueConfig:
        """A queue's rules; raises QueueNotFoundError for an unknown queue."""
        return self.queue_info(name).config

    def queue_info(self, name: str) -> QueueInfo:
        """A queue's rules and state, and how many of its jobs are pending and running."""
        check_queue_name(name)
        info = self.store.queue_info(name)
        if info is None:
            raise no_queue(name, self.store.queues())
        return info

    def key_info(self, name: str, limit_key: str) -> KeyInfo:
        """How many jobs of a limit key run in a queue, and when the next of them may start."""
        check_queue_name(name)
        return self.store.key_info(name, limit_key)

    def list_queues(self) -> list[QueueInfo]:
        """Every queue that was created or ever held a job: rules, state and counts, by name."""
        return self.store.list_queues()

    # -- state -------------------------------------------------------------------------------

    def pause_queue(self, name: str) -> QueueInfo:
        """Stop leasing jobs of a queue. It still accepts jobs, and running jobs continue."""
        return self._set_state(name, QueueState.PAUSED)

    def resume_queue(self, name: str) -> QueueInfo:
        """Resume leasing from a paused queue, or let a draining one accept jobs again."""
        return self._set_state(name, QueueState.ACTIVE)

    def drain_queue(self, name: str) -> QueueInfo:
        """Stop accepting jobs in a queue; the jobs in it still run."""
        return self._set_state(name, QueueState.DRAINING)

    def _set_state(self, name: str, state: QueueState) -> QueueInfo:
        check_queue_name(name)
        return self.store.set_queue_state(name, state, actor=self._actor)

    # -- jobs --------------------------------------------------------------------------------

    def purge_queue(
        self, name: str, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> int:
        """Delete the waiting jobs of a queue, or the matching ones; returns their number.

        Running and ended jobs stay. For jobs that depend on a deleted one, it counts as cancelled:
        by their `on_dependency_failure` they are cancelled, fail, or continue.
        """
        check_queue_name(name)
        wanted = filter_of(where, fields)
        purged = 0
        more = True
        while more:
            answer = self.store.purge_queue(name, wanted, actor=self._actor)
            purged += answer.purged
            more = answer.more
        return purged

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        """Delete a queue, with its rules and state. Raises QueueNotEmptyError if it has jobs.

        With `force`, waiting jobs become dead letters, with the reason, and running jobs may
        finish. Returns how many became dead letters.
        """
        check_queue_name(name)
        return self.store.delete_queue(name, force=force, actor=self._actor)

    def why(self, job: JobRef) -> Reason:
        """Why a job is not running: the first reason that applies.

        It reads several things one after another, so the answer is as of a moment ago.
        """
        snapshot, workers = self._looking.get(job), self.store.workers()
        reason = reason_in(self.store, snapshot, workers)
        own = self._own_worker()
        if own is None or own.free_slots:
            return reason
        others = [each for each in workers if each.id != own.id]
        stuck = own.statistics.stuck
        return with_stuck_slots(reason, snapshot, others, own.id, own.slots, stuck)


def reason_in(store: Store, job: Job, workers: Sequence[WorkerInfo]) -> Reason:
    """Why a job is not running, as far as these workers are known."""
    info = store.queue_info(job.queue)
    if info is None:
        raise no_queue(job.queue, store.queues())
    key = job.limit_key
    known = (
        job,
        info,
        workers,
        store.position(job.id),
        store.now(),
        NO_KEY if key is None else store.key_info(job.queue, key),
        lost_workers(store),
    )
    reason = reason_for(*known)
    if reason.kind is ReasonKind.NO_WORKER and store.describe().get("kind") == "memory":
        return reason_for(*known, is_in_memory=True)
    return reason


def plain_rules(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as fields of a QueueConfig: a retry may also be given as a list or a number, a
    retention as a mapping, and a duration as text.
    """
    given: dict[str, Any] = {
        name: plain(read_seconds(value) if name in DURATIONS else value)
        for name, value in options.items()
    }
    if isinstance(given.get("retention"), Mapping):
        given["retention"] = _retention(given["retention"])
    if given.get("retry") is not None:
        try:
            given["retry"] = retry_policy(given["retry"])
        except InvalidJobError as error:
            raise InvalidQueueError(str(error)) from None
    return given


def _retention(seconds: Mapping[str, Any]) -> QueueRetention:
    unknown = seconds.keys() - set(QueueRetention.__struct_fields__)
    if unknown:
        names = listed(QueueRetention.__struct_fields__)
        raise InvalidQueueError(f"a queue's retention has no {min(unknown)!r}; there are {names}")
    kept: dict[str, Any] = {name: plain(value) for name, value in seconds.items()}
    return QueueRetention(**kept)

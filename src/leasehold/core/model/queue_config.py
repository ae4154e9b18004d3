"""A queue's own rules: how many jobs it holds and runs, how fast they arrive, and its defaults.

A queue without a configuration has no rules: it takes every job, and runs as many as it can. The
rules are kept in the store and read inside the write that submits or leases, so a change takes
effect at once, in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from leasehold.core.model.job import Draft
from leasehold.core.model.key_limits import KeyLimits
from leasehold.core.model.limits import LEASE_SECONDS_MIN, NAME_LENGTH_MAX, SECONDS_MAX
from leasehold.core.model.phrases import did_you_mean, listed
from leasehold.core.model.priority import Scoring
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.rate import Rate
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear, RetryPolicy
from leasehold.core.model.start_rate import StartRate
from leasehold.core.model.status import Status
from leasehold.core.model.text import make_plain
from leasehold.errors import InvalidQueueError, QueueClosedError

RETRIES_MAX: Final = 1_000_000
COUNT_MAX: Final = 1_000_000_000


class QueueState(StrEnum):
    """Whether a queue accepts jobs and lets workers lease them."""

    ACTIVE = "active"
    PAUSED = "paused"
    """No job is leased; jobs are accepted, and running jobs continue."""
    DRAINING = "draining"
    """No job is accepted; the queue's jobs finish."""
    DELETING = "deleting"
    """Nothing is accepted or leased: waiting jobs become dead letters, then the queue is forgotten.
    Only `delete_queue` sets this state, and only its completion ends it.
    """
    DELETED = "deleted"
    """Its rules are forgotten and nothing has been submitted to it since; jobs that had ended or
    were still running remain. No stored rule has this state: a store derives it from its counters.
    """

    @property
    def is_leased_from(self) -> bool:
        """Whether jobs of the queue are leased."""
        return self not in _LEASED_FROM_NO_MORE


_LEASED_FROM_NO_MORE: Final = frozenset({QueueState.PAUSED, QueueState.DELETING})


def being_deleted(queue: str) -> QueueClosedError:
    """The error for any request to a queue that is being deleted."""
    return QueueClosedError(
        f"queue {queue!r} is being deleted: try again when that is done (any worker's sweep "
        "finishes it)"
    )


def _check_count(
    name: str, value: int | None, least: int, advice: str, largest: int = COUNT_MAX
) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= largest:
        raise InvalidQueueError(
            f"{name} must be a whole number from {least} to {largest:,}, or None for no limit, "
            f"not {value!r} ({advice})"
        )


def _check_number(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidQueueError(f"{name} must be a number, not {value!r}")


def _check_rate(name: str, value: float | None) -> None:
    if value is not None:
        _check_number(name, value)
        try:
            Rate(value)
        except InvalidQueueError as error:
            raise InvalidQueueError(f"{name}: {error}") from None


class QueueConfig(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    dict=True,
):
    """The rules of one queue. None means: no limit, or no default of its own.

    >>> QueueConfig(max_concurrency=5).changed({"max_depth": 100})
    QueueConfig(max_depth=100, max_concurrency=5)
    """

    max_depth: int | None = None
    """How many jobs may be pending at a submit. Retries and recoveries bypass the limit."""
    max_concurrency: int | None = None
    """How many jobs may run at once, over all workers."""
    rate_per_second: float | None = None
    """How many jobs may be submitted per second, with bursts of two seconds' worth."""
    client_rate_per_second: float | None = None
    """The same for each client separately; jobs without a client share one."""
    key_concurrency: int | None = None
    """How many jobs of one limit key may run at once; jobs without a key are not limited."""
    key_rate_per_second: float | None = None
    """How many jobs of one limit key may be submitted per second; without a key, any number."""
    starts_per_second: float | None = None
    """How many jobs may start per second, over all workers: evenly spaced, never more."""
    key_starts_per_second: float | None = None
    """The same for the jobs of each limit key; jobs without a key are not limited."""
    lease_seconds: float | None = None
    """The lease of jobs without their own."""
    max_retries: int | None = None
    """The retries of jobs without their own number."""
    retry: RetryPolicy | None = None
    """The delays before retries of jobs without their own."""
    aging_factor: float | None = 3600.0
    """How long a job waits for one more point of priority; none: waiting does not count."""
    max_aging_bonus: float = 50.0
    """How many points a job can gain by waiting."""
    retry_penalty: float = 2.0
    """How many points each spent attempt costs."""
    deadline_weight: float = 30.0
    """How many points a job has gained when its deadline comes."""
    deadline_horizon: float = 3600.0
    """How long before its deadline a job begins to gain points."""
    rebalance_interval: float = 60.0
    """How long the order may lag behind the formula."""
    fifo_mode: bool = False
    """Order strictly by priority, then by submission, without these points."""
    max_priority: int | None = None
    """A cap on the priority of its jobs."""
    retention: QueueRetention | None = None
    """How long its ended jobs are kept; otherwise the store's policy applies."""

    def __post_init__(self) -> None:
        make_plain(self)
        _check_count("max_depth", self.max_depth, 1, "to accept nothing, drain the queue")
        _check_count(
            "max_concurrency", self.max_concurrency, 1, "to let nothing run, pause the queue"
        )
        _check_count(
            "key_concurrency", self.key_concurrency, 1, "to let nothing run, pause the queue"
        )
        _check_count("max_retries", self.max_retries, 0, "0 means never", largest=RETRIES_MAX)
        _check_rate("rate_per_second", self.rate_per_second)
        _check_rate("client_rate_per_second", self.client_rate_per_second)
        _check_rate("key_rate_per_second", self.key_rate_per_second)
        _check_rate("starts_per_second", self.starts_per_second)
        _check_rate("key_starts_per_second", self.key_starts_per_second)
        if self.lease_seconds is not None:
            _check_number("lease_seconds", self.lease_seconds)
            if not LEASE_SECONDS_MIN <= self.lease_seconds <= SECONDS_MAX:
                raise InvalidQueueError(
                    f"lease_seconds must be from {LEASE_SECONDS_MIN:g} second to ten years, not "
                    f"{self.lease_seconds!r}"
                )
        if not isinstance(self.retry, Exponential | Linear | Constant | Delays | None):
            raise InvalidQueueError(f"retry must be a retry policy, not {self.retry!r}")
        if not isinstance(self.retention, QueueRetention | None):
            raise InvalidQueueError(f"retention must be a QueueRetention, not {self.retention!r}")
        _ = self.scoring  # Raises for invalid parameters.

    @cached_property
    def scoring(self) -> Scoring:
        """The parameters of the order of service."""
        return Scoring(**{name: getattr(self, name) for name in Scoring.__struct_fields__})

    @cached_property
    def start_rate(self) -> StartRate | None:
        """How fast its jobs may start."""
        return None if self.starts_per_second is None else StartRate(self.starts_per_second)

    @cached_property
    def key_start_rate(self) -> StartRate | None:
        """How fast the jobs of one key may start."""
        rate = self.key_starts_per_second
        return None if rate is None else StartRate(rate)

    @cached_property
    def key_limits(self) -> KeyLimits | None:
        """The limits of each key; None if keys do not affect its leases."""
        if self.key_concurrency is None and self.key_starts_per_second is None:
            return None
        return KeyLimits(self.key_concurrency, self.key_start_rate)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> QueueConfig:
        """A config from options by name; an unknown one is refused."""
        unknown = options.keys() - set(cls.__struct_fields__)
        if unknown:
            names, name = cls.__struct_fields__, min(unknown)
            near = did_you_mean(name, names)
            raise InvalidQueueError(
                f"unknown queue option {name!r}{near}"
                f"{' The options are' if near else '; there are'} {listed(names)}"
            )
        return cls(**{name: _from_data(name, each) for name, each in options.items()})

    def changed(self, changes: Mapping[str, Any]) -> QueueConfig:
        """The rules with those named changed; None removes one."""
        return QueueConfig.of({**msgspec.structs.asdict(self), **changes})

    def applied_to(self, draft: Draft) -> Draft:
        """The draft with this queue's defaults where it names none."""
        defaults = {
            name: value
            for name in ("lease_seconds", "max_retries", "retry")
            if (value := getattr(self, name)) is not None and getattr(draft, name) is None
        }
        return msgspec.structs.replace(draft, **defaults) if defaults else draft


def _from_data(name: str, value: Any) -> Any:
    """A rule that may have come over a network as plain data; policies become structs."""
    if not isinstance(value, dict):
        return value
    try:
        return getattr(msgspec.convert({name: value}, QueueConfig), name)
    except msgspec.ValidationError as error:
        raise InvalidQueueError(f"{name}: {error}") from None


DEFAULT_CONFIG: Final = QueueConfig()
"""The configuration of a queue without rules."""


class QueueRule(NamedTuple):
    """The rules set for a queue, if any were set."""

    state: QueueState = QueueState.ACTIVE
    config: QueueConfig = QueueConfig()
    deleted_by: str | None = None
    """The actor who is deleting the queue."""
    problem: str | None = None
    """Why the rules cannot be read, if so: then nothing is leased or accepted, instead of ignoring
    them.
    """
    created_at: datetime | None = None
    """When somebody created the queue; None if it came with its first job."""
    created_by: str | None = None
    changed_at: datetime | None = None
    changed_by: str | None = None


DELETED_RULE: Final = QueueRule(state=QueueState.DELETED)
"""The rule shown for a deleted queue; no store keeps it."""


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it was at one moment."""

    name: str
    state: QueueState = QueueState.ACTIVE
    config: QueueConfig = QueueConfig()
    pending: int = 0
    running: int = 0
    counts: dict[Status, int] = {}
    """How many of its jobs have each status."""
    held_until: dict[str, datetime] = {}
    """Tasks of this queue held back by their circuit breaker, and until when."""
    next_start_at: datetime | None = None
    """When the next job may start by `starts_per_second`, if not at once."""
    created_at: datetime | None = None
    """When it was created; if nobody created it, when its first job arrived."""
    created_by: str | None = None
    """None for a queue that came with its first job."""
    changed_at: datetime | None = None
    """When its rules or state last changed, creation included; None for never."""
    changed_by: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether it was deleted and has nothing left."""
        return self.state is QueueState.DELETED and not any(self.counts.values())


def check_queue_name(name: str) -> None:
    """Raise InvalidQueueError for an invalid queue name."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidQueueError(f"a queue's name must be a non-empty printable string: {name!r}")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidQueueError(
            f"a queue's name has at most {NAME_LENGTH_MAX} characters, not {len(name)}"
        )

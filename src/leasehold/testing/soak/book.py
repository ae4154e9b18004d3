"""The book: the memory of the simulated programs and the judges, beside the store's state."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from leasehold.core.model.job import Job
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, Settled, Settlement
from leasehold.core.model.pins import Pin
from leasehold.core.model.status import Event
from leasehold.core.model.tokens import Token
from leasehold.core.rules.operations import Operation, Plan
from leasehold.core.rules.replies import REPLIES_KEPT_SECONDS
from leasehold.testing.soak.calls import REPEAT, Call

REPLIES_KEPT: Final = timedelta(seconds=REPLIES_KEPT_SECONDS)


@dataclass(slots=True)
class KeyInWindow:
    """An idempotency key in its window."""

    job_id: str
    work: tuple[str, bytes, str]
    """Task, payload and codec."""
    expires_at: datetime


@dataclass(slots=True)
class Bucket:
    """Jobs that came to a queue under a rate: when each was let in."""

    rate: float
    moments: list[datetime] = field(default_factory=list)


@dataclass(slots=True)
class HeldTask:
    """A task that its circuit breaker holds back."""

    failures: int = 0
    until: datetime | None = None
    pause_seconds: float = 0.0


@dataclass(slots=True)
class LeasePromise:
    """A lease's promise: how long its holder may live with it."""

    awake: float
    """When it was granted or renewed, in seconds that the machine was awake."""
    seconds: float


@dataclass(slots=True)
class Answered:
    """A request under an id of its own, and its answer."""

    asked: Call
    answer: Any
    at: datetime


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan, and the jobs that it has counted, as they were."""

    plan: Plan
    jobs: dict[str, Job]


@dataclass(slots=True)
class KnownOperation:
    """An operation, and the jobs it was done to."""

    last: Operation
    """As it was told last."""
    planned: dict[str, Job]
    undoes: str | None
    undone_by: str | None = None
    changed: dict[str, tuple[Job, Job | None]] = field(default_factory=dict)
    """By id, the jobs that it was done to: before, and as it left them."""


@dataclass(slots=True)
class Untold:
    """The changes that the feed has yet to tell."""

    events: dict[str, list[tuple[int, Event]]] = field(default_factory=lambda: defaultdict(list))
    """By job, the numbers and names of its events."""
    gone: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Book:
    """The memory of one run."""

    # What programs know.
    last_number: int = 0
    gone_ids: list[str] = field(default_factory=list)
    held: list[Lease] = field(default_factory=list)
    """Leases whose holders live and know of them."""
    past: list[Lease] = field(default_factory=list)
    """Leases that were settled or lost; a careless holder uses them again."""
    stopped: list[tuple[int, Lease]] = field(default_factory=list)
    """Leases of holders that stand still, and the step in which they come back."""
    late: list[tuple[int, Call]] = field(default_factory=list)
    """Requests under way, and the step in which they arrive."""
    prune_run: tuple[int, Call] | None = None
    requests: dict[str, Answered] = field(default_factory=dict)
    """By their ids, the requests that were carried out."""

    digests: list[str] = field(default_factory=list)
    """Of secrets that tokens were made for."""

    # What judges remember.
    tokens: dict[str, tuple[str, Token]] = field(default_factory=dict)
    """By name, the digests and tokens that were made and not revoked."""
    found_tokens: dict[str, Token] = field(default_factory=dict)
    """By digest, every token that was ever good."""
    sessions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By the name of their token, the sessions that are over."""
    pins: dict[tuple[str, str], Pin] = field(default_factory=dict)
    """By kind and name."""
    store_id: str | None = None
    plans: list[KnownPlan] = field(default_factory=list)
    operations: dict[str, KnownOperation] = field(default_factory=dict)
    """By id, the first first."""
    untold: Untold | None = None
    """None before anybody follows the change feed."""
    granted: dict[str, int] = field(default_factory=dict)
    """The highest lease version of each id; it outlives the job."""
    keys: dict[tuple[str, str], KeyInWindow] = field(default_factory=dict)
    buckets: dict[tuple[str, str, str], Bucket] = field(default_factory=dict)
    """By queue, kind of rate and name."""
    starts: dict[tuple[str, str | None], Bucket] = field(default_factory=dict)
    """By queue, and by queue and key: when jobs were leased under a start rate."""
    breakers: dict[tuple[str, str], HeldTask] = field(default_factory=lambda: defaultdict(HeldTask))
    kept: dict[tuple[str, int], LeasePromise] = field(default_factory=dict)
    settled: dict[tuple[str, int], tuple[Settlement, Settled]] = field(default_factory=dict)
    """By job and version, the settlements that were accepted, and their answers."""
    ticks: set[tuple[str, str]] = field(default_factory=set)
    """Schedules and ticks whose jobs were submitted."""
    lines: dict[str, list[LogLine]] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)
    """Ids that were given to a second job: who waited for the first does not wait for it."""
    replayed: set[str] = field(default_factory=set)
    reordered: dict[str, datetime] = field(default_factory=dict)
    """When the order of a queue was last changed by its rules."""
    clocks: bool = False
    """Whether somebody turns the clocks in this run."""
    clock_repaired: bool = False

    def new_id(self) -> str:
        self.last_number += 1
        return f"job-{self.last_number}"

    def new_request_id(self) -> str:
        self.last_number += 1
        return f"request-{self.last_number}"

    def new_operation_id(self) -> str:
        self.last_number += 1
        return f"operation-{self.last_number}"

    def new_digest(self) -> str:
        self.last_number += 1
        self.digests.append(f"digest-{self.last_number}")
        return self.digests[-1]

    def as_repeated(self, asked: Call, now: datetime) -> Call:
        """A call unchanged; or, if it was carried out before under its id, one that repeats it."""
        first = None if asked.request_id is None else self.requests.get(asked.request_id)
        if first is None or first.at + REPLIES_KEPT < now:
            return asked
        return Call(REPEAT, {"first": asked})

    def let_go(self, job_id: str, version: int) -> None:
        """A lease was settled: only a careless holder still uses it."""
        for lease in self.held:
            if (lease.job_id, lease.version) == (job_id, version):
                self.held.remove(lease)
                self.past.append(lease)
                return

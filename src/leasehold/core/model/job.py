"""The job: the request (`Draft`) and a caller's view of it (`Job`, a frozen snapshot)."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import IntEnum
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec.structs import astuple

from leasehold.core.model.blob import BLOB_CODEC, decode_reference, names_blob_of
from leasehold.core.model.draft_checks import (
    check_lease_seconds,
    check_metadata,
    check_moment,
    check_name,
    check_seconds,
)
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import JobError
from leasehold.core.model.phrases import listed
from leasehold.core.model.plain_data import plain
from leasehold.core.model.retry import RetryPolicy
from leasehold.core.model.status import Status
from leasehold.errors import (
    IdempotencyConflictError,
    InvalidJobError,
    PayloadError,
    PayloadTooLargeError,
)

DEFAULT_QUEUE: Final = "default"
COMMAND_TASK: Final = "command"
"""The built-in task that runs a program or a shell command."""
DEFAULT_MAX_RETRIES: Final = 3
DEFAULT_LEASE_SECONDS: Final = 300.0

MetadataValue = str | int | float | bool | None
DependencyPolicy = Literal["cancel", "fail", "ignore"]


class Priority(IntEnum):
    """Names for common priorities; any whole number from 0 to 100 will do. Higher runs first."""

    LOW = 25
    MEDIUM = 50
    HIGH = 75
    CRITICAL = 100


PriorityLike = int | Literal["low", "medium", "high", "critical"]


def priority_of(value: PriorityLike) -> int:
    """A priority as a number, from a number or a name.

    >>> priority_of("high"), priority_of(10)
    (75, 10)
    """
    if isinstance(value, str):
        try:
            return Priority[value.upper()].value
        except KeyError:
            names = [name.lower() for name in Priority.__members__]
            known = listed([*names, "0 to 100"], "or")
            raise InvalidJobError(f"priority must be {known}, not {value!r}") from None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise InvalidJobError(f"priority must be a whole number from 0 to 100, not {value!r}")
    return int(value)


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that is ready to be stored: encoded, with every option settled."""

    id: str
    task: str
    payload: bytes = b'{"args":[],"kwargs":{}}'
    codec: str = "json"
    queue: str = DEFAULT_QUEUE
    priority: int = Priority.MEDIUM.value
    max_retries: int | None = None
    """None means the queue's default, or 3 if the queue has none."""
    run_at: datetime | None = None
    delay_seconds: float | None = None
    """Counted from the time of submission by the store's clock; excludes run_at."""
    deadline: datetime | None = None
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    lease_seconds: float | None = None
    """None means the queue's default, then the worker's own."""
    start_within_seconds: float | None = None
    """Time to live: a job not started by then is cancelled."""
    result_ttl_seconds: float | None = None
    """Counted from the job's completion; after that the result is dropped and the job stays."""
    metadata: dict[str, MetadataValue] | None = None
    idempotency_key: str | None = None
    parent_id: str | None = None
    depends_on: tuple[str, ...] = ()
    on_dependency_failure: DependencyPolicy = "cancel"
    client: str | None = None
    """Who submits it, for a queue that limits the rate of each client; not kept with the job."""
    limit_key: str | None = None
    """The tenant, for example, for whom the job runs, in a queue with limits per key."""

    @property
    def allowance(self) -> int:
        """How many attempts it may have in total."""
        retries = self.max_retries
        return 1 + (DEFAULT_MAX_RETRIES if retries is None else retries)

    def check(self, *, schedule: str | None = None) -> None:
        """Raise InvalidJobError, with field and reason, for anything that no store could keep.

        `schedule` is the schedule that submits it; all its jobs share one payload.
        """
        check_name("job id", self.id)
        # There are few queues and tasks: a name that has passed once is not checked again.
        if (self.queue, self.task) not in _KNOWN_NAMES:
            check_name("task", self.task)
            check_name("queue", self.queue)
            if len(_KNOWN_NAMES) < KNOWN_NAMES_MAX:
                _KNOWN_NAMES.add((self.queue, self.task))
        if not 0 <= self.priority <= 100:
            raise InvalidJobError(f"priority must be from 0 to 100, not {self.priority}")
        if astuple(self)[_OPTIONS:] != _NOT_SAID:
            self._check_options()
        if len(self.payload) > PAYLOAD_BYTES_MAX or self.codec == BLOB_CODEC:
            self._check_large(schedule)

    def _check_options(self) -> None:
        if self.max_retries is not None and not (
            type(self.max_retries) is int and 0 <= self.max_retries <= 1_000_000
        ):
            raise InvalidJobError(
                "max_retries must be a whole number from 0 (never) to 1,000,000, "
                f"not {self.max_retries!r}"
            )
        if self.metadata is not None:
            check_metadata(self.metadata)
        if self.idempotency_key is not None:
            check_name("idempotency_key", self.idempotency_key)
        if self.parent_id is not None:
            check_name("parent_id", self.parent_id)
        if self.client is not None:
            check_name("client", self.client)
        if self.limit_key is not None:
            check_name("limit_key", self.limit_key)
        self._check_times()
        if self.depends_on:
            self._check_dependencies()

    def _check_large(self, schedule: str | None) -> None:
        if len(self.payload) > PAYLOAD_BYTES_MAX:
            raise PayloadTooLargeError(
                f"the payload of job {self.id} has {len(self.payload):,} bytes; at most "
                f"{PAYLOAD_BYTES_MAX:,} are kept: store the data elsewhere and submit a reference"
            )
        if not (
            names_blob_of(self.payload, "payload", self.id)
            if schedule is None
            else names_blob_of(self.payload, "schedule", schedule)
        ):
            raise InvalidJobError(
                f"the payload of job {self.id} names a blob that was not written for it: submit "
                "the data itself"
            )

    def _check_dependencies(self) -> None:
        for needed in self.depends_on:
            check_name("depends_on", needed)
        if self.on_dependency_failure not in get_args(DependencyPolicy):
            raise InvalidJobError(
                f"on_dependency_failure must be cancel, fail or ignore, not "
                f"{self.on_dependency_failure!r}"
            )

    def _check_times(self) -> None:
        if self.run_at is not None:
            check_moment("run_at", self.run_at)
            if self.delay_seconds is not None:
                raise InvalidJobError("give either run_at or a delay, not both")
        if self.deadline is not None:
            check_moment("deadline", self.deadline)
        if self.delay_seconds is not None:
            check_seconds("delay", self.delay_seconds)
        if self.timeout_seconds is not None:
            check_seconds("timeout_seconds", self.timeout_seconds)
        if self.lease_seconds is not None:
            check_lease_seconds(self.lease_seconds)
        if self.start_within_seconds is not None:
            check_seconds("start_within_seconds", self.start_within_seconds)
        if self.result_ttl_seconds is not None:
            check_seconds("result_ttl_seconds", self.result_ttl_seconds)

    def fingerprint(self) -> bytes:
        """What two submits under one idempotency key must have in common: task, codec, payload."""
        digest = hashlib.blake2b(digest_size=16)
        payload = self.payload
        if self.codec == BLOB_CODEC:
            # Two blobs with the same data have two keys, and are still the same payload.
            payload = decode_reference(payload).identity()
        for part in (self.task.encode(), self.codec.encode(), payload):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.digest()

    def conflict_with(self, first_id: str) -> IdempotencyConflictError:
        """The error for an idempotency key that was first used for another job."""
        return IdempotencyConflictError(
            f"idempotency key {self.idempotency_key!r} of queue {self.queue!r} is already used by "
            f"job {first_id} with a different task or payload: use another key for job {self.id}"
        )


def is_usual(draft: Draft) -> bool:
    """Whether only the job's id, task, payload, queue and priority are set.

    This runs for every job, so it is one comparison: comparing each option takes ten times as long.
    """
    return astuple(draft)[_OPTIONS:] == _NOT_SAID


_OPTIONS: Final = Draft.__struct_fields__.index("max_retries")
_NOT_SAID: Final = astuple(Draft(id="", task=""))[_OPTIONS:]

KNOWN_NAMES_MAX: Final = 10_000
_KNOWN_NAMES: set[tuple[str, str]] = set()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was at one moment. Changing it changes nothing in the store."""

    id: str
    queue: str
    task: str
    status: Status
    priority: int
    payload_data: bytes
    codec: str = "json"
    created_at: datetime
    updated_at: datetime
    """The last change of its status, or its holder's latest sign of life."""
    run_at: datetime
    """The earliest time at which it may run, or could have run."""
    deadline: datetime | None = None
    started_at: datetime | None = None
    """The start of its latest attempt."""
    completed_at: datetime | None = None
    """When it reached a terminal status."""
    attempts: int = 0
    max_retries: int = DEFAULT_MAX_RETRIES
    allowance: int = DEFAULT_MAX_RETRIES + 1
    """How many attempts it may have in total: max_retries + 1, and one more after a replay."""
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None
    lease_seconds: float | None = None
    start_by: datetime | None = None
    result_ttl_seconds: float | None = None
    worker: str | None = None
    """The holder of its current lease."""
    lease_version: int = 0
    lease_acquired_at: datetime | None = None
    lease_expires_at: datetime | None = None
    heartbeat_at: datetime | None = None
    cancel_requested: str | None = None
    """The reason, once a person asked to stop the running attempt."""
    result_data: bytes | None = None
    result_codec: str = "json"
    result_expired: bool = False
    """Whether there was a result whose time to live is over."""
    error: JobError | None = None
    """Its latest error, even if the attempt was retried since."""
    failure_count: int = 0
    """Attempts that failed or whose worker was lost, over the job's whole life: a replay does not
    reset the count, and it keeps growing when attempt records have reached their bound.
    """
    first_failed_at: datetime | None = None
    last_failed_at: datetime | None = None
    reason: str | None = None
    """Why it was cancelled, declared dead, or waits (snoozed, or released with a delay)."""
    progress: dict[str, Any] | None = None
    metadata: dict[str, MetadataValue] | None = None
    idempotency_key: str | None = None
    parent_id: str | None = None
    depends_on: tuple[str, ...] = ()
    on_dependency_failure: DependencyPolicy = "cancel"
    inherited_priority: int | None = None
    """The priority inherited from jobs that wait for it, if that is above its own."""
    limit_key: str | None = None
    """The key for which it counts in a queue with limits per key."""

    def __repr__(self) -> str:
        """The identifying fields on one line; `msgspec.structs.asdict` has all fields."""
        error = "" if self.error is None else f", error={self.error.type!r}"
        return (
            f"Job({self.id!r}, task={self.task!r}, queue={self.queue!r}, "
            f"status={self.status.value!r}, attempts={self.attempts}{error})"
        )

    def as_dict(self) -> dict[str, Any]:
        """Every field as plain JSON data, for a web handler's answer: times as text in ISO 8601.

        Payload and result are data too; None if only the job's own queue can read them, because
        they are kept in a blob store or pickled.
        """
        stored = ("payload_data", "codec", "result_data", "result_codec")
        fields = {
            name: getattr(self, name) for name in self.__struct_fields__ if name not in stored
        }
        for name in ("payload", "result"):
            try:
                fields[name] = getattr(self, name)
            except PayloadError:
                fields[name] = None
        plain: dict[str, Any] = msgspec.to_builtins(fields)
        return plain

    @property
    def payload(self) -> Any:
        """The payload as plain JSON data."""
        return plain(self.payload_data, self.codec, self.id, "payload")

    @property
    def result(self) -> Any:
        """The result as plain JSON data; None while there is none."""
        if self.result_data is None:
            return None
        return plain(self.result_data, self.result_codec, self.id, "result")

    @property
    def stdout_path(self) -> str | None:
        """Where the output of a command job's latest attempt is kept."""
        return (self.progress or {}).get("stdout_path")

    @property
    def stderr_path(self) -> str | None:
        """Where the error output of a command job's latest attempt is kept."""
        return (self.progress or {}).get("stderr_path")

    @property
    def is_done(self) -> bool:
        """Completed or cancelled."""
        return self.status.is_done

    @property
    def is_terminal(self) -> bool:
        """Completed, cancelled or dead."""
        return self.status.is_terminal

    @property
    def will_retry(self) -> bool:
        """Whether its last attempt failed and another one will follow."""
        return self.status is Status.FAILED

    def age_seconds(self, now: datetime) -> float:
        """How long ago it was submitted."""
        return (now - self.created_at).total_seconds()

    def wait_seconds(self, now: datetime) -> float:
        """How long it waited (or has waited) between being due and its latest start."""
        end = self.started_at or self.completed_at or now
        return max(0.0, (end - max(self.created_at, min(self.run_at, end))).total_seconds())

    def run_seconds(self, now: datetime) -> float | None:
        """How long its latest attempt ran (or has run); None before the first."""
        if self.started_at is None:
            return None
        running = self.status is Status.RUNNING
        end = now if running else self.completed_at or self.updated_at
        return max(0.0, (end - self.started_at).total_seconds())

    def seconds_since_completion(self, now: datetime) -> float | None:
        """How long ago it reached a terminal status; None while it has not."""
        if self.completed_at is None:
            return None
        return max(0.0, (now - self.completed_at).total_seconds())


def last_change(
    created_at: int,
    available_at: int,
    *,
    ended_at: int | None,
    waits_since: int | None,
    heartbeat_at: int | None,
) -> int:
    """When a job was last updated; without an end, a wait and a holder, it is pending."""
    return max(ended_at or waits_since or heartbeat_at or available_at, created_at)

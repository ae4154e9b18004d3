"""Outcomes on their way to the store: each is kept until the store has answered it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from leasehold.core.model.lease import Lease, Settled, Settlement
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome, Release
from leasehold.core.model.retry import why_not_retried
from leasehold.core.model.status import Event
from leasehold.errors import (
    InvalidJobError,
    LeaseLostError,
    RequestTooLargeError,
    StoreError,
)
from leasehold.worker.hooks import Hooks, call_hook
from leasehold.worker.leases import LeaseManager
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

TOO_LARGE: Final = JobError("PayloadTooLargeError", "the job's result is too large for the store")
REFUSED: Final = JobError(
    "PayloadError", "the store refused the job's result or its note; the job's own error says why"
)
"""The only ways in which a job that completed can fail (SET-6)."""

REFUSALS_OF_DATA: Final = (InvalidJobError, RequestTooLargeError, UnicodeEncodeError)
"""Errors of a store, or of the connection to it, about an outcome that it will never accept. Any
other error may be a bug of the store or temporary, and says nothing about the outcome.
"""


class Settling:
    """The outcomes to be settled next, and the treatment of the answers."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._waiting: list[tuple[Lease, Outcome]] = []
        self._last_traceback: str | None = None
        self.completed = 0
        self.failed = 0
        self.dead = 0
        self.handed_back = 0
        """Snoozed or released jobs: no attempt was spent."""
        self.cancelled = 0
        self.lost = 0
        """Lost leases, whose attempts' outcomes were lost with them."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, lease: Lease, outcome: Outcome) -> None:
        self._waiting.append((lease, outcome))

    def add_all(self, decided: list[tuple[Lease, Outcome]]) -> None:
        self._waiting += decided

    def waiting(self) -> list[tuple[Lease, Outcome]]:
        """All outcomes to settle now."""
        return list(self._waiting)

    def one_by_one(
        self, leases: LeaseManager, sent: list[tuple[Lease, Outcome]]
    ) -> Iterator[Lease]:
        """Settle each in a write of its own; an outcome that cannot be stored fails its attempt.

        It fails for good if the outcome's own data are refused; after any other error the job keeps
        its remaining attempts. Yields each settled one.
        """
        for lease, outcome in sent:
            try:
                answer = leases.exchange([Settlement(lease.job_id, lease.version, outcome)])
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - it is told to the job, and logged as its end.
                message = f"the outcome of the attempt cannot be stored: {error!r}"
                is_of_the_data = isinstance(error, REFUSALS_OF_DATA)
                failure = Fail(JobError("StoreError", ascii(message)), retryable=not is_of_the_data)
                answer = leases.exchange([Settlement(lease.job_id, lease.version, failure)])
                self.answered([(lease, failure)], answer.settled)
            else:
                self.answered([(lease, outcome)], answer.settled)
            yield lease

    def answered(
        self, sent: list[tuple[Lease, Outcome]], answers: Sequence[Settled | LeaseLostError]
    ) -> None:
        """Handle the store's answers to the outcomes of `waiting`; those added since still wait."""
        del self._waiting[: len(sent)]
        on_success, completed = self._hooks.on_success, Event.COMPLETED
        for (lease, outcome), answer in zip(sent, answers, strict=True):
            if isinstance(answer, LeaseLostError):
                self.lose(lease, answer)
            elif answer.event is completed and type(outcome) is Complete:
                self.completed += 1
                if on_success is not None:
                    call_hook(on_success, lease, answer)
            elif answer.event is Event.FAILED or answer.event is Event.DEAD:
                self._failed(lease, outcome, answer)
            elif answer.event is Event.CANCELLED:
                self.cancelled += 1
                self._ended(lease, "cancelled")
            elif answer.event is Event.SNOOZED:
                self.handed_back += 1
                self._ended(lease, "snoozed")
            else:
                self.handed_back += 1
                # A delay means that the code is missing here, which was already logged with the
                # reason.
                if not (type(outcome) is Release and outcome.delay_seconds):
                    self._ended(lease, "handed back")

    def completed_itself(self, lease: Lease, answer: Settled) -> None:
        """The attempt was settled in its task's own transaction."""
        self.completed += 1
        call_hook(self._hooks.on_success, lease, answer)

    def lose(self, lease: Lease, error: LeaseLostError | StoreError) -> None:
        """The lease is gone: the outcome of its attempt is discarded."""
        self.lost += 1
        logger.warning(
            "job %s: the result of attempt %d is discarded: %s",
            lease.job_id,
            lease.attempt,
            error,
            extra={"job_id": lease.job_id},
        )
        call_hook(self._hooks.on_lease_lost, lease, error)

    def _ended(self, lease: Lease, how: str) -> None:
        logger.info(
            "job %s (%s): %s", lease.job_id, lease.task, how, extra={"job_id": lease.job_id}
        )

    def _failed(self, lease: Lease, outcome: Outcome, answer: Settled) -> None:
        self.failed += 1
        is_dead = answer.event is Event.DEAD
        self.dead += is_dead
        error = outcome.error if isinstance(outcome, Fail) else _refusal_of(outcome)
        before = self._last_traceback
        if is_dead:
            what_next = f"it is dead: {why_not_retried(error.type, lease.attempt, lease.allowance)}"
        else:
            what_next = f"it will be tried again at {_seconds(answer.run_at)}"
        traceback, self._last_traceback = error.traceback, error.traceback
        if traceback is not None and traceback == before:
            # Thousands of jobs that fail alike must not fill the log with the same text.
            traceback, what_next = None, f"{what_next} (the traceback is the one above)"
        logger.log_with_traceback(
            logging.ERROR if is_dead else logging.WARNING,
            traceback,
            "job %s (%s): attempt %d failed with %s: %s; %s",
            lease.job_id,
            lease.task,
            lease.attempt,
            error.type,
            error.message,
            what_next,
            extra={"job_id": lease.job_id},
        )
        call_hook(self._hooks.on_failure, lease, answer, error)
        if is_dead:
            call_hook(self._hooks.on_dead, lease, answer, error)


def _refusal_of(outcome: Outcome) -> JobError:
    """Why a store has refused an outcome, as far as is known here."""
    result = outcome.result if isinstance(outcome, Complete) else None
    return REFUSED if result is None or len(result) <= PAYLOAD_BYTES_MAX else TOO_LARGE


def _seconds(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else moment.isoformat(timespec="seconds")

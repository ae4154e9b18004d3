"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from leasehold import errors


class Exit(IntEnum):
    """How a command ended, for the program that started it."""

    OK = 0
    FAILURE = 1
    """The command could not be carried out, or found something wrong."""
    USAGE = 2
    """The command line, or the input, makes no sense."""
    NOT_FOUND = 3
    """There is no such job, queue, schedule or token."""
    CONFLICT = 5
    """The state does not allow it: an id that is taken, a job that has ended, a full queue."""
    STORE = 6
    """The store cannot be reached, opened or read."""
    JOB_FAILED = 7
    """The job that was waited for is dead or was cancelled."""
    PARTIAL = 8
    """Some of it was done, and some was not."""
    TIMEOUT = 124
    """It took longer than it was given."""
    INTERRUPTED = 130
    """Ctrl-C."""


# The first that fits counts, so the special ones stand before the general.
_CODES: Final[tuple[tuple[type[errors.LeaseholdError], Exit], ...]] = (
    (errors.JobNotFoundError, Exit.NOT_FOUND),
    (errors.QueueNotFoundError, Exit.NOT_FOUND),
    (errors.ScheduleNotFoundError, Exit.NOT_FOUND),
    (errors.TokenNotFoundError, Exit.NOT_FOUND),
    (errors.OperationNotFoundError, Exit.NOT_FOUND),
    (errors.WorkerNotFoundError, Exit.NOT_FOUND),
    (errors.ResultTimeoutError, Exit.TIMEOUT),
    (errors.JobFailedError, Exit.JOB_FAILED),
    (errors.JobCancelledError, Exit.JOB_FAILED),
    (errors.StoreError, Exit.STORE),
    (errors.DuplicateJobError, Exit.CONFLICT),
    (errors.IdempotencyConflictError, Exit.CONFLICT),
    (errors.InvalidTransitionError, Exit.CONFLICT),
    (errors.LeaseLostError, Exit.CONFLICT),
    (errors.QueueFullError, Exit.CONFLICT),
    (errors.QueueClosedError, Exit.CONFLICT),
    (errors.QueueExistsError, Exit.CONFLICT),
    (errors.QueueNotEmptyError, Exit.CONFLICT),
    (errors.TokenExistsError, Exit.CONFLICT),
    (errors.BackupExistsError, Exit.CONFLICT),
    (errors.UnsupportedError, Exit.USAGE),
    (errors.UnknownTaskError, Exit.USAGE),
)


def exit_for(error: errors.LeaseholdError) -> Exit:
    """The code for an error that a command did not deal with itself.

    >>> exit_for(errors.JobNotFoundError("there is no job 'x'")).name
    'NOT_FOUND'
    """
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    # What remains of our errors that are ValueErrors is input that makes no sense.
    return Exit.USAGE if isinstance(error, ValueError) else Exit.FAILURE

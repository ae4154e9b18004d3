# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""Waiting for jobs and reading their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, overload

from leasehold.blobs.blobs import Blobs
from leasehold.codec import CallCodec
from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.durations import Seconds, duration_text, given_seconds
from leasehold.core.model.job import Job
from leasehold.core.model.lease import Lease
from leasehold.core.model.phrases import counted
from leasehold.core.model.reason import Reason
from leasehold.core.model.status import Status
from leasehold.errors import (
    JobCancelledError,
    JobFailedError,
    LeaseholdError,
    ResultExpiredError,
    ResultTimeoutError,
)
from leasehold.interrupts import import_whole
from leasehold.queue.codecs import Codecs
from leasehold.queue.large import inline
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.looking import Looking
from leasehold.queue.options import JobRef, id_of, ids_of
from leasehold.queue.waiters import Ended, Waiters
from leasehold.queue.within import own_lease
from leasehold.worker.dependencies import decode_results, fetch_results

_IN_A_TASK: Final = (
    ". Job {} waits for it and keeps its slot meanwhile: submit what comes after it with "
    "depends_on, or as a workflow"
)


class Results:
    """The part of a TaskQueue that waits."""

    def __init__(
        self,
        looking: Looking,
        waiters: Waiters,
        codecs: Codecs,
        blobs: Blobs | None,
        lifecycle: Lifecycle,
        why: Callable[[Job], Reason],
    ) -> None:
        self._why = why
        self.blobs = blobs
        self._looking = looking
        self._waiters = waiters
        self._codecs = codecs
        self._bridge = lifecycle.bridge
        self._ensure_workers = lifecycle.ensure_workers

    @overload
    def wait(  # type: ignore[overload-overlap]  # A string is one id, not many letters.
        self, jobs: JobRef, timeout: Seconds | None = None
    ) -> Job: ...
    @overload
    def wait(self, jobs: Iterable[JobRef], timeout: Seconds | None = None) -> list[Job]: ...
    def wait(
        self, jobs: JobRef | Iterable[JobRef], timeout: Seconds | None = None
    ) -> Job | list[Job]:
        """Block until a job, or each of several, has ended, completed or not.

        Returns their last snapshots, in order. Raises ResultTimeoutError (a TimeoutError)
        when not all have ended after `timeout` seconds, and JobNotFoundError for an unknown id.
        """
        if isinstance(jobs, str) or not isinstance(jobs, Iterable):
            return self.wait_for([id_of(jobs, "jobs")], timeout)[0]
        return self.wait_for(ids_of(jobs), timeout)

    def get_result(self, job: JobRef, timeout: Seconds | None = None) -> Any:
        """The return value of the job's task. Waits for it.

        Raises JobFailedError if the job is dead, JobCancelledError if it was cancelled,
        ResultTimeoutError (a TimeoutError) when it has not ended after `timeout` seconds,
        ResultExpiredError when the result's time to live is over, and JobNotFoundError for an
        unknown id. A large result that cannot be read from the blob store raises a BlobError.
        """
        return self.result_of(self.wait(id_of(job), timeout))

    def result_of(self, job: Job, codec: CallCodec | None = None) -> Any:
        """The result in a job that has ended, or the error that says why there is none."""
        check_completed(job)
        if job.result_data is None:
            return None
        data, encoding = inline(self.blobs, job.result_data, job.result_codec)
        return (codec or self._codecs.codec_for(job.task)).decode_result(data, encoding)

    def dependency_results(self, job: JobRef) -> dict[str, Any]:
        """The results of the job's dependencies, by id, in the order of `depends_on`.

        Dependencies that have not completed are left out. Raises ResultExpiredError if the time to
        live of a result is over.
        """
        return decode_results(
            fetch_results(self._looking.store, id_of(job), self.blobs), self._codecs.codec_for
        )

    async def aget_result(self, job: JobRef, timeout: Seconds | None = None) -> Any:
        """`get_result`, to be awaited: no thread waits."""
        return await self.aresult_of(await self.await_end(job, timeout))

    async def aresult_of(self, job: Job, codec: CallCodec | None = None) -> Any:
        """`result_of`, to be awaited: a result in a blob store is read on another thread."""
        if job.result_codec == BLOB_CODEC:
            return await self._bridge().call(self.result_of, job, codec)
        return self.result_of(job, codec)

    async def await_end(self, job: JobRef, timeout: Seconds | None = None) -> Job:
        """`wait` for one job, to be awaited: no thread waits."""
        [ended] = await self.await_ends([job], timeout)
        return ended

    async def await_ends(self, jobs: Iterable[JobRef], timeout: Seconds | None = None) -> list[Job]:
        """`wait` for several jobs, to be awaited: no thread waits."""
        return await self.await_for(ids_of(jobs), timeout)

    # -- inside ------------------------------------------------------------------------------

    def wait_for(
        self, job_ids: list[str], timeout: Seconds | None, whole: float | None = None
    ) -> list[Job]:
        """Block until all of these have ended. `whole` is the caller's timeout, of which `timeout`
        is left.
        """
        timeout = None if timeout is None else given_seconds("timeout", timeout)
        self._ensure_workers()
        ended = self._waiters.wait(job_ids, timeout)
        return self._all_ended(job_ids, ended, whole or timeout, own_lease())

    async def await_for(
        self, job_ids: list[str], timeout: Seconds | None, whole: float | None = None
    ) -> list[Job]:
        """`wait_for`, to be awaited: no thread waits."""
        import_whole("leasehold.queue.awaiting")
        from leasehold.queue.awaiting import wait_for_end

        timeout = None if timeout is None else given_seconds("timeout", timeout)
        self._ensure_workers()
        ended = await wait_for_end(self._waiters, job_ids, timeout)
        return await self._bridge().call(
            self._all_ended, job_ids, ended, whole or timeout, own_lease()
        )

    def _all_ended(
        self,
        job_ids: list[str],
        ended: Mapping[str, Ended],
        timeout: float | None,
        waiting: Lease | None,
    ) -> list[Job]:
        """`waiting` is the lease of the task that waits, if one does."""
        # The time may be up before the first look, as it always is with a timeout of 0.
        found = {job_id: ended.get(job_id) or self._looking.get(job_id) for job_id in job_ids}
        late = [job for job in found.values() if isinstance(job, Job) and not job.is_terminal]
        if late:
            within = "" if timeout is None else f" within {counted(round(timeout, 3), 'second')}"
            verb = "has" if len(late) == 2 else "have"
            others = f", nor {verb} {counted(len(late) - 1, 'other')}" if len(late) > 1 else ""
            status = late[0].status
            # The reason of a running job already says that it runs.
            state = "" if status is Status.RUNNING else f" (it is {status.value})"
            raise ResultTimeoutError(
                f"job {late[0].id} has not ended{within}{state}{others}{self._reason(late[0])}"
                f"{'' if waiting is None else _IN_A_TASK.format(waiting.job_id)}"
            )
        return [_ended_job(found[job_id]) for job_id in job_ids]

    def _reason(self, job: Job) -> str:
        """Why a job has not ended, and which store was asked."""
        try:
            return f". {self._why(job)} Store: {self._looking.store}"
        except LeaseholdError:
            return ""  # Job or store is gone: the message has all that is known.


def check_completed(job: Job) -> None:
    """Raise the error that says why a job that has ended has no result."""
    if job.status is Status.CANCELLED:
        raise JobCancelledError(f"job {job.id} ({job.task}) was cancelled: {job.reason or '-'}")
    if job.status is Status.DEAD:
        raise _failure(job)
    if job.result_expired:
        raise ResultExpiredError(
            f"job {job.id} ({job.task}) is completed, but its result was only kept "
            f"for {duration_text(job.result_ttl_seconds or 0)} (result_ttl_seconds) and is gone"
        )


def _ended_job(outcome: Job | LeaseholdError) -> Job:
    """Return the result of a wait, or raise its error."""
    if isinstance(outcome, LeaseholdError):
        raise outcome
    return outcome


def _failure(job: Job) -> JobFailedError:
    error = job.error
    if error is None:
        return JobFailedError(
            f"job {job.id} ({job.task}) is dead: {job.reason or 'no reason given'}"
        )
    failure = JobFailedError(
        f"job {job.id} ({job.task}) is dead after {counted(job.attempts, 'attempt')}: "
        f"{error.type}: {error.message}",
        error_type=error.type,
        traceback=error.traceback,
    )
    if error.traceback:
        failure.add_note(f"In the worker:\n{error.traceback}")
    return failure

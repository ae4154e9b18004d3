# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""The result of a submit: the job's id, with methods for everything one may want to know or do
later.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from leasehold.codec import CallCodec
from leasehold.core.model.durations import Seconds
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.errors import JobNotFoundError

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

R = TypeVar("R")


class JobHandle(Generic[R]):
    """A submitted job. Every method that takes a job id takes a handle."""

    __slots__ = ("_codec", "_id", "_in_transaction", "_is_duplicate", "_queue")

    def __init__(
        self,
        queue: TaskQueue,
        job_id: str,
        codec: CallCodec | None,
        *,
        is_duplicate: bool = False,
        in_transaction: bool = False,
    ) -> None:
        """`in_transaction`: the job is there only once the caller's transaction commits."""
        self._queue = queue
        self._id = job_id
        self._codec = codec
        self._is_duplicate = is_duplicate
        self._in_transaction = in_transaction

    def __repr__(self) -> str:
        return f"JobHandle({self._id!r})"

    def __dir__(self) -> list[str]:
        """The names for applications, shown at a prompt."""
        return [name for name in super().__dir__() if not name.startswith("_")]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)

    @property
    def id(self) -> str:
        return self._id

    @property
    def is_duplicate(self) -> bool:
        """True if an earlier job with the same idempotency key was found; this handle is for that
        job.
        """
        return self._is_duplicate

    @property
    def progress(self) -> dict[str, Any] | None:
        """The progress that the task last reported by `current_job().progress(...)`."""
        return self.job().progress

    def job(self) -> Job:
        """A snapshot; raises JobNotFoundError if the job is gone."""
        try:
            return self._queue.get(self._id)
        except JobNotFoundError as error:
            raise self._not_there(error) from None

    def status(self) -> Status:
        return self._queue.get_status(self._id)

    def wait(self, timeout: Seconds | None = None) -> Job:
        """Block until the job has ended, well or badly, and return its last snapshot.

        Raises ResultTimeoutError if it has not ended after `timeout` seconds.
        """
        try:
            return self._queue.wait(self._id, timeout)
        except JobNotFoundError as error:
            raise self._not_there(error) from None

    def result(self, timeout: Seconds | None = None) -> R:
        """The task's return value. Waits for it.

        Raises JobFailedError if the job is dead, JobCancelledError if it was cancelled, and
        ResultTimeoutError (a TimeoutError) when it has not ended after `timeout` seconds.
        """
        return cast("R", self._queue.result_of(self.wait(timeout), self._codec))

    def position(self) -> int | None:
        """How many jobs of its queue are served before it; None once it is not pending."""
        return self._queue.position(self._id)

    def estimated_start(self) -> datetime | None:
        """When it will probably be leased; see `TaskQueue.estimated_start`."""
        return self._queue.estimated_start(self._id)

    def cancel(self, reason: str = "") -> Job:
        """Cancel the job: at once if it waits, as soon as its code stops if it runs."""
        return self._queue.cancel(self._id, reason)

    def _not_there(self, error: JobNotFoundError) -> JobNotFoundError:
        if not self._in_transaction:
            return error
        return JobNotFoundError(f"{error}, or its transaction is not committed yet")

    async def ajob(self) -> Job:
        """`job()`, to be awaited."""
        try:
            return await self._queue.aget(self._id)
        except JobNotFoundError as error:
            raise self._not_there(error) from None

    async def astatus(self) -> Status:
        """`status()`, to be awaited."""
        return await self._queue.aget_status(self._id)

    async def await_end(self, timeout: Seconds | None = None) -> Job:
        """`wait()`, to be awaited: no thread waits."""
        try:
            return await self._queue.await_end(self._id, timeout)
        except JobNotFoundError as error:
            raise self._not_there(error) from None

    async def aresult(self, timeout: Seconds | None = None) -> R:
        """`result()`, to be awaited: no thread waits."""
        return cast("R", await self._queue.aresult_of(await self.await_end(timeout), self._codec))

    async def aestimated_start(self) -> datetime | None:
        """`estimated_start()`, to be awaited."""
        return await self._queue.bridge().call(self._queue.estimated_start, self._id)

    async def acancel(self, reason: str = "") -> Job:
        """`cancel()`, to be awaited."""
        return await self._queue.acancel(self._id, reason)

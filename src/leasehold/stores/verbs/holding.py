"""What holders of leases say, each in a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from leasehold.core.model.joblog import LogLine, check_progress
from leasehold.core.model.lease import Renewal, Renewed
from leasehold.core.model.status import Event
from leasehold.core.rules import fence, holding
from leasehold.core.rules.fence import Histories
from leasehold.core.rules.holding import HolderBook
from leasehold.errors import LeaseLostError
from leasehold.stores.verbs.atomic import AtomicStore

T = TypeVar("T")


class HoldingVerbs(AtomicStore):
    """Renewals, progress, log lines, and events that change no status."""

    _holder_book: Callable[[Any], HolderBook[Any]]
    _histories: Callable[[Any], Histories[Any]]

    def _write_as_holder(self, operation: Callable[[Any], T]) -> T:
        """A holder writes only to the rows of its own leases."""
        return self._write(operation)

    def renew(self, worker: str, renewals: Sequence[Renewal]) -> list[Renewed | LeaseLostError]:
        return self._write_as_holder(
            lambda write: holding.renew(self._holder_book(write), worker, renewals)
        )

    def report_progress(self, job_id: str, version: int, progress: bytes) -> None:
        check_progress(job_id, progress)
        lost = self._write_as_holder(
            lambda write: holding.report_progress(
                self._holder_book(write), job_id, version, progress
            )
        )
        if lost is not None:
            raise lost

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        lost = self._write_as_holder(
            lambda write: holding.append_log(
                self._holder_book(write), job_id, version, lines, dropped
            )
        )
        if lost is not None:
            raise lost

    def tell(
        self, job_id: str, event: Event, *, worker: str | None, version: int, message: str
    ) -> None:
        self._write(
            lambda write: fence.tell(
                self._histories(write), job_id, event, worker, version, message
            )
        )

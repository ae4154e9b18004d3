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
        self._fenced(lambda book: holding.report_progress(book, job_id, version, progress))

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        self._fenced(lambda book: holding.append_log(book, job_id, version, lines, dropped))

    def _fenced(self, operation: Callable[[HolderBook[Any]], LeaseLostError | None]) -> None:
        """The refusal of a stale holder is written down, and raised only then."""
        lost = self._write_as_holder(lambda write: operation(self._holder_book(write)))
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

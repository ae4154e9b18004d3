"""What operations ask of a store: keeping their records, and finding the next jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leasehold.core.model.search import JobFilter
from leasehold.core.rules.undoing import OperationPart

if TYPE_CHECKING:
    from leasehold.core.rules.operations import Operation


class JobsToFind(NamedTuple):
    """What a reader should search for before the next write of an operation."""

    where: JobFilter
    limit: int
    cursor: str | None
    oldest_first: bool


class JobsFound(NamedTuple):
    """What a reader has found for the next write of an operation."""

    job_ids: Sequence[str]
    next_cursor: str | None


class OperationShelf(Protocol):
    """Where a store keeps its operations, inside one write."""

    @property
    def now(self) -> int:
        """The store's clock, in microseconds."""

    def find(self, operation_id: str) -> Operation | None:
        """An operation, locked against changes by other processes until this write is over."""

    def add(self, operation: Operation) -> None: ...

    def replace(self, operation: Operation) -> None: ...

    def add_part(self, operation_id: str, number: int, part: OperationPart) -> None:
        """Save the state of jobs before the operation's write with this number, from 0."""

    def part(self, operation_id: str, number: int) -> OperationPart | None: ...

    def forget_all_but(self, operations: int, with_parts: int) -> None:
        """Forget all but the latest operations, and the parts of all but the latest few."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None: ...
